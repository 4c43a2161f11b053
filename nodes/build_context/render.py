"""Chunks as compact prompt lines: one fact a line, no blank lines, each affordance written once.

A rendered chunk is a list of fragments. A fragment that carries an affordance is atomic: it is
shown whole or not at all, so an affordance counts as readable exactly when its words are there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from envs.protocols import ANSWER, FREE, SEARCH
from nodes.protocols import Chunk
from stores.tokens import count_tokens, truncate


@dataclass(frozen=True)
class Fragment:
    """A stretch of a prompt line and the affordance that it spells out, if any."""

    text: str
    action: str | None = None


def render(chunk: Chunk) -> list[Fragment]:
    """Return the prompt line(s) of ``chunk``, ending in a line break ([] if there is nothing)."""
    lines = _RENDERERS.get(chunk.kind, _plain)(chunk)
    if not any(fragment.text.strip() for fragment in lines):
        return []
    return [*lines, Fragment("\n")]


def text_of(fragments: Sequence[Fragment]) -> str:
    """Join fragments to prompt text."""
    return "".join(fragment.text for fragment in fragments)


def describe(chunk: Chunk) -> str:
    """Return ``chunk`` as the text that embedders see: its prompt lines."""
    return text_of(render(chunk)).strip() or chunk.text.strip()


def fit(fragments: Sequence[Fragment], budget: int) -> list[Fragment]:
    """Return the head of ``fragments`` that fits ``budget`` tokens, line break included.

    Whole fragments first; a plain one may be cut at a token, one with an affordance may not.
    """
    if count_tokens(text_of(fragments)) <= budget:
        return list(fragments)
    kept: list[Fragment] = []
    for fragment in fragments:
        if count_tokens(text_of([*kept, fragment, Fragment("\n")])) <= budget:
            kept.append(fragment)
            continue
        room = budget - count_tokens(text_of(kept)) - 1
        if fragment.action is None and (cut := truncate(fragment.text, room).rstrip()):
            kept.append(Fragment(cut))
        break
    if not any(fragment.text.strip() for fragment in kept):
        return []
    while kept and count_tokens(text_of([*kept, Fragment("\n")])) > budget:
        kept.pop()
    return [*kept, Fragment("\n")] if kept else []


def one_line(text: str) -> str:
    """Fold all white space, so that a fact never breaks the line format."""
    return " ".join(text.split())


def _label(action: str) -> str:
    if action in FREE:
        return action
    return one_line(action.partition("[")[2].removesuffix("]"))


def _listed(lead: str, actions: Sequence[str], labels: Sequence[str]) -> list[Fragment]:
    fragments = [Fragment(lead)]
    for i, (action, label) in enumerate(zip(actions, labels, strict=True)):
        fragments.append(Fragment((" | " if i else " ") + one_line(label), action))
    return fragments


def _buttons(chunk: Chunk) -> list[Fragment]:
    lead = "Search bar:" if chunk.actions == (SEARCH,) else "Buttons:"
    if "page" in chunk.data:
        lead = f"Page {chunk.data['page']} (Total results: {chunk.data['total']}). {lead}"
    return _listed(lead, chunk.actions, [_label(action) for action in chunk.actions])


def _product(chunk: Chunk) -> list[Fragment]:
    seen = " (seen)" if chunk.data["seen"] else ""
    facts = [chunk.data["title"], chunk.data["price"]]
    shown = "".join(f" | {one_line(fact)}" for fact in facts if fact)
    asin = Fragment(str(chunk.data["asin"]).lower() + seen, chunk.actions[0])
    return [asin, Fragment(shown)]


def _options(chunk: Chunk) -> list[Fragment]:
    values = [str(value).lower() for value in chunk.data["values"]]
    return _listed(f"Option {one_line(chunk.data['name'])}:", chunk.actions, values)


def _item(chunk: Chunk) -> list[Fragment]:
    lines = [one_line(line) for line in chunk.data["lines"]]
    return [Fragment("\n".join([f"Product: {lines[0]}", *lines[1:]]))] if lines else []


def _detail(chunk: Chunk) -> list[Fragment]:
    lines = [one_line(line) for line in chunk.data["lines"]]
    return [Fragment("\n".join(f"Text: {line}" for line in lines if line))]


def _ask(chunk: Chunk) -> list[Fragment]:
    return [Fragment("To answer: "), Fragment(ANSWER, ANSWER)]


def _nothing(chunk: Chunk) -> list[Fragment]:
    return []


def _plain(chunk: Chunk) -> list[Fragment]:
    """Render a kind of chunk that this module has never heard of."""
    text = Fragment(one_line(chunk.text))
    if not chunk.actions:
        return [text]
    labels = [_label(action) for action in chunk.actions]
    return [text, *_listed("\nButtons:", chunk.actions, labels)]


_RENDERERS = {
    "navigation": _buttons,
    "buttons": _buttons,
    "product": _product,
    "options": _options,
    "item": _item,
    "detail": _detail,
    "ask": _ask,
    # Shown by `assemble`: the instruction leads the prompt, notices become "Chosen:" lines.
    "instruction": _nothing,
    "notice": _nothing,
    "header": _nothing,
}
