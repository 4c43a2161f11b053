"""Evidence recall: the published formats with their oddities, the metrics by hand, the made-up sets."""

import json

import pytest
from pydantic import ValidationError

from stategate.evals.memory.answers import is_right
from stategate.evals.memory.evidence import measured
from stategate.evals.memory.published import (
    FAMILIES,
    Question,
    moment,
    read_conversations,
)
from stategate.evals.settings import Answers, Evidence
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from tests.kit import FakeLlm


def said(id_, speaker, text, **more):
    return {"speaker": speaker, "dia_id": id_, "text": text, **more}


BOAT = {"question": "What is Bo's boat called?", "category": 4, "evidence": ["D1:2"], "answer": 7}
NOBODY = {"question": "Who is Zed?", "category": 5, "evidence": [], "adversarial_answer": "x"}


def locomo_file(tmp_path, *questions):
    """Write one conversation, with the published file's oddities of dates, ids and pictures."""
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
        "session_4": None,
        "session_5": [],
        "session_30": [said("D30:5", "Bo", None, blip_caption="two photos of a dog")],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_2_date_time": "10:04 am on 1 June, 2023",
        "session_3_date_time": "x",
    }
    qa = list(questions) or [BOAT, NOBODY]
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([{"sample_id": "c", "qa": qa, "conversation": conversation}]))
    return path


def longmemeval_file(tmp_path):
    """Write one history, the later session first, one of them twice, and one with nothing to find."""
    row = {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "Which bike?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["late", "late", "early", "empty"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "someday", "2023/05/01 (Mon) 10:00", ""],
        "haystack_sessions": [
            [
                {"role": "user", "content": "My bike is red now.", "has_answer": True},
                {"role": "assistant", "content": None},
            ],
            [{"role": "user", "content": "Yes."}],
            [{"role": "user", "content": "Hello."}],
            [],
        ],
        "answer_session_ids": ["late"],
    }
    path = tmp_path / "lme.json"
    path.write_text(json.dumps([row, {**row, "question_id": "q2_abs"}]))
    return path


def run(tmp_path, file, agents=("bm25",)):
    how = {"overrides": ("embedder.kind=hashing",), "out": str(tmp_path / "run")}
    return Evidence(file=str(file), agents=agents, **how).run()


#: The evidence of a question as the file writes it: turns, sessions.
EVIDENCE = [
    (["D1:1; D2:2"], ("D1:1", "D2:2"), ("S1", "S2")),
    (["D1:1 D2:1", "D1:1"], ("D1:1", "D2:1"), ("S1", "S2")),
    (["D:1:2"], ("D1:2",), ("S1",)),
    (["D30:05", "D:2:1"], ("D30:5", "D2:1"), ("S30", "S2")),
    (["D9:4", "D1:3"], ("D1:3",), ("S1",)),
    (["D"], (), ()),
    ("D1:2", ("D1:2",), ("S1",)),
    (None, (), ()),
]


def test_locomo_is_read_with_its_oddities(tmp_path):
    rows = [{**BOAT, "category": "3", "evidence": evidence} for evidence, *_ in EVIDENCE]
    [talk] = read_conversations(locomo_file(tmp_path, *rows, NOBODY))
    assert [turn.session for turn in talk.turns] == ["S1"] * 3 + ["S2"] * 2 + ["S30"]
    assert (talk.turns[0].at, talk.turns[5].at) == (moment("2023-05-08 13:56:00"), None)
    assert talk.turns[1].text == "It is called Pelican. [a photo of a blue boat]"
    assert talk.turns[5].text == " [two photos of a dog]"
    *questions, nobody = talk.questions
    assert [(q.turns, q.sessions) for q in questions] == [(t, s) for _, t, s in EVIDENCE]
    assert {q.category for q in questions} == {"open-domain"}
    assert (nobody.category, nobody.answerable, nobody.turns) == ("adversarial", False, ())


def test_longmemeval_is_read_by_turn_and_session_and_abstention(tmp_path):
    path = longmemeval_file(tmp_path)
    first, second = read_conversations(path)
    assert {turn.session for turn in first.turns} == {"S0", "S1", "S2"}
    assert [turn.text for turn in first.turns] == ["Yes.", "Hello.", "My bike is red now.", ""]
    [question] = first.questions
    assert (question.turns, question.sessions) == (("S0:0",), ("S0", "S1"))
    assert question.at == moment("2023-05-30 23:40:00")
    [other] = second.questions
    assert (other.category, other.answerable, other.turns) == ("abstention", False, ())
    [total, *_] = run(tmp_path, path)["rows"]
    assert (total["n"], total["asked"]) == (1, 2)


def test_a_file_in_another_format_is_refused_in_one_line(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps([{"sample_id": 1}]))
    what = r"\A.* entry 0 is not as LoCoMo, LongMemEval or BFCL have it \(KeyError: '{}'\)\Z"
    for row, missing in (({"sample_id": 1}, "conversation"), ({"haystack_sessions": []}, "x")):
        path.write_text(json.dumps([row]))
        with pytest.raises(UserError, match=what.format(missing) if missing != "x" else r"\A.+\Z"):
            read_conversations(path)
    path.write_text("{}")
    with pytest.raises(UserError, match="list"):
        read_conversations(path)


def test_metrics_by_hand(tmp_path):
    question = {**BOAT, "evidence": ["D1:2", "D2:1"]}
    [talk] = read_conversations(locomo_file(tmp_path, question, NOBODY))
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
    with pytest.raises(ValidationError, match="bm26"):
        run(tmp_path, file, ("bm26",))


def test_the_families_that_ship_are_read_and_their_evidence_is_there():
    for family in FAMILIES:
        talks = read_conversations(family)
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
    (talk,) = read_conversations(bfcl_folder(tmp_path))
    assert [turn.text for turn in talk.turns] == ["I keep two goats.", "The vet is Dr. Ruiz."]
    assert talk.questions[0].turns == (talk.turns[1].id,)
    with pytest.raises(UserError, match="name BFCL's data folder"):
        read_conversations(tmp_path / "memory_prereq_conversation")


def test_answers_are_right_where_they_hold_an_accepted_string(tmp_path, monkeypatch):
    monkeypatch.setitem(registry().slots["llm"], "fake", FakeLlm)
    models = ["llm={kind: fake, replies: [It is Dr. Ruiz.]}", "embedder.kind=hashing"]
    settings = {"file": str(bfcl_folder(tmp_path / "in")), "overrides": models}
    summary = Answers(out=str(tmp_path / "run"), **settings).run()
    rows = {row["agent"]: row for row in summary["rows"]}
    assert [row["right"] for row in rows.values()] == [1.0] * 4
    assert rows["nothing"]["tokens"] < rows["recall"]["tokens"]
    with pytest.raises(UserError, match="accepted answer"):
        Answers(out=str(tmp_path / "none"), file="home", overrides=models).run()
    assert not is_right(Question("q", "?", "c", (), (), answerable=False), "It is Dr. Ruiz.")
    assert is_right(Question("q", "?", "c", (), (), answerable=False), "Unknown.")
