"""Evidence recall: the published formats with their oddities, the metrics by hand, the made-up sets."""

import json

import pytest

from stategate.evals.memory.answers import is_right
from stategate.evals.memory.evidence import measured
from stategate.evals.memory.published import (
    FAMILIES,
    Question,
    moment,
    read_bfcl,
    read_locomo,
    read_longmemeval,
)
from stategate.evals.settings import Answers, Locomo, Longmemeval
from stategate.stores.errors import UserError


def said(id_, speaker, text, **more):
    return {"speaker": speaker, "dia_id": id_, "text": text, **more}


def asked(question, category=4, evidence=(), **more):
    return {"question": question, "category": category, "evidence": evidence, **more}


BOAT = asked("What is Bo's boat called?", evidence=["D1:2"], answer=7)
NOBODY = asked("Who is Zed?", category=5, evidence=[], adversarial_answer="x")


def locomo_file(tmp_path, *questions, **sessions):
    """Write one conversation of two sessions, and of further ones, with its oddities of dates."""
    conversation = {
        "session_1": [
            said("D1:1", "Ann", "What is your boat called?"),
            said("D1:2", "Bo", "It is called Pelican.", blip_caption="a photo of a blue boat"),
            said("D1:3", "Ann", "Nice weather."),
        ],
        "session_2": [
            said("D2:1", "Bo", "I sold the tractor."),
            said("D2:2", "Ann", "A tractor, really?"),
        ],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_2_date_time": "10:04 am on 1 June, 2023",
        "session_3_date_time": "x",
        **sessions,
    }
    qa = list(questions) or [BOAT, NOBODY]
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([{"sample_id": "c", "qa": qa, "conversation": conversation}]))
    return path


def longmemeval_file(tmp_path, **more):
    """Write one history of two sessions, the later one first, and the same with nothing to find."""
    row = {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "Which bike?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["late", "early"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/01 (Mon) 10:00"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "My bike is red now.", "has_answer": True},
                {"role": "assistant", "content": None},
            ],
            [{"role": "user", "content": "Hello."}],
        ],
        "answer_session_ids": ["late"],
        **more,
    }
    path = tmp_path / "lme.json"
    path.write_text(json.dumps([row, {**row, "question_id": "q2_abs"}]))
    return path


def run(tmp_path, file, agents=("bm25",), kind=Locomo):
    how = {"overrides": ("embedder.kind=hashing",), "out": str(tmp_path / "run")}
    return kind(file=str(file), agents=agents, **how).run()


def test_locomo_is_read_with_dates_captions(tmp_path):
    [talk] = read_locomo(locomo_file(tmp_path))
    assert [turn.session for turn in talk.turns] == ["S1"] * 3 + ["S2"] * 2
    assert talk.turns[0].at == moment("2023-05-08 13:56:00")
    assert talk.turns[1].text == "It is called Pelican. [a photo of a blue boat]"
    first, second = talk.questions
    assert (first.category, first.turns) == ("single-hop", ("D1:2",))
    assert first.sessions == ("S1",)
    assert (second.category, second.answerable, second.turns) == ("adversarial", False, ())


@pytest.mark.parametrize(
    ("evidence", "turns"),
    [
        (["D1:1; D2:2"], ("D1:1", "D2:2")),
        (["D1:1 D2:1", "D1:1"], ("D1:1", "D2:1")),
        (["D:1:2"], ("D1:2",)),
        (["D2:01"], ("D2:1",)),
        (["D9:4", "D1:3"], ("D1:3",)),
        (["D"], ()),
        ("D1:2", ("D1:2",)),
        (None, ()),
    ],
)
def test_evidence_of_locomo_is_read_however_it_is_written(tmp_path, evidence, turns):
    path = locomo_file(tmp_path, asked("Why?", "3", evidence, answer=None))
    [question] = read_locomo(path)[0].questions
    assert (question.turns, question.category) == (turns, "open-domain")


def test_sessions_of_locomo_may_be_empty_missing_and_of_pictures_alone(tmp_path):
    picture = {**said("D30:5", "Bo", None, blip_caption="two photos of a dog"), "query": "dog"}
    sessions = {"session_4": None, "session_5": [], "session_30": [picture]}
    question = asked("What did Ann sell?", 5, ["D30:05", "D:2:1"], adversarial_answer="x")
    path = locomo_file(tmp_path, BOAT, question, NOBODY, **sessions)
    [talk] = read_locomo(path)
    assert list(dict.fromkeys(turn.session for turn in talk.turns)) == ["S1", "S2", "S30"]
    assert talk.turns[5].text == " [two photos of a dog]"
    assert talk.turns[5].at is None
    odd = talk.questions[1]  # it counts: its evidence is the other person's
    assert (odd.answerable, odd.turns, odd.sessions) == (False, ("D30:5", "D2:1"), ("S30", "S2"))
    [total, *_] = run(tmp_path, path)["rows"]
    assert (total["n"], total["asked"]) == (2, 3)
    assert total["turn_any_10"] == 1


def test_longmemeval_is_read_by_turn_and_session_and_abstention(tmp_path):
    first, second = read_longmemeval(longmemeval_file(tmp_path))
    assert [turn.at for turn in first.turns] == sorted(turn.at for turn in first.turns)
    [question] = first.questions
    assert (question.turns, question.sessions) == (("S0:0",), ("S0",))
    assert question.at == moment("2023-05-30 23:40:00")
    [other] = second.questions
    assert (other.category, other.answerable, other.turns) == ("abstention", False, ())


