"""What an utterance is for: a statement, a standing wish, a question, a wish to forget, a correction.

    read_utterance("Always answer in metric units.")  ->  purpose "wish", topic "units"

A linear model over hashed words, pairs of words and letters, trained on made sentences
(``stategate train utterance``); NumPy alone reads it, in a tenth of a millisecond a sentence.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stategate.language.instruction.weights import buckets, load_checkpoint, softmax
from stategate.language.sentences import sentences
from stategate.language.words import FUNCTION_WORDS, stem

#: What an utterance is for. A request for one time ("this recipe in cups") is a question.
PURPOSES = ("statement", "wish", "question", "forget", "correction", "other")
#: What a standing wish is about; of one topic the later wish replaces the earlier one.
TOPICS = (
    *("units", "temperature", "length", "name", "language", "lists", "emoji", "tone"),
    *("currency", "clock", "sources", "code", "else"),
)
BUCKETS = 16384
CHECKPOINT = Path(__file__).parents[1] / "checkpoints" / "utterance"
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+|[^\w\s]")
_SENTENCES = 40  # of an utterance that are read
_MARK = 6  # features that the closing mark has: it says much, also of a long sentence
_SURE = 0.5  # probability from which a sentence is taken for a wish, to forget, or to correct
_ALIKE = 0.6  # share of content words from which two wishes without a topic are of the same thing
#: Share of the strongest word's weight from which a word says what a sentence is for.
_TRIGGER = 0.75


@dataclass(frozen=True)
class Utterance:
    """One sentence: its purpose, the probability of it, and the topic if it is a wish."""

    text: str
    purpose: str
    chance: float
    topic: str = ""


def utterance_features(text: str) -> list[str]:
    """Return the hashed features of a sentence: words, pairs, letters, how it begins and ends."""
    tokens = [token.lower().replace("’", "'") for token in _TOKEN.findall(text)][:60]
    words = [f"w{token}" for token in tokens]
    padded = ["^", *tokens, "$"]
    pairs = [f"p{a} {b}" for a, b in pairwise(padded)]
    triples = [f"t{a} {b} {c}" for a, b, c in zip(padded, padded[1:], padded[2:], strict=False)]
    letters = [f"c{f'<{t}>'[i : i + 4]}" for t in tokens for i in range(max(len(t) - 1, 1))]
    ends = [f"e{i}{text.rstrip()[-1:]}" for i in range(_MARK)]
    return [*words, *pairs, *triples, *letters, *ends, f"f{padded[1]}", f"g{' '.join(tokens[:2])}"]


def feature_rows(text: str) -> NDArray[np.int64]:
    """Return the bucket of each feature of a sentence."""
    return np.array(buckets(utterance_features(text), BUCKETS))


@lru_cache(maxsize=4096)
def read_sentence(sentence: str) -> Utterance:
    """Return what one sentence is for, with the probability."""
    arrays, _ = load_checkpoint(CHECKPOINT)
    rows = feature_rows(sentence)
    sums = arrays["table"][rows].sum(axis=0, dtype=np.int32) * arrays["scale"]
    sums = sums / np.sqrt(len(rows)) + arrays["bias"]
    purposes = softmax(sums[: len(PURPOSES)])
    best = int(purposes.argmax())
    topic = TOPICS[int(sums[len(PURPOSES) :].argmax())] if PURPOSES[best] == "wish" else ""
    return Utterance(sentence, PURPOSES[best], float(purposes[best]), topic)


def read_utterance(text: str) -> Utterance:
    """Return the sentence that says what ``text`` is for: what asks, else what is asked of the memory.

    A wish to forget, a correction or a standing wish that is doubtful is taken for a statement.
    """
    parts = list(read_sentences(text))
    for purpose in ("forget", "question", "correction", "wish", "statement"):
        for part in parts:
            if part.purpose == purpose:
                return part
    return parts[0] if parts else Utterance(text, "other", 1.0)


def read_sentences(text: str) -> Iterator[Utterance]:
    """Yield what each sentence of ``text`` is for."""
    for sentence in sentences(text)[:_SENTENCES]:
        part = read_sentence(sentence)
        if part.purpose in ("wish", "forget", "correction") and part.chance < _SURE:
            part = Utterance(sentence, "statement", 1 - part.chance)
        yield part


def read_wishes(text: str) -> list[str]:
    """Return the sentences of ``text`` that are standing wishes."""
    return [part.text for part in read_sentences(text) if part.purpose == "wish"]


def is_asking(text: str) -> bool:
    """Say whether ``text`` asks or orders something for now, with a question mark or without."""
    return any(part.purpose == "question" for part in read_sentences(text))


def is_forgetting(text: str) -> bool:
    """Say whether ``text`` wishes something to be forgotten."""
    return read_utterance(text).purpose == "forget"


def is_same_wish(one: str, other: str) -> bool:
    """Say whether two standing wishes are of the same thing, so that the later one counts."""
    topics = {read_sentence(one).topic, read_sentence(other).topic}
    if len(topics) == 1 and not topics & {"", "else"}:
        return True
    a, b = (set(map(stem, content_of(text))) for text in (one, other))
    return bool(a | b) and len(a & b) / len(a | b) >= _ALIKE


def content_of(text: str) -> list[str]:
    """Return the words of content that do not say what ``text`` is for: "forget my dentist" -> dentist.

    A word says it if its own weight for the sentence's purpose is near the strongest word's.
    """
    arrays, _ = load_checkpoint(CHECKPOINT)
    column = PURPOSES.index(read_sentence(text).purpose)
    words = [word for word in _TOKEN.findall(text) if word[0].isalnum()]
    places = buckets((f"w{word.lower()}" for word in words), BUCKETS)
    weights = (arrays["table"][places, column] * arrays["scale"][column]).tolist()
    top = max(weights, default=0.0)
    shares = [
        (word, weight / top if top > 0 else 0.0)
        for word, weight in zip(words, weights, strict=True)
        if word.lower() not in FUNCTION_WORDS
    ]
    # A noun of the training sentences may weigh much: where no word is left, only the strongest goes.
    content = [word for word, share in shares if share < _TRIGGER]
    return content or [word for word, share in shares if share < 1]
