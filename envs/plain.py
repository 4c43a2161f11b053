"""A view of any text world that lists its legal actions: good enough to play, easy to better.

A world of your own starts here: it is read line by line, its commands are listed by verb, and what is
asked matches what shares its words. Override what your world says better (``docs/writing-a-world.md``).
"""

import re
from collections.abc import Sequence

from envs.protocols import (
    ANSWER,
    ActionVocabulary,
    Chunk,
    Clause,
    Fragment,
    Observation,
    Offer,
    Role,
    StateInput,
    StatusLine,
    verb_of,
)
from stores.text import one_line, overlap, words_of
from stores.traces import Event

MAX_CLAUSES = 6
_SUMMARY_WORDS = 120
_CUT = re.compile(r"(?<=[,;.!?])\s+|\s+(?=(?:and|with|then|but)\s)")


class PlainView:
    """The page line by line, then its commands by verb."""

    name = "plain"
    actions: ActionVocabulary = ActionVocabulary()
    recalls = False
    brief = (
        "You act in a world that you see as text, one page at a time, to do what the instruction "
        "asks. Answer with one JSON action."
    )

    def clauses(self, instruction: str) -> Sequence[Clause]:
        """Cut at punctuation and joining words."""
        clauses: list[Clause] = []
        start = 0
        for end in (*(cut.end() for cut in _CUT.finditer(instruction)), len(instruction)):
            text = instruction[start:end].strip(" ,;.!?")
            if text and len(clauses) < MAX_CLAUSES:
                clauses.append(Clause(text, start, end))
                start = end
        return clauses

    def chunks(self, observation: Observation) -> Sequence[Chunk]:
        """Return each line with words as a chunk, and a chunk for the commands of each verb."""
        lines: list[str] = []
        for line in observation.text.splitlines(keepends=True):
            if line.strip() or not lines:
                lines.append(line)
            else:
                lines[-1] += line
        texts = [Chunk(f"line:{i + 1}", "line", line) for i, line in enumerate(lines)]
        verbs: dict[str, list[str]] = {}
        for action in observation.actions:
            verbs.setdefault(verb_of(action), []).append(action)
        commands = [
            Chunk(f"commands:{verb}", "commands", "", tuple(actions), {}, _role_of(actions))
            for verb, actions in verbs.items()
        ]
        return [*texts, *commands]

    def fragments(self, chunk: Chunk) -> Sequence[Fragment]:
        """Return the chunk's text on one line, then its commands as they are written."""
        text = one_line(chunk.text)
        shown = [Fragment(text + "\n" * bool(chunk.actions))] if text else []
        if chunk.actions:
            lead = "To answer:" if chunk.role == "pinned" else "Commands:"
            shown.append(Fragment(lead, role="lead"))
            shown += [
                Fragment((" | " if i else " ") + one_line(action), action)
                for i, action in enumerate(chunk.actions)
            ]
        return shown

    def status(self, observation: Observation, shown: Sequence[Chunk]) -> Sequence[StatusLine]:
        """Return what choices have settled, where chunks say so."""
        choices = [chunk.choice for chunk in shown if chunk.choice is not None]
        return [
            StatusLine(f"Chosen: {one_line(choice.name)} = {one_line(choice.chosen)}")
            for choice in choices
            if choice.chosen is not None
        ]

    def inputs(self, event: Event) -> Sequence[StateInput]:
        """Return the instruction and its clauses at the start, then each page's first words."""
        rows: list[StateInput] = []
        if event.kind == "OBS" and event.t == 0 and event.instruction:
            rows.append(StateInput("GOAL", event.instruction))
            rows += [StateInput("CLAUSE", c.text) for c in self.clauses(event.instruction)]
        if event.kind in ("OBS", "ACT"):
            text = " ".join(event.text.split()[:_SUMMARY_WORDS])
            return [*rows, StateInput(event.kind, text, self._shared(event))]
        return [StateInput(event.kind, event.text or event.kind.lower())]

    def _shared(self, event: Event) -> float:
        """Return the share of a page's asked words, or of an action's words that are asked."""
        asked = words_of(event.instruction)
        if event.kind == "OBS":
            return overlap(asked, event.text) if asked else 0.0
        words = words_of(event.text)
        return overlap(words, event.instruction) if words and asked else 0.0

    def gist(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line, without the first place where it repeats the instruction."""
        text, asked = one_line(page), one_line(instruction)
        return text.replace(asked, "", 1).strip() if asked and asked != text else text

    def offer(self, prompt: str, actions: Sequence[str]) -> Offer:
        """Offer everything."""
        return Offer(tuple(actions))


def _role_of(actions: Sequence[str]) -> Role:
    return "pinned" if ANSWER in actions else "commands"
