"""The alignment of an instruction with a page, drawn: which words ask for which part of it."""

import itertools
from collections.abc import Sequence

from markupsafe import Markup

from stategate.envs.protocols import Observation, View
from stategate.nodes.retrieval.told import Pairing, pairings
from stategate.ui.app.render.html import macros, short


def render_alignment(view: View, instruction: str, observation: Observation) -> Markup:
    """Draw the instruction with its words numbered by the part that they ask for ("" without any)."""
    found = pairings(view, instruction, view.chunks(observation))
    if not instruction or not found:
        return Markup("")
    rows = [
        (number, _quoted(instruction, one), short(one.part, 90), one.verdict, one.chance)
        for number, one in enumerate(found, 1)
    ]
    return macros("alignment").alignment(_marked(instruction, found), rows)


def _quoted(instruction: str, one: Pairing) -> str:
    """Return the words of a pairing; what stands between two of them is left out."""
    return " … ".join(instruction[start:end] for start, end in _merged(instruction, one.places))


def _merged(instruction: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if merged and len(instruction[merged[-1][1] : start].strip()) == 0:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def _marked(instruction: str, found: Sequence[Pairing]) -> list[tuple[str, str, str]]:
    """Cut the instruction into (text, verdict, numbers of its pairings), "" where there is none."""
    cuts = {0, len(instruction), *(place for one in found for pair in one.places for place in pair)}
    marks = sorted(cuts)
    parts: list[tuple[str, str, str]] = []
    for start, end in itertools.pairwise(marks):
        here = [
            (number, one.verdict)
            for number, one in enumerate(found, 1)
            if any(first <= start and end <= last for first, last in one.places)
        ]
        numbers = " ".join(str(number) for number, _ in here)
        parts.append((instruction[start:end], here[0][1] if here else "", numbers))
    return parts
