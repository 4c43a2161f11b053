"""A follow-up question ("Where does it happen?") made searchable with the words of earlier turns."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from stategate.stores.memory.entities import Extractor
from stategate.stores.memory.names import FUNCTION_WORDS
from stategate.stores.memory.records import Entity
from stategate.stores.traces import Event

_AFTER_PRONOUN = r"(?=\s*(?:[?.!,;:)]|$|\b(?:{})\b))".format("|".join(sorted(FUNCTION_WORDS)))
_PERSON = re.compile(r"\b(?:he|him|his|she|her|hers)\b", re.IGNORECASE)
_TIME = r"(?:year|month|week|weekend|day|morning|afternoon|evening|night|time|moment|season)s?"
_THING = re.compile(
    r"\b(?:its?|they|them|their|theirs|itself|themselves)\b"
    rf"|\b(?:these|those)\b(?!\s+{_TIME}\b)"
    rf"|\bthis\b(?!\s+{_TIME}\b)"
    # "that" joins clauses more often than it points: it points back to the end of a clause, behind a
    # preposition or an auxiliary, and as the subject after a word that opens a clause
    r"|\bthat(?=\s*[?.!,])|(?:\b(?:of|with|about|for|by|from|like|is|was|does|did|if|why|how|when)\s+)that\b"
    rf"|\bones?{_AFTER_PRONOUN}"
    rf"|\b(?:then|afterwards)(?=\s*[?.!]|$)|\b(?:at|in|on|by|since|until) that {_TIME}\b"
    r"|\bthe (?:same|other|former|latter|first|second|last)(?: ones?)?(?=[?.!]|$)"
    r"|(?<!is )(?<!are )(?<!was )(?<!were )\bthere\b(?!\s+(?:is|are|was|were|any|a|an|no|some)\b)",
    re.IGNORECASE,
)
_EXPLETIVE = re.compile(
    r"\bit (?:is |was )?(?:\w+ ){0,2}(?:to|that)\b|\b(?:is|was) it \w+ (?:to|that)\b|\btime is it\b|"
    r"\bit (?:rains?|snows?)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r",|\b(?:if|when|because|although|though|before|after|while|until|and|but|so|that)\b"
)
_CONTINUES = re.compile(
    r"^(?:and|but|so|then|also|or|what about|how about|how come)\b|^why\W*$|^why(?!\s+(?:is|are|was|"
    r"were|do|does|did|can|could|should|would|will|has|have|had)\b)|^which (?:of|is|are|was|were)\b"
    r"|^which\b.*\b(?:is|are|was|were) (?:better|worse|(?:more|less) \w+|\w+er)\W*$",
    re.IGNORECASE,
)
_FINITE = re.compile(
    r"\b(?:is|are|was|were|do|does|did|can|could|should|would|will|shall|may|might|must|has|have|had|"
    r"what|who|whom|whose|when|where|which|why|how|\w+ed)\b",
    re.IGNORECASE,
)
_DEFINITE = re.compile(
    r"\bthe ([a-z][\w-]+)(?=\s*[?.!,]|\s+(?:[a-z]+ed|{})\b)".format(
        "|".join(sorted(FUNCTION_WORDS))
    )
)
_ASKS_FOR = re.compile(r"(?:what|which|who|whom|whose)\b", re.IGNORECASE)
_ASKED = r"(?i)(?:which|what|whose|how (?:many|much))\s+"
_WHO = re.compile(r"who(?:m|se)?\b", re.IGNORECASE)
_FRAGMENT = 4  # words of a question without a verb
_PHRASES = 3  # that a subject has at most
_LETTERS = 2000  # of a turn that are read


def standalone(question: str, events: Sequence[Event], extract: Extractor) -> str:
    """Return ``question``, with the subject of the conversation in front where it points back."""
    about = subject(question, events, extract)
    return f"{about} {question}" if about else question


def subject(question: str, events: Sequence[Event], extract: Extractor) -> str:
    """Return what ``question`` is about where it points back into the conversation, else "".

    It points back if it has a pronoun without an antecedent of its own, a bare definite noun that
    was named before, begins like a continuation or has no verb. "He" and "she" stand for the newest
    person of the conversation, "the key" for what the newest turn that named a key is about, and
    everything else for the newest question, its answer, and what that question pointed back to.
    ``extract`` reads names and noun phrases.
    """
    turns = [(e.kind, e.text) for e in events if e.kind in ("OBS", "ACT")]
    earlier = " ".join(text for _, text in turns)
    if not turns or not _points_back(question, earlier, extract):
        return ""
    if _PERSON.search(question) and (who := _person(turns, extract)):
        return who
    phrases = []
    if not _THING.search(question):
        for noun in _definite(question, _phrases(question, extract)):
            named = [place for place, (_, text) in enumerate(turns) if _has_noun(noun, text)]
            if named:
                turns = turns[: named[-1] + 1]
                whole = _phrases(turns[-1][1], extract)
                phrases += [entity for entity in whole if _has_noun(noun, entity.name)]
    phrases += _focus(turns, extract)
    if _THING.search(question):  # a thing is meant, where there is one
        phrases = [e for e in phrases if e.kind != "person"] or phrases
    return _joined(phrases)


def _person(turns: Sequence[tuple[str, str]], extract: Extractor) -> str:
    """Return the newest person, named or, as in "Who signs it? The treasurer.", asked for."""
    asked = [p for p, (kind, text) in enumerate(turns) if kind == "OBS" and _WHO.match(text)]
    for kinds in (("person",), ("organisation", "thing")):  # a name of no known kind may be one
        persons = [
            [e.name for e in _phrases(text, extract) if e.kind in kinds] for _, text in turns
        ]
        newest = max((place for place, names in enumerate(persons) if names), default=-1)
        if asked and asked[-1] > newest:
            return _joined(_focus(turns[: asked[-1] + 2], extract))
        if newest >= 0:
            name = persons[newest][0]
            full = [one for names in persons for one in names if one.endswith(f" {name}")]
            return f"{[*full, name][0]}."
    return ""


def _focus(turns: Sequence[tuple[str, str]], extract: Extractor) -> list[Entity]:
    """Return what the newest question, its answer and the questions that it points back to name."""
    phrases: list[Entity] = []
    for place in range(len(turns) - 1, -1, -1):
        kind, text = turns[place]
        if kind != "OBS":
            continue
        before = " ".join(words for _, words in turns[:place])
        phrases += _phrases(text, extract)
        if not phrases or (_ASKS_FOR.match(text) and place == len(turns) - 2):
            answer = turns[place + 1][1] if place + 1 < len(turns) else ""
            phrases += _phrases(answer, extract)[:1]
        if not place or not _points_back(text, before, extract):
            words = [w for w in re.findall(r"[\w'-]+", text) if w.lower() in _content(text)]
            return phrases or ([Entity("topic", " ".join(words[-6:]))] if words else [])
    return phrases


def _joined(phrases: Sequence[Entity]) -> str:
    """Return the first few of ``phrases``, names before common nouns; a part of another is left out."""
    ordered = sorted(phrases, key=lambda entity: entity.kind == "topic")
    all_names = [entity.name for entity in ordered]
    names = dict.fromkeys(n for n in all_names if not any(n in m and n != m for m in all_names))
    return ", ".join([*names][:_PHRASES]) + "." if names else ""


def _points_back(question: str, earlier: str, extract: Extractor) -> bool:
    text = question.strip()
    names = [e for e in _phrases(text, extract) if not re.match(_ASKED + re.escape(e.name), text)]
    for match in (*_PERSON.finditer(text), *_THING.finditer(text)):
        if _EXPLETIVE.search(text, max(0, match.start() - 9)) and match[0].lower() == "it":
            continue
        if not _has_antecedent(text, match, names):
            return True
    if any(entity.kind != "topic" for entity in names):
        return False
    if _CONTINUES.match(text):
        return True
    if len(text.split()) <= _FRAGMENT and not _FINITE.search(text):
        return True
    definite = _definite(text, names)
    if any(_has_noun(noun, earlier) for noun in definite):
        return all(entity.name.lower() in definite for entity in names) or len(names) <= 2
    return not names and not definite and len(_content(text)) <= 1


def _has_antecedent(text: str, pronoun: re.Match[str], names: Sequence[Entity]) -> bool:
    """Say whether ``text`` itself names what the pronoun can stand for.

    That is in an earlier clause or, for "its" and the like in a statement, anywhere before it.
    """
    word, before = pronoun[0].lower(), text[: pronoun.start()]
    if word in _POSSESSIVES and not text.endswith("?"):
        return bool(_content(before))
    if word in ("its", "their"):  # "How do bats find their way?"
        several = word == "their"
        if any(e.name in before and e.name.endswith("s") == several for e in names):
            return True
    clauses = [match.start() for match in _CLAUSE.finditer(before)]
    before = before[: clauses[-1]] if clauses else ""
    is_person = bool(_PERSON.fullmatch(word))
    return any((e.kind == "person") == is_person and e.name in before for e in names)


_POSSESSIVES = ("its", "their", "his", "her")


def _definite(text: str, phrases: Sequence[Entity]) -> list[str]:
    """Return the bare nouns behind "the": nothing in ``text`` says which one is meant."""
    bare = [e.name.lower() for e in phrases if e.kind == "topic" and " " not in e.name]
    nouns = [noun for noun in bare if re.search(rf"\bthe {re.escape(noun)}\b", text.lower())]
    return [*(match[1].lower() for match in _DEFINITE.finditer(text)), *nouns]


def _has_noun(noun: str, text: str) -> bool:
    return bool(re.search(rf"\b{re.escape(noun)}\b", text, re.IGNORECASE))


def _content(text: str) -> list[str]:
    return [w for w in re.findall(r"[\w'-]+", text.lower()) if w not in FUNCTION_WORDS]


def _phrases(text: str, extract: Extractor) -> tuple[Entity, ...]:
    return _read(extract.phrases, text[:_LETTERS])


@lru_cache(maxsize=512)
def _read(phrases: Callable[[str], list[Entity]], text: str) -> tuple[Entity, ...]:
    """Return the phrases of a turn; each turn of a conversation is read again with every question."""
    return tuple(entity for entity in phrases(text) if entity.name.lower() not in FUNCTION_WORDS)
