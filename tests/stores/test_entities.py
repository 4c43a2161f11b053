"""Entities of any English text: names, kinds, topics, relations, attributes; by rules and by spaCy."""

import json
from pathlib import Path

import pytest
import yaml

import stategate.envs.qa.sample
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.entities import extractor_of
from stategate.stores.errors import UserError
from stategate.stores.memory.entities import other_names
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.names import kind_of, plain, proper_names, sentences
from stategate.stores.memory.records import Entity, Namespace, Relation
from tests.stores.test_long_term import turn

SAMPLE = Path(stategate.envs.qa.sample.__file__).parent
BOTH = pytest.mark.parametrize("kind", ["rules", "spacy"])


def named(kind, text):
    return {(e.kind, e.name) for e in extractor_of(kind)(text)[0]}


def told(kind, text):
    return {(r.subject.name, r.relation, r.object.name) for r in extractor_of(kind)(text)[1]}


@BOTH
def test_names_of_four_kinds_and_topics_are_found_in_a_text_of_any_field(kind):
    text = (
        "The bakery opened in Porto in 1911. Its owner, Dr. Amélia Pinto, had studied at the "
        "University of Coimbra. Pinto sold the bakery to Farinha & Sal Ltd, which won the "
        "Golden Crust Award for its bread. The bread is baked twice a day."
    )
    assert named(kind, text) >= {
        ("person", "Amélia Pinto"),
        ("location", "Porto"),
        ("organisation", "University of Coimbra"),
        ("organisation", "Farinha & Sal Ltd"),
        ("thing", "Golden Crust Award"),
        ("topic", "bakery"),
    }
    assert "Pinto" not in {name for _, name in named(kind, text)}  # a short form of the full name


@BOTH
@pytest.mark.parametrize(
    "text", ["", " \n\n ", "???", "'s", "A", "x" * 5000, '((( "" "A" "', "漢字 Ω"]
)
def test_any_text_is_read_without_an_error(kind, text):
    extract = extractor_of(kind)
    extract(text)
    extract.phrases(text)


@BOTH
def test_a_verb_between_two_names_is_their_relation(kind):
    text = "Jill Mikucki studied Blood Falls in Antarctica. Mei Tan married Otto Lind."
    assert told(kind, text) >= {
        ("Jill Mikucki", "studied", "Blood Falls"),
        ("Blood Falls", "located_in", "Antarctica"),
        ("Mei Tan", "married", "Otto Lind"),
    }


def test_a_parse_reads_the_passive_and_prepositions_of_verbs():
    text = "The opera Salt Road was composed by Chike Eze. Chike Eze lives in Cremona."
    assert told("spacy", text) == {
        ("Chike Eze", "composed", "Salt Road"),
        ("Chike Eze", "lives_in", "Cremona"),
    }


def test_names_that_share_a_sentence_only_are_related():
    text = "Sven Holt, as everybody at home remembers very well indeed, once met Ada Lund."
    assert told("rules", text) == {("Sven Holt", "related_to", "Ada Lund")}


