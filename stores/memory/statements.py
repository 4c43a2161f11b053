"""What a turn states, sentence by sentence, and whether a turn says anything.

A turn is refused only where nothing in it could ever be asked for. Whatever is in doubt is kept: a fact
that was never written cannot be found, while one too many is only outranked.
"""

import re
from collections.abc import Container

from stategate.language.dates import spans
from stategate.language.sentences import sentences
from stategate.language.utterance import SENTENCES, named_things, read_sentences
from stategate.language.words import FUNCTION_WORDS, SMALL_TALK
from stategate.stores.memory.records import Statement, Turn

#: Why a sentence of the user's is not kept.
WISH_TO_FORGET = "a wish to forget: `stategate memory forget` or the button Forget carries it out"
_LETTERS = 8_000  # of a turn that are read
_SURE = 0.95  # probability from which what is read as small talk is not kept
_STATING = ("statement", "correction", "wish")
#: Times that greetings and thanks name.
_GREETED = frozenset(["today", "tonight", "this morning", "this afternoon", "this evening"])
_WORD = re.compile(r"[^\W\d_]{2,}(?:['’][^\W\d_]+)?")


def extract_statements(text: str, speaker: str, at: float) -> tuple[Statement, ...]:
    """Return what ``speaker`` states in ``text``, said at ``at`` (Unix seconds), sentence by sentence.

    A statement that names a past time holds since then, any other from ``at`` on. Only people have
    standing wishes.
    """
    found = []
    for part in read_sentences(text[:_LETTERS]):
        if part.purpose not in _STATING:
            continue
        is_wish = part.purpose == "wish" and speaker != "assistant"
        past = (span.start for span in spans(part.text, at) if span.start <= at)
        found.append(Statement(part.text, min(past, default=at), is_wish))
    return tuple(dict.fromkeys(found))


def told_part(text: str, left_out: Container[str]) -> str:
    """Return what ``text`` tells, where some of its sentences have a purpose that is ``left_out``.

    All of it where none has, "" where nothing else is told: "Forget my dentist. I moved." -> "I moved."
    A wish to forget that names nothing concerns the text itself: "My PIN is 9. Don't save that." -> ""
    """
    parts = list(read_sentences(text))
    if any(part.purpose == "forget" and not named_things(part.text) for part in parts):
        return ""
    if not any(part.purpose in left_out for part in parts):
        return text
    told = [part.text for part in parts if part.purpose in _STATING]
    return " ".join(told + sentences(text)[SENTENCES:])


def refusal_of(turn: Turn) -> str:
    """Return why the turn is not kept, "" if it is.

    It corrects nothing, says no number or time, and has no word of content or is surely small talk; or
    it wishes something to be forgotten, and tells nothing else.
    """
    text = turn.text.strip()
    if not text:
        return "empty"
    parts = list(read_sentences(text[:_LETTERS]))
    purposes = {part.purpose for part in parts}
    states = not purposes.isdisjoint(("statement", "correction"))
    may_refuse = turn.source == "user" and (states or "question" not in purposes)
    if may_refuse and not told_part(text, ("forget",)):
        return WISH_TO_FORGET
    named = (span.text.lower() not in _GREETED for span in spans(text, turn.at or 0.0))
    if "correction" in purposes or re.search(r"\d", text) or any(named):
        return ""
    if text.endswith("?"):
        return "small talk" if _content_words(text, turn.speaker) <= 2 else ""
    is_talk = all(part.purpose == "other" and part.chance >= _SURE for part in parts)
    return "" if _content_words(text, turn.speaker) and not is_talk else "small talk"


def content_share(text: str, speaker: str = "") -> float:
    """Return from 0 to 1 how much ``text`` says: four words of content, or any number, is 1."""
    return 1.0 if re.search(r"\d", text) else min(1.0, _content_words(text, speaker) / 4)


def _content_words(text: str, speaker: str) -> int:
    """Return how many words are no function words, small talk, the speaker or a form of address."""
    addressed = re.findall(r"(?:^|[,!]\s*)([A-Z]\w+)(?=\s*[!,.?]|$)", text)
    known = FUNCTION_WORDS | SMALL_TALK | {speaker.lower()} | {name.lower() for name in addressed}
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
    return sum(word not in known and word.split("'")[0] not in known for word in words)
