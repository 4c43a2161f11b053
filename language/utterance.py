"""What an utterance is for: a statement, a standing wish, a question, a wish to forget, a correction.

    read_utterance("Always answer in metric units.")  ->  purpose "wish", topic "units"

A low-rank adapter on the sentence model reads each sentence (``stategate train utterance``).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from stategate.language.instruction.weights import Floats, softmax
from stategate.language.sentence_model import adapted_model
from stategate.language.sentences import sentences
from stategate.language.words import FORGET_WORDS, FUNCTION_WORDS, SMALL_TALK, stem

#: What an utterance is for. A request for one time ("this recipe in cups") is a question.
PURPOSES = ("statement", "wish", "question", "forget", "correction", "other")
#: What a standing wish is about; of one topic the later wish replaces the earlier one.
TOPICS = (
    *("units", "temperature", "length", "name", "language", "lists", "emoji", "tone"),
    *("currency", "clock", "sources", "code", "else"),
)
_PAUSE = re.compile(r"(?:[,;]|[.!?](?=\s+[a-z]))\s+(?:(?:and|but)\s+)?|\s+(?:and|but)\s+")
#: By purpose, words from which a part of a sentence stands alone ("my cat" does not), and probability.
_CLAUSE, _TOLD = {"wish": 1, "statement": 4, "question": 4}, 0.75
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+")
SENTENCES = 40  # of an utterance that are read
_WORDS = 24  # of content whose effect on the purpose is looked at
_SURE = 0.65  # probability from which a sentence is taken for a wish, to forget, or to correct
_ALIKE = 0.75  # share of the shorter wish's content from which two without a topic are of one thing
#: Share of the most telling word's effect from which a word says what a sentence is for.
_TRIGGER = 0.75


@dataclass(frozen=True)
class Utterance:
    """One sentence: its purpose, the probability of it, and the topic if it is a wish."""

    text: str
    purpose: str
    chance: float
    topic: str = ""


@lru_cache(maxsize=4096)
def _logits(sentence: str) -> Floats:
    """Return the logits of the purposes and of the topics of a wish."""
    model, weight, bias = adapted_model("utterance")
    return np.asarray(model.states(sentence)[0].mean(axis=0) @ weight.T + bias)


def read_sentence(sentence: str) -> Utterance:
    """Return what one sentence is for, with the probability."""
    logits = _logits(sentence)
    purposes = softmax(logits[: len(PURPOSES)])
    best = int(purposes.argmax())
    topic = TOPICS[int(logits[len(PURPOSES) :].argmax())] if PURPOSES[best] == "wish" else ""
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
    """Yield what each sentence of ``text`` is for, and what one that wishes to forget tells besides."""
    for sentence in sentences(text)[:SENTENCES]:
        part = read_sentence(sentence)
        if part.purpose in ("wish", "forget", "correction") and part.chance < _SURE:
            part = Utterance(sentence, "statement", 1 - part.chance)
        yield from _parts_of(part) if part.purpose == "forget" else [part]


def _parts_of(wish: Utterance) -> Iterator[Utterance]:
    """Yield a wish to forget, then the clauses of its sentence that have another purpose.

    "Forget my number, my new one is 7." is a wish and a statement. A wish that names nothing ("Don't
    save this, my PIN is 9.") concerns its own sentence, which stays whole.
    """
    parts = [read_sentence(part) for part in _PAUSE.split(wish.text)]
    sure = (part for part in parts if part.chance >= _TOLD and part.purpose in _CLAUSE)
    apart = [part for part in sure if len(part.text.split()) >= _CLAUSE[part.purpose]]
    rest = ", ".join(part.text for part in parts if part not in apart)
    if not apart or not named_things(rest):
        apart, rest = [], wish.text
    yield replace(wish, text=rest)
    for part in apart:
        yield part if part.text[-1] in ".!?" else replace(part, text=f"{part.text}.")


def named_things(wish: str) -> list[str]:
    """Return the words of content of each thing that a wish to forget names: ["car", "flat"].

    "Forget it" names none.
    """
    named = {w for w in content_of(wish) if w.lower() not in SMALL_TALK | FORGET_WORDS}
    parts = (_WORD.findall(part) for part in _PAUSE.split(wish))
    return [" ".join(own) for part in parts if (own := [word for word in part if word in named])]


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
    return bool(a and b) and len(a & b) / min(len(a), len(b)) >= _ALIKE


def content_of(text: str) -> list[str]:
    """Return the words of content that do not say what ``text`` is for: "forget my dentist" -> dentist.

    A word says it if the purpose is nearly as doubtful without it as without the most telling word.
    """
    column = PURPOSES.index(read_sentence(text).purpose)
    found = [match for match in _WORD.finditer(text) if match[0].lower() not in FUNCTION_WORDS]

    def margin(sentence: str) -> float:
        purposes = _logits(sentence)[: len(PURPOSES)]
        return float(purposes[column] - np.delete(purposes, column).max())

    def effect(word: re.Match[str]) -> float:
        return margin(text) - margin(text[: word.start()] + text[word.end() :])

    effects = [effect(word) for word in found[:_WORDS]]
    top = max(effects, default=0.0)
    told = [top > 0 and own >= _TRIGGER * top for own in effects]
    content = [word[0] for word, tells in zip(found, told, strict=False) if not tells]
    # A noun may tell much: where no word is left, only the most telling one goes.
    return content or [w[0] for w, own in zip(found, effects, strict=False) if own < top]
