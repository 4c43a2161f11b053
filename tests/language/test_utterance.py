"""What an utterance is for: the reader that ships, on sentences of a writer who taught it nothing."""

from pathlib import Path

import pytest

from stategate.language.utterance import content_of, is_same_wish, read_sentences, read_utterance
from stategate.stores.runs import read_rows

ROWS = Path(__file__).parents[2] / "trainers" / "data" / "utterances.jsonl"


def test_the_reader_that_ships_reads_a_stranger_s_sentences() -> None:
    rows = [row for row in read_rows(ROWS) if row.get("split") == "held out"]
    assert len(rows) == 210
    pairs = [(row["label"].split()[0], read_utterance(row["text"]).purpose) for row in rows]
    assert sum(a == b for a, b in pairs) / len(pairs) > 0.9
    false_alarms = [a for a, b in pairs if b in ("wish", "forget") and b != a]
    assert len(false_alarms) / len(pairs) < 0.03  # half of them are near another purpose


@pytest.mark.parametrize(
    ("text", "purpose"),
    [
        ("I prefer short replies.", "wish"),
        ("I prefer tea.", "statement"),
        ("Please give me this recipe in cups.", "question"),
        ("Don't forget that I am allergic to nuts.", "statement"),
        ("I live in Oslo. Where can I swim?", "question"),
        ("Please forget my dentist.", "forget"),
        ("No, it is my cousin Lena who keeps bees.", "correction"),
        ("Thanks!", "other"),
    ],
)
def test_a_text_is_read_by_its_sentence_that_asks_most(text: str, purpose: str) -> None:
    assert read_utterance(text).purpose == purpose


def test_wishes_are_of_the_same_thing_by_topic_or_by_words() -> None:
    assert is_same_wish("Always answer in metric units.", "From now on use miles, please.")
    assert is_same_wish("Always end with a joke.", "Never end with a joke.")
    assert not is_same_wish("Never suggest dishes with nuts.", "Never suggest dishes with pork.")
    assert not is_same_wish("Call me Sam.", "I prefer short replies.")


def test_content_leaves_out_the_words_that_say_what_a_text_is_for() -> None:
    assert content_of("Please forget my dentist.") == ["dentist"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Forget my dog and my cat, I have a parrot now.", ["I have a parrot now."]),
        ("Delete all about Kuba, and call me Maro.", ["call me Maro."]),
        ("Forget the dog, the cat and the parrot.", []),
        ("Don't remember this, my new PIN is 9921.", []),
    ],
)
def test_a_wish_to_forget_may_tell_something_besides(text: str, told: list[str]) -> None:
    wish, *others = read_sentences(text)
    assert (wish.purpose, [part.text for part in others]) == ("forget", told)