@BOTH
@pytest.mark.parametrize(
    ("text", "name", "region"),
    [
        ("Red rain fell in Zamora, Spain.", "Zamora", "Spain"),
        ("It fell over Kerala, India in 2001.", "Kerala", "India"),
        ("It was seen in Kerala, Spain and Japan.", "Kerala", None),
        ("It was seen in Zamora, Leeds and Spain.", "Zamora", None),
    ],
)
def test_a_place_after_a_comma_is_the_region_and_lists_are_not(kind, text, name, region):
    entities, relations = extractor_of(kind)(text)
    (place,) = [entity for entity in entities if entity.name == name]
    assert place.attributes.get("region") == region
    located = [
        r.object.name for r in relations if (r.subject.name, r.relation) == (name, "located_in")
    ]
    assert located == ([region] if region else [])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("A brinicle, also known as an ice finger, grows down.", ["ice finger"]),
        ("A brinicle (also called ice stalactite) is brine.", ["ice stalactite"]),
        ("A brinicle is also known as the finger of death or tube.", ["finger of death", "tube"]),
        ("A brinicle is a tube. A seal is also known as a sea dog.", []),
        ("A brinicle is also known as brinicle.", []),
        ("A brinicle is a tube of ice.", []),
    ],
)
def test_other_names_are_those_of_the_sentence_that_holds_the_name(text, names):
    assert other_names(text, "Brinicle").get("also_known_as", []) == names


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("Lund", "Professor Lund said that it was late.", "person"),
        ("Lund", "The train stopped in Lund.", "location"),
        ("Nordlys", "She sailed on the ship Nordlys.", "thing"),
        ("Nordlys plc", "Shares of Nordlys plc fell.", "organisation"),
        ("Rivers Act", "Under the Rivers Act, fishing is free.", "thing"),
    ],
)
def test_the_surroundings_of_a_name_say_what_it_names(name, text, kind):
    assert kind_of(name, text) == kind


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("We met at the Victoria and Albert Museum.", ["Victoria and Albert Museum"]),
        ("The Town and Country Planning Act was passed.", ["Town and Country Planning Act"]),
        ("We saw the Louvre and the British Museum.", ["Louvre", "British Museum"]),
        (
            "She left the Department of Health and Social Care.",
            ["Department of Health and Social Care"],
        ),
        (
            "The Ministry of Food, Agriculture and Forestry and Siemens agreed.",
            ["Ministry of Food, Agriculture and Forestry", "Siemens"],
        ),
        (
            "The Department of Justice and Microsoft settled.",
            ["Department of Justice", "Microsoft"],
        ),
        ("The Bank of England and Deutsche Bank met.", ["Bank of England", "Deutsche Bank"]),
        ("The Office for National Statistics counts.", ["Office for National Statistics"]),
        ("The Council for Berlin met.", ["Council", "Berlin"]),
        (
            "Das Bundesministerium für Arbeit und Soziales schrieb.",
            ["Das Bundesministerium für Arbeit und Soziales"],
        ),
        ("They stayed near the Tower and Hyde Park.", ["Tower", "Hyde Park"]),
        ("I heard that Ada Holt and Bern University won.", ["Ada Holt", "Bern University"]),
        ("He won the Nobel and Pulitzer Prizes.", ["Nobel", "Pulitzer Prizes"]),
    ],
)
def test_a_name_of_two_with_one_head_is_one(text, names):
    assert [plain(name.text) for name in proper_names(text)] == names


def test_titles_articles_and_possessives_are_no_part_of_a_name():
    assert [plain(n) for n in ("the Royal Society's", "Dr. Ida Berg", "Duke of York")] == [
        "Royal Society",
        "Ida Berg",
        "Duke of York",
    ]


def test_a_title_or_a_wrapped_line_ends_no_sentence():
    assert sentences("Dr. Berg met\nMr. Lund. They talked.\n\nThen") == [
        "Dr. Berg met Mr. Lund.",
        "They talked.",
        "Then",
    ]


def test_attributes_are_kept_joined_and_found_by_the_other_name(tmp_path):
    memory, me = LongTerm(f"sqlite:///{tmp_path / 'm.sqlite'}"), Namespace("me")
    for step, words in enumerate(("known as ice finger", "called ice tube")):
        text = f"A brinicle, also {words}, grows in Nuuk, Greenland."
        entities, relations = extractor_of("rules")(text)
        memory.write(me, turn("Why?", text, step, entities=entities, relations=relations))
    (found,) = memory.graph(me, "where are ice fingers", (), 5, 0)[0]
    assert found.name == "brinicle"
    assert found.attributes == {"also_known_as": ["ice finger", "ice tube"]}
    (place,) = memory.graph(me, "nuuk", (), 5, 0)[0]
    assert place.attributes == {"region": "Greenland"}