def test_a_session_of_longmemeval_may_be_there_twice_empty_or_undated(tmp_path):
    twice = [{"role": "user", "content": "It was in May.", "has_answer": True}]
    odd = {
        "haystack_session_ids": ["a", "a", "b"],
        "answer_session_ids": ["a"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "someday", "2023/05/01 (Mon) 10:00"],
        "haystack_sessions": [twice, [{"role": "user", "content": "Yes."}], []],
    }
    path = longmemeval_file(tmp_path, **odd)
    talk = read_longmemeval(path)[0]
    assert {turn.session for turn in talk.turns} == {"S0", "S1"}
    assert talk.questions[0].sessions == ("S0", "S1")
    [total, *_] = run(tmp_path, path, kind=Longmemeval)["rows"]
    assert (total["n"], total["asked"]) == (1, 2)


def test_a_file_in_another_format_is_refused_in_one_line(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps([{"sample_id": 1}]))
    for read in (read_locomo, read_longmemeval):
        with pytest.raises(UserError) as error:
            read(path)
        assert "\n" not in str(error.value)
    path.write_text("{}")
    with pytest.raises(UserError, match="list"):
        read_locomo(path)


def test_metrics_by_hand(tmp_path):
    [talk] = read_locomo(locomo_file(tmp_path, asked("Which?", evidence=["D1:2", "D2:1"]), NOBODY))
    values = measured(talk, talk.questions[0], ["D1:3", "D1:2"], ["D1:3"])
    assert [values[f"turn_{rule}_1"] for rule in ("any", "all", "share")] == [0, 0, 0]
    assert [values[f"turn_{rule}_5"] for rule in ("any", "all", "share")] == [1, 0, 0.5]
    assert [values[f"session_{rule}_1"] for rule in ("any", "all")] == [1, 0]
    assert (values["session_all_5"], values["turn_any_in600"]) == (0, 0)
    assert measured(talk, talk.questions[1], ["D1:1"], []) == {}


def test_a_run_has_rows_by_category_intervals_and_pairs(tmp_path):
    file, agents = locomo_file(tmp_path), ("bm25", "memory")
    summary = run(tmp_path, file, agents)
    rows = {(r["agent"], r["category"]): r for r in summary["rows"]}
    assert rows["bm25", "single-hop"]["turn_any_5"] == 1.0
    assert rows["memory", "all"]["turn_any_5"] == 1.0
    assert (rows["bm25", "all"]["n"], rows["bm25", "all"]["asked"]) == (1, 2)
    assert {(t["a"], t["b"]) for t in summary["tests"]} == {("bm25", "memory")}
    assert run(tmp_path, file, agents)["rows"] == summary["rows"]
    with pytest.raises(UserError, match="bm26"):
        run(tmp_path, file, ("bm26",))


def test_the_families_that_ship_are_read_and_their_evidence_is_there():
    for family in FAMILIES:
        talks = read_locomo(family)
        assert len(talks) >= 12
        assert sum(len(talk.questions) for talk in talks) >= 190
        assert all(q.turns for talk in talks for q in talk.questions if q.answerable)


def bfcl_folder(tmp_path):
    """Write one setting of BFCL's memory questions: two sessions, a question with its quotation."""
    sessions = [
        [[{"role": "user", "content": "I keep two goats."}]],
        [[{"role": "user", "content": "The vet is Dr. Ruiz."}]],
    ]
    asked_ = {
        "id": "memory_0-farm-0",
        "scenario": "farm",
        "question": [[{"role": "user", "content": "Who is my vet?"}]],
    }
    rows = {
        "BFCL_v4_memory.json": [asked_],
        "possible_answer/BFCL_v4_memory.json": [
            {"id": "memory_0-farm-0", "ground_truth": ["Ruiz"], "source": "The vet is Dr. Ruiz"}
        ],
        "memory_prereq_conversation/memory_farm.json": [{"question": one} for one in sessions],
    }
    for name, lines in rows.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def test_bfcl_is_read_by_quotation(tmp_path):
    (talk,) = read_bfcl(bfcl_folder(tmp_path))
    assert [turn.text for turn in talk.turns] == ["I keep two goats.", "The vet is Dr. Ruiz."]
    assert talk.questions[0].turns == (talk.turns[1].id,)
    with pytest.raises(UserError, match="name BFCL's data folder"):
        read_bfcl(tmp_path / "memory_prereq_conversation")


def test_answers_are_right_where_they_hold_an_accepted_string(tmp_path):
    models = ["llm={kind: fake, replies: [It is Dr. Ruiz.]}", "embedder.kind=hashing"]
    settings = {"file": str(bfcl_folder(tmp_path / "in")), "overrides": models}
    summary = Answers(out=str(tmp_path / "run"), **settings).run()
    rows = {row["agent"]: row for row in summary["rows"]}
    assert [row["right"] for row in rows.values()] == [1.0] * 4
    assert rows["nothing"]["tokens"] < rows["recall"]["tokens"]
    assert not is_right(Question("q", "?", "c", (), (), answerable=False), "It is Dr. Ruiz.")
    assert is_right(Question("q", "?", "c", (), (), answerable=False), "Unknown.")
