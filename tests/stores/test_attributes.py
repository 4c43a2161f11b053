"""Attributes of entities: read from the text, kept as JSON, found again by another name."""

import pytest

from stores.memory.attributes import country_of, other_names
from stores.memory.entities import rules
from stores.memory.long_term import LongTerm
from stores.memory.records import Namespace
from tests.stores.test_long_term import turn


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
)  # fmt: skip
def test_other_names_are_those_of_the_sentence_that_names_the_phenomenon(text, names):
    assert other_names(text, "Brinicle").get("also_known_as", []) == names


@pytest.mark.parametrize(
    ("text", "name", "country"),
    [
        ("Red rain fell in Zamora, Spain.", "Zamora", "Spain"),
        ("It fell over Kerala, India in 2001.", "Kerala", "India"),
        ("It was seen in Kerala, Spain and Japan.", "Kerala", None),
        ("It was seen in Zamora, Leeds and Spain.", "Zamora", None),
        ("Seen in Spain, India.", "Spain", None),
        ("Near Zamora, Turkey Creek is red.", "Zamora", None),
    ],
)
def test_a_country_after_a_comma_is_the_places_own_and_lists_are_not(text, name, country):
    assert country_of(text, name).get("country") == country


def test_attributes_are_kept_joined_and_found_by_the_other_name(tmp_path):
    memory, me = LongTerm(f"sqlite:///{tmp_path / 'm.sqlite'}"), Namespace("me")
    memory.write(me, turn("What?", "A brinicle, also known as ice finger, is brine.", 0))
    memory.write(
        me, turn("Why?", "A brinicle, also called ice tube, falls near Nuuk, Greenland.", 1)
    )
    entities, _ = memory.graph(me, "where are ice fingers", (), 5, 0)
    (found,) = entities
    assert found.name == "Brinicle"
    assert found.attributes == {"also_known_as": ["ice finger", "ice tube"]}
    (place,) = memory.graph(me, "nuuk", (), 5, 0)[0]
    assert place.attributes == {"country": "Greenland"}


def test_the_extractor_fills_attributes_also_in_relations():
    _, relations = rules("A brinicle, also known as ice finger, grows near Nuuk, Greenland.")
    told = {r.object.name: r for r in relations}["Nuuk"]
    assert told.subject.attributes == {"also_known_as": ["ice finger"]}
    assert told.object.attributes == {"country": "Greenland"}