def test_entities_and_relations_of_an_older_memory_are_read_as_they_are(tmp_path):
    memory, me = LongTerm(f"sqlite:///{tmp_path / 'm.sqlite'}"), Namespace("me")
    old, place = (
        Entity("phenomenon", "Brinicle"),
        Entity("location", "Nuuk", {"country": "Greenland"}),
    )
    relation = Relation(old, "occurs_in", place)
    memory.write(me, turn("Where?", "There.", entities=(old, place), relations=(relation,)))
    assert memory.graph(me, "brinicle in nuuk", (), 5, 5) == ([old, place], [relation])


def replies(*texts):
    from stategate.graph.config import load_config

    return Resources(load_config({"llm": {"kind": "fake", "replies": texts}}).llm)


def test_the_model_lists_entities_and_what_the_text_does_not_hold_is_left_out():
    reply = {
        "entities": [
            {"kind": "person", "name": "Dr. Ida Berg"},
            {"kind": "location", "name": "Atlantis"},
            {"kind": "animal", "name": "dog"},
            {"kind": "topic", "name": "dog"},
        ],
        "relations": [{"subject": "Ida Berg", "relation": "walked with", "object": "dog"}],
    }
    extract = extractor_of("model", replies(f"```json\n{json.dumps(reply)}\n```"))
    entities, relations = extract("Dr. Ida Berg walked with her dog.")
    assert [(e.kind, e.name) for e in entities] == [("person", "Ida Berg"), ("topic", "dog")]
    assert [(r.subject.name, r.relation) for r in relations] == [("Ida Berg", "walked_with")]


def test_a_reply_that_breaks_off_is_read_as_far_as_it_goes():
    extract = extractor_of(
        "model", replies('{"entities": [{"kind": "person", "name": "Ida Berg"}, {"k')
    )
    assert [e.name for e in extract("Ida Berg left.")[0]] == ["Ida Berg"]


def test_a_reply_that_the_client_refuses_at_the_limit_is_read_all_the_same(monkeypatch):
    from types import SimpleNamespace as Is

    from openai import LengthFinishReasonError

    message = Is(content='{"entities": [{"kind": "person", "name": "Ida Berg"}, {')
    error = LengthFinishReasonError(
        completion=Is(usage=None, choices=[Is(message=message)])  # type: ignore[arg-type]
    )

    def refuse(*args, **more):
        raise error

    extract = extractor_of("model", replies("unused"))
    monkeypatch.setattr("stategate.nodes.retrieval.entities.ask", refuse)
    assert [e.name for e in extract("Ida Berg left.")[0]] == ["Ida Berg"]
    assert extract.fallbacks == 0


def test_an_unreadable_reply_falls_back_to_spacy_and_is_counted(caplog):
    extract = extractor_of("model", replies("I cannot do that."))
    assert ("person", "Ida Berg") in {(e.kind, e.name) for e in extract("Ida Berg left Oslo.")[0]}
    assert (extract.calls, extract.fallbacks) == (1, 1)
    assert "unreadable reply" in caplog.text


def test_a_missing_package_is_one_line_that_names_the_extra(monkeypatch):
    import stategate.nodes.retrieval.entities as module

    module._local.cache_clear()
    monkeypatch.setattr("stategate.stores.memory.entity_spacy.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'stategate\[qa\]'"):
        extractor_of("spacy")
    assert extractor_of("rules")


def test_the_model_extractor_needs_a_configured_model():
    with pytest.raises(UserError, match="language model"):
        extractor_of("model", Resources())


def test_every_mark_stands_in_its_article():
    for article in yaml.safe_load((SAMPLE / "articles.yaml").read_text(encoding="utf-8")):
        text = " ".join(article["text"].split())
        for kind in ("person", "location", "organisation", "thing"):
            assert not [name for name in article[kind] if name not in text], article["id"]
        assert not [topic for topic in article["topic"] if topic not in text.lower()]
