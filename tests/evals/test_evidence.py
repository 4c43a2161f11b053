"""Evidence recall: the published formats with their oddities, the metrics by hand, the made-up sets."""

import json

import pytest

from stategate.evals.memory.evidence import measured, run_evidence
from stategate.evals.memory.generated import generate, generated_text
from stategate.evals.memory.published import moment, read_locomo, read_longmemeval
from stategate.evals.settings import Locomo, Longmemeval
from stategate.stores.errors import UserError


def run(tmp_path, file, agents=("bm25",), kind=Locomo):
    how = {"overrides": ("embedder.kind=hashing",), "out": str(tmp_path / "run")}
    return run_evidence(kind(file=str(file), agents=agents, **how))


def locomo_file(tmp_path, evidence=("D1:2",), **more):
    turns = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "What is your boat called?"},
        {
            "speaker": "Bo",
            "dia_id": "D1:2",
            "text": "My boat is called Pelican.",
            "img_url": ["x"],
            "blip_caption": "a photo of a blue boat",
        },
        {"speaker": "Ann", "dia_id": "D1:3", "text": "Nice weather."},
    ]
    second = [
        {"speaker": "Bo", "dia_id": "D2:1", "text": "I sold the tractor."},
        {"speaker": "Ann", "dia_id": "D2:2", "text": "A tractor, really?"},
    ]
    qa = {
        "question": "What is Bo's boat called?",
        "answer": 7,
        "evidence": list(evidence),
        "category": 4,
        **more,
    }
    sample = {
        "sample_id": "conv-1",
        "qa": [
            qa,
            {"question": "Who is Zed?", "adversarial_answer": "x", "category": 5, "evidence": []},
        ],
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bo",
            "session_1": turns,
            "session_2": second,
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_2_date_time": "10:04 am on 1 June, 2023",
            "session_3_date_time": "x",
        },
    }
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([sample]))
    return path


def test_locomo_is_read_with_dates_captions_and_numbers_as_answers(tmp_path):
    [talk] = read_locomo(locomo_file(tmp_path))
    assert [s.id for s in talk.sessions] == ["S1", "S2"]
    assert talk.sessions[0].at == moment("2023-05-08 13:56:00")
    assert talk.sessions[0].turns[1].caption == "a photo of a blue boat"
    first, second = talk.questions
    assert (first.answer, first.category, first.turns, first.sessions) == (
        "7",
        "single-hop",
        ("D1:2",),
        ("S1",),
    )
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
    ],
)
def test_evidence_of_locomo_is_read_however_it_is_written(tmp_path, evidence, turns):
    path = locomo_file(tmp_path, evidence=evidence if isinstance(evidence, list) else [evidence])
    assert read_locomo(path)[0].questions[0].turns == turns


def test_longmemeval_is_read_by_turn_and_session_and_abstention(tmp_path):
    row = {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "Which bike?",
        "answer": "a red one",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["late", "early"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/01 (Mon) 10:00"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "My bike is red now.", "has_answer": True},
                {"role": "assistant", "content": "Noted."},
            ],
            [{"role": "user", "content": "Hello."}],
        ],
        "answer_session_ids": ["late"],
    }
    path = tmp_path / "lme.json"
    path.write_text(json.dumps([row, {**row, "question_id": "q2_abs"}]))
    first, second = read_longmemeval(path)
    assert [s.at for s in first.sessions] == sorted(s.at for s in first.sessions)
    [question] = first.questions
    assert (question.turns, question.sessions) == (("S0:0",), ("S0",))
    assert question.at == moment("2023-05-30 23:40:00")
    [other] = second.questions
    assert (other.category, other.answerable, other.turns) == ("abstention", False, ())


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
    path = locomo_file(tmp_path, evidence=["D1:2", "D2:1"])
    [talk] = read_locomo(path)
    values = measured(talk, talk.questions[0], ["D1:3", "D1:2"], ["D1:3"])
    assert [values[f"turn_{rule}_1"] for rule in ("any", "all", "share")] == [0, 0, 0]
    assert [values[f"turn_{rule}_5"] for rule in ("any", "all", "share")] == [1, 0, 0.5]
    assert [values[f"session_{rule}_1"] for rule in ("any", "all")] == [1, 0]
    assert values["session_all_5"] == 0
    assert values["turn_any_in600"] == 0
    assert measured(talk, talk.questions[1], ["D1:1"], []) == {}


