"""A world's page drawn as a page, by the roles of its chunks.

Entries are cards, choices are chips, commands are buttons, text is text. Whatever can be done carries
``data-action``; a form for a command that takes words ``data-verb``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from markupsafe import Markup

from stategate.envs.protocols import Chunk, Observation, View, fragments_of, takes_text
from stategate.ui.actions import lead_of
from stategate.ui.app.html import macros, short

#: In this order, where a page has a subject: what it is about goes before its choices.
_RANKS = {"subject": 1, "choice": 2}


@dataclass(frozen=True)
class _Shown:
    """A chunk as the template draws it."""

    chunk: Chunk
    parts: dict[str, list[str]]
    lead: str

    @property
    def title(self) -> str:
        """The words of its title fragments."""
        return " ".join(self.parts.get("title", ()))

    @property
    def heading(self) -> str:
        """A subject's title, without what kind of thing it is."""
        title = self.title or short(self.chunk.text, 200)
        kind, colon, rest = title.partition(": ")
        return rest if colon and len(kind) < 12 else title

    @property
    def offers(self) -> list[tuple[str, str]]:
        """The action and the value of each thing that can be chosen."""
        values = self.chunk.choice.values if self.chunk.choice is not None else ()
        return list(zip(self.chunk.actions, values, strict=False))


def render_page(
    view: View,
    observation: Observation,
    instruction: str,
    *,
    taken: str | None = None,
    hidden: Sequence[str] = (),
    live: bool = True,
    address: str = "",
    forms: Sequence[str] = (),
) -> Markup:
    """Draw a page.

    ``taken`` is the action that was taken here (it is ringed), ``hidden`` are the affordances that
    the model cannot see (dashed), ``live`` says whether one can act here, ``forms`` are affordances
    that take words beside those that the page lists.
    """
    chunks = [chunk for chunk in view.chunks(observation) if chunk.role != "frame"]
    how: dict[str, Any] = {
        "taken": taken,
        "hidden": frozenset(hidden),
        "live": live,
        "primary": None,
    }
    if any(chunk.role == "subject" for chunk in chunks):
        commands = [chunk for chunk in chunks if chunk.role == "commands" and chunk.actions]
        if len(commands) > 1:
            how["primary"] = commands[-1].actions[-1]
        first = [chunk.role in ("commands", "pinned") for chunk in chunks].index(False)
        chunks[first:] = sorted(chunks[first:], key=lambda chunk: _RANKS.get(chunk.role, 3))
    shown = [_Shown(chunk, _parts(chunk), lead_of(chunk)) for chunk in chunks]
    runs = [(role, list(run)) for role, run in groupby(shown, key=lambda each: each.chunk.role)]
    slots = dict.fromkeys([*filter(takes_text, observation.actions), *forms])
    return macros("page").page(how, address or "page", instruction, slots, runs)


def title_of(chunk: Chunk) -> str:
    """Return what a chunk is called: its title's words, "" where it has none."""
    return " ".join(_parts(chunk).get("title", ())) or str(chunk.data.get("title") or "")


def _parts(chunk: Chunk) -> dict[str, list[str]]:
    """Return the texts of fragments that are no commands, without what joins them, by role."""
    parts: dict[str, list[str]] = {}
    for fragment in fragments_of(chunk):
        text = fragment.text.strip(" |\n")
        if fragment.action is None and text:
            parts.setdefault(fragment.role, []).append(text)
    return parts
