"""Paraphrases by a model: what loses or adds a value is refused, what stays becomes a pattern."""

import re

import yaml

from stategate.trainers.webshop.paraphrases import generalised, paraphrase, resumed, write

PARTS = {
    "kind": "tea tins",
    "attributes": "air tight",
    "values": "sky blue",
    "limit": "at most 25 dollars",
}


def test_each_part_must_stay_once_and_nothing_come_in():
    kept = "Could you get tea tins, air tight and sky blue, at most 25 dollars?"
    pattern, why = generalised(kept, PARTS)
    assert pattern == "Could you get {kind}, [{attributes}] and [{values}], [{limit}]?"
    assert not why
    assert generalised("Get air tight tea tins, at most 25 dollars.", PARTS) == ("", "values lost")
    assert generalised(f"{kept} tea tins!", PARTS) == ("", "kind twice")
    assert generalised(f"{kept} Two for 9.", PARTS) == ("", "something added")


def test_a_stopped_run_goes_on_with_what_was_answered(tmp_path):
    calls: list[str] = []
    for _ in range(2):
        answer = resumed(lambda p: calls.append(p) or p.upper(), tmp_path / "replies.jsonl")
        assert [answer(p) for p in ("a", "b", "a")] == ["A", "B", "A"]
    assert calls == ["a", "b"]


def test_a_family_is_written_with_what_was_refused(tmp_path):
    def model(prompt):
        """Reword the opening, but lose what comes last in every other request."""
        request = prompt.partition("Request: ")[2]
        calls.append(request)
        return "Kindly: " + (request if len(calls) % 2 else re.sub(r"\w+\W*$", "", request))

    calls: list[str] = []
    patterns, refused = paraphrase(model, 12)
    assert patterns
    assert sum(refused.values()) + len(patterns) == 12
    assert all("{kind}" in pattern and "[{values}]" in pattern for pattern in patterns)
    write(tmp_path / "family.yaml", patterns, {"made by": "a test"})
    family = yaml.safe_load((tmp_path / "family.yaml").read_text())["paraphrased"]["paraphrase"]
    assert family["patterns"] == patterns