def test_a_run_has_rows_by_category_intervals_and_pairs(tmp_path):
    file, agents = locomo_file(tmp_path), ("bm25", "memory")
    summary = run(tmp_path, file, agents)
    rows = {(r["agent"], r["category"]): r for r in summary["rows"]}
    assert rows["bm25", "single-hop"]["turn_any_1"] == 1.0
    assert rows["memory", "all"]["turn_any_1"] == 1.0
    assert (rows["bm25", "all"]["n"], rows["bm25", "all"]["asked"]) == (1, 2)
    assert {(t["a"], t["b"]) for t in summary["tests"]} == {("bm25", "memory")}
    assert run(tmp_path, file, agents)["rows"] == summary["rows"]
    with pytest.raises(UserError, match="bm26"):
        run(tmp_path, file, ("bm26",))


@pytest.mark.parametrize("family", ["home", "work"])
def test_made_up_conversations_are_the_same_again_and_name_turns_that_are_there(family):
    assert generated_text(family, 2) == generated_text(family, 2)
    talks = generate(family, 12)
    assert len(talks) == 12
    for talk in talks:
        said = {
            t["dia_id"]: t["text"]
            for v in talk["conversation"].values()
            if isinstance(v, list)
            for t in v
        }
        assert sum(key.endswith("date_time") for key in talk["conversation"]) >= 15
        assert not [text for text in said.values() if "{" in text]
        for qa in talk["qa"]:
            assert "{" not in qa["question"] + str(qa.get("answer", ""))
            assert set(qa["evidence"]) <= said.keys()
            if qa["category"] == 4:  # a single hop: the answer stands in its turn
                text = " ".join(said[id_] for id_ in qa["evidence"]).lower()
                assert qa["answer"].lower() in text, qa
    assert sum(len(talk["qa"]) for talk in talks) >= 400


def test_what_is_odd_in_locomos_file_is_read_all_the_same(tmp_path):
    [sample] = json.loads(locomo_file(tmp_path).read_text())
    talk = sample["conversation"]
    talk["session_1"][2] |= {
        "text": None,
        "img_url": ["a", "b"],
        "blip_caption": "two photos of a dog",
        "query": "dog",
        "re-download": True,
    }
    del talk["session_2"][1]["text"]
    talk |= {"session_4": None, "session_5": [], "session_30_date_time": "3:00 pm on 1 May, 2024"}
    talk["session_30"] = [
        {"speaker": "Bo", "dia_id": "D30:5", "text": "I sold the tractor to Zed."}
    ]
    sample["qa"] += [
        {
            "question": "What did Ann sell?",
            "category": 5,
            "evidence": ["D30:05", "D:2:1"],
            "adversarial_answer": "the tractor",
        },
        {
            "question": "What does the photo show?",
            "category": "3",
            "evidence": None,
            "answer": None,
        },
        {
            "question": "Whose?",
            "category": 1,
            "evidence": ["D4:1", "D1:1; D30:5 D2:1"],
            "answer": 3,
        },
    ]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps([sample]))
    [read] = read_locomo(path)
    assert [s.id for s in read.sessions] == ["S1", "S2", "S30"]
    assert read.sessions[0].turns[2].text == ""
    assert read.sessions[0].turns[2].caption == "two photos of a dog"
    adversarial, nothing, several = read.questions[2:]
    assert (adversarial.category, adversarial.answerable) == ("adversarial", False)
    assert adversarial.turns == ("D30:5", "D2:1")  # it counts: its evidence is the other person's
    assert adversarial.sessions == ("S30", "S2")
    assert (nothing.category, nothing.answer, nothing.turns) == ("open-domain", "", ())
    assert several.turns == ("D1:1", "D30:5", "D2:1")
    [total, *_] = run(tmp_path, path)["rows"]
    assert (total["n"], total["asked"]) == (3, 5)
    assert 0 <= total["turn_all_10"] <= total["turn_any_10"] == 1


def test_what_is_odd_in_longmemevals_file_is_read_all_the_same(tmp_path):
    row = {
        "question_id": "gpt4_1_abs",
        "question_type": "temporal-reasoning",
        "question": "When?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["a", "a", "b"],
        "answer_session_ids": ["a"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "someday", "2023/05/01 (Mon) 10:00"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "It was in May.", "has_answer": True},
                {"role": "assistant", "content": None, "has_answer": False},
            ],
            [{"role": "user", "content": "It was in May."}],
            [],
        ],
    }
    path = tmp_path / "lme.json"
    path.write_text(json.dumps([row, {**row, "question_id": "gpt4_1"}]))
    absent, present = read_longmemeval(path)
    assert (absent.questions[0].category, absent.questions[0].turns) == ("abstention", ())
    [question] = present.questions
    assert (question.category, question.answer) == ("temporal-reasoning", "3")
    assert (question.turns, question.sessions) == (("S0:0",), ("S0", "S1"))
    assert len(present.sessions) == 2
    [total, *_] = run(tmp_path, path, kind=Longmemeval)["rows"]
    assert (total["n"], total["asked"]) == (1, 2)
