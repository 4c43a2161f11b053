"""Follow-up questions ("Where does it happen?"): searched with the question that they follow."""

import re
from collections.abc import Sequence

from stategate.language.words import FUNCTION_WORDS
from stategate.stores.traces import Event

#: Words that stand for something said before, and openings that continue a talk.
_POINTERS = frozenset(
    "he him his she her hers it its they them their theirs this that these those there then one "
    "ones same other former latter".split()
)
_PERSONS = frozenset("he him his she her hers they them their theirs".split())
_OPENINGS = frozenset("and but so then also or".split())
_INDEFINITE = frozenset(("a", "an"))
_SHORT = 1  # words of content of a question that asks for nothing by itself
_ANSWER_WORDS = 12  # of an answer that are looked at


def standalone(question: str, events: Sequence[Event]) -> str:
    """Return ``question`` with the words of the turn that it follows in front, if it follows one."""
    about = followed_turn(question, events)
    return f"{about} {question}" if about else question


def followed_turn(question: str, events: Sequence[Event]) -> str:
    """Return the words of content of the question that ``question`` follows, "" if it stands alone.

    That is the newest question of the conversation that stands alone, the first one where none does.
    "He" or "she" after "Who ...?" is in its answer: then the answer's words stand in front. ``events``
    are the questions (OBS) and answers (ACT), oldest first.
    """
    said = [event for event in events if event.kind in ("OBS", "ACT")]
    asked = [place for place, event in enumerate(said) if event.kind == "OBS"]
    if not asked or not is_follow_up(question):
        return ""
    place = next((p for p in reversed(asked) if not is_follow_up(said[p].text)), asked[0])
    words = _content(said[place].text)
    asks_who = said[place].text.lower().startswith("who")
    if asks_who and _PERSONS.intersection(_words(question.lower())):
        answers = [event.text for event in said[place + 1 : place + 2] if event.kind == "ACT"]
        words = [*(w for text in answers for w in _content(text, _ANSWER_WORDS)), *words]
    return " ".join(words)


def is_follow_up(question: str) -> bool:
    """Say whether a question leans on what was said before: it has a pronoun, or hardly a noun.

    One that brings in something new by itself ("What is a geyser?", "Who is Ana?") stands alone.
    """
    words = _words(question)
    lower = {word.lower() for word in words}
    if not words or words[0].lower() in _OPENINGS or lower & _POINTERS:
        return True
    content = _content(question)
    names = [word for word in content if word[0].isupper() and word != words[0]]
    return len(content) <= _SHORT and not names and not lower & _INDEFINITE


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", text)


def _content(text: str, most: int | None = None) -> list[str]:
    """Return the words of ``text`` (its first ``most``) that are no function words."""
    return [word for word in _words(text)[:most] if word.lower() not in FUNCTION_WORDS]
