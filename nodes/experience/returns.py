"""The return-based annotator: worth and words for every decision, without a model.

The worth of a decision is its discounted reward-to-go on a scale of 0 to 10; its words are the
decision's own thought, or what it did told in general terms (a product's place in the list, never
its code; whether the question names the option), so that advice carries over to other tasks.
"""

import math
import re
from dataclasses import dataclass

from nodes.act.shop.reading import overlap, read_wish, words_of
from nodes.experience.trajectory import Step, Trajectory, is_product

NAME = "return"
BLAME = 0.5  # what is left of the worth of decisions that led to a failure
GAMMA = 0.97  # a step: a success ten steps away is worth 7.4
_CODE = re.compile(r"\bB[0-9A-Z]{9}\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")
_HALF = 0.5
MOVES = {
    "search": "search with all that the question asks for",
    "search_no_options": "search with the kind of thing and its properties, without the options",
    "search_kind_options": "search with the kind of thing and the options, without its properties",
    "search_kind": "search with nothing but the kind of thing",
    "open": "open a product that was not opened yet",
    "next >": "turn to the next page of results",
    "< prev": "go back to the page before",
    "back to search": "go back to the search",
    "description": "read the description",
    "features": "read the features",
    "reviews": "read the reviews",
    "attributes": "read the attributes",
    "option": "choose the option that the question names",
    "other_option": "choose an option that the question does not name",
    "buy now": "buy it now",
    "answer": "give the answer",
}


@dataclass(frozen=True)
class Annotation:
    """Worth (0 to 10) and advice of one decision; no advice where nothing can be said."""

    q: float
    experience: str
    by: str = NAME


def annotate(episode: Trajectory, gamma: float = GAMMA) -> list[Annotation]:
    """Return one annotation a decision."""
    scale = 10.0 if episode.correct else 10.0 * BLAME
    worth = [scale * value for value in returns(episode, gamma)]
    return [
        Annotation(round(q, 3), _words(episode, i, step))
        for i, (q, step) in enumerate(zip(worth, episode.steps, strict=True))
    ]


def returns(episode: Trajectory, gamma: float = GAMMA) -> list[float]:
    """Return the discounted reward-to-go of each decision: ``reward * gamma ** (steps left)``."""
    last = len(episode.steps) - 1
    reward = min(max(episode.reward, 0.0), 1.0) if math.isfinite(episode.reward) else 0.0
    return [reward * gamma ** (last - i) for i in range(last + 1)]


def move_of(question: str, step: Step) -> str:
    """Return the kind of move that ``step`` is: a key of ``MOVES``, else the tool's own name."""
    if step.tool == "search":
        return _search_form(question, step.params)
    if step.tool != "click":
        return step.tool
    target = " ".join(step.params.lower().split())
    if target in MOVES:
        return target
    if is_product(target):
        return "open"
    named = target in question.lower() or _content(target) <= _content(question.lower())
    return "option" if named else "other_option"


def _words(episode: Trajectory, i: int, step: Step) -> str:
    move = move_of(episode.question, step)
    if step.thought:
        told = _CODE.sub("the product", " ".join(step.thought.split()))[:240]
    else:
        told = MOVES.get(move, f"use {step.tool}").capitalize()
        if move == "open" and (place := _place(step)):
            told = f"Open product number {place} of the list"
    left = len(episode.steps) - 1 - i
    ended = "full reward" if episode.reward >= 1.0 else f"a reward of {episode.reward:.2f}"
    when = f"{left} steps later" if left > 1 else "one step later" if left else "with this step"
    return f"{told.rstrip('.')}. It ended in {ended} {when}."


def _place(step: Step) -> int:
    """Return the place (from 1) of an opened product among those on the page, 0 if unknown."""
    listed = list(dict.fromkeys(code.lower() for code in _CODE.findall(step.before)))
    code = step.params.lower()
    return listed.index(code) + 1 if code in listed else 0


def _search_form(question: str, words: str) -> str:
    """Return which parts of the question the search words hold (half of a part counts)."""
    wish = read_wish(question)
    options = [word for _, value in wish.options for word in words_of(value)]
    properties = [word for phrase in wish.attributes for word in words_of(phrase)]
    has_options = overlap(options, words) >= _HALF
    if overlap(properties, words) >= _HALF:
        return "search" if has_options else "search_no_options"
    return "search_kind_options" if has_options and options else "search_kind"


def _content(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if word not in _SMALL}


_LEFT = "a s me an of in or i to is the and with for that are from this want need find looking"
_SMALL = frozenset(_LEFT.split())
