"""A follow-up question ("Where does it happen?") made searchable with the words of earlier turns."""

import re
from collections.abc import Sequence

from stores.corpus.lexical import words
from stores.memory.entities import rules
from stores.traces import Event

_POINTS_BACK = re.compile(
    r"\b(it|its|they|them|their|theirs|this|that|these|those|he|him|his|she|her|there|one|ones|"
    r"the (?:same|other|first|second|last|phenomenon|place|cloud|lake|stones?))\b",
    re.IGNORECASE,
)
_BEGINS = re.compile(r"^(and|but|so|then|also|why|how come|what about|how about)\b", re.IGNORECASE)
_SHORT = 3


def standalone(question: str, events: Sequence[Event]) -> str:
    """Return ``question``, with the subject of the conversation in front where it points back."""
    about = subject(question, events)
    return f"{about} {question}" if about else question


def subject(question: str, events: Sequence[Event]) -> str:
    """Return what ``question`` is about where it points back into the conversation, else "".

    It points back if it names nothing of its own and has a pronoun, begins like a continuation or has
    hardly a word of content. The subject is the newest phenomenon that the conversation named, else
    the last question.
    """
    named, _ = rules(question)
    if any(entity.kind == "phenomenon" for entity in named):
        return ""
    bare = len(words(question)) <= _SHORT
    if not (_POINTS_BACK.search(question) or _BEGINS.search(question) or bare):
        return ""
    last = ""
    for event in reversed(events):
        if event.kind not in ("OBS", "ACT"):
            continue
        phenomena = [e.name for e in rules(event.text)[0] if e.kind == "phenomenon"]
        if phenomena:
            return f"{phenomena[0]}."
        if event.kind == "OBS" and not last:
            last = event.text
    return last
