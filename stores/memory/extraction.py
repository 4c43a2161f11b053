"""Reads a turn by rules: what it states (who, what, for which time), and whether it says anything.

English clauses with a first person, "my ...", "the ..." or a name before a verb. Known are the verbs
that tell a state which a newer value replaces (where one lives and works), and how people say that one
has ended.

A turn is refused only where nothing in it could ever be asked for. Whatever is in doubt is kept: a fact
that was never written cannot be found, while one too many is only outranked.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from stategate.language.dates import Span, spans
from stategate.language.sentences import sentences
from stategate.language.utterance import read_sentence, read_wishes
from stategate.language.words import FUNCTION_WORDS, word_list
from stategate.stores.memory.records import WISH, Statement, Turn

_ADVERBS = frozenset(word_list("clause_adverbs"))
_AUXILIARY = frozenset(word_list("auxiliaries"))
#: Of these, those that are verbs of their own where no "to" follows.
_NO_AUXILIARY = frozenset("get got want wants wanted need needs started going".split())
_BE = frozenset("am is are was were be been m re s".split())
_DENIALS = frozenset("not never".split())
_PRONOUNS = frozenset("i we".split())
_OWN = frozenset("my our".split())
_APOSTROPHES = frozenset("'’")
_TOKEN = re.compile(r"\d[\d.,:/-]*\d|[^\W_]+(?:-[^\W_]+)*|['’](?=\w)|[^\w\s]")
_SPLIT = re.compile(
    r";|:\s|\s[-–—]\s|,?\s+(?:but|because|although|though|while|whereas|so)\s+"
    r"|,\s+(?:and\s+)?(?=(?:I|we|my|he|she|they|it)\b)|\s+and\s+(?=(?:I|we|my|it)\b)"
    r"|\s+and\s+(?=(?:started|moved|joined|switched|sold|left|works?|lives?|studies)\b)"
)
#: Verbs that tell a state: verb and preposition, and the relation by which a newer value is found.
_STATES = {
    ("live", "in"): "lives in",
    ("live", "at"): "lives in",
    ("live", "on"): "lives in",
    ("move", "to"): "lives in",
    ("move", "into"): "lives in",
    ("move", "in"): "lives in",
    ("relocate", "to"): "lives in",
    ("work", "at"): "works at",
    ("work", "for"): "works at",
    ("work", "in"): "works at",
    ("start", "at"): "works at",
    ("hire", "at"): "works at",
    ("be", "with"): "works at",
    ("work", "as"): "works as",
    ("study", "at"): "studies at",
    ("drive", ""): "drives",
    ("marry", ""): "married to",
    ("date", ""): "together with",
    ("switch", "to"): "uses",
    ("change", "to"): "uses",
}
#: Verbs of which the first person says that something has ended.
ENDINGS = frozenset("leave quit give stop sell cancel drop abandon".split())
_NOT = re.compile(r"n['’]t\b|\bno longer\b")
_AFTERTHOUGHT = re.compile(
    r"\s*\b(?:any ?more|any longer|no more|after all|instead|now|at present|at the moment|these days|"
    r"currently|from now on|for now)\b",
    re.IGNORECASE,
)
#: "moved back to Oslo", "moved from Oslo to Bergen": where to.
_WHITHER = re.compile(
    r"^(?:(?:back|over|again|away) )?(?:from .+? )?(?=(?:to|into) )", re.IGNORECASE
)
_PAIRS = word_list("irregular_verbs")
_IRREGULAR = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True))
_WITH_E = frozenset(word_list("verbs_in_e"))
_LOOSE_ENDS = frozenset("on in at since and to for from of the a an until with by or as my".split())
_LONGEST = 14  # words of a value
_LETTERS = 8_000  # of a turn that are read
_LED = re.compile(r"(since|starting|as of|until|till)\b", re.IGNORECASE)
_LEADING = re.compile(rf"\b{_LED.pattern} (?:the )?$", re.IGNORECASE)


def extract_statements(text: str, speaker: str, at: float) -> list[Statement]:
    """Return what ``speaker`` states in ``text``, said at ``at`` (Unix seconds), in order."""
    stated = standing_wishes(text, speaker)
    wishes = {wish.value for wish in stated}
    for sentence in sentences(text[:_LETTERS]):
        if sentence not in wishes and read_sentence(sentence).purpose != "question":
            stated += _sentence_statements(sentence, speaker or "user", at)
    return list(dict.fromkeys(stated))


def standing_wishes(text: str, speaker: str) -> list[Statement]:
    """Return the sentences that say how ``speaker`` always wants to be answered, as states."""
    if speaker == "assistant":
        return []
    wishes = read_wishes(text[:_LETTERS])
    return [Statement(speaker or "user", WISH, wish, is_state=True) for wish in wishes]


def statement(
    subject: str,
    relation: str,
    value: str,
    when: Sequence[Span],
    *,
    negated: bool = False,
    is_state: bool = False,
) -> Statement:
    """Return a statement; of the times ``when`` that it was said with the first counts."""
    start, end = (when[0].start, when[0].end) if when else (-inf, inf)
    is_open = end == inf or negated or (is_state and start > -inf)
    since = None if start == -inf else start
    return Statement(subject, relation, value, negated, is_state, since, None if is_open else end)


def _sentence_statements(sentence: str, speaker: str, at: float) -> Iterator[Statement]:
    subject = ""
    clauses = _SPLIT.split(_NOT.sub(" not", sentence))
    for clause in filter(None, map(str.strip, filter(None, clauses))):
        first = clause.split()[0].lower()
        if first in _IRREGULAR or (subject and _looks_finite(first)):  # "Gave up coffee."
            clause = f"{subject or 'I'} {clause}"
        yield from _clause_statements(clause, speaker, at)
        tokens = _TOKEN.findall(clause)
        start, end = _subject(tokens)
        subject = " ".join(tokens[start:end]) or subject


def _clause_statements(clause: str, speaker: str, at: float) -> Iterator[Statement]:
    when = [_open_ended(clause, span) for span in spans(clause, at)]
    bare = _AFTERTHOUGHT.sub("", clause)
    for span in when:
        bare = bare.replace(span.text, " ")
    tokens = _TOKEN.findall(bare)
    start, end = _subject(tokens)
    subject = tokens[start:end]
    if not subject:
        return
    verb, place, denied, was_be = _verb(tokens, end)
    if not verb or (not was_be and tokens[place - 1][0].isupper()):
        return  # "My boss at Deutsche Bahn": no verb
    words = " ".join(tokens[place:]).replace(" ' ", "'").replace(" ’ ", "’")
    if verb in ("move", "relocate", "switch", "change"):
        words = _WHITHER.sub("", words)
    value = _value(words)
    if subject[0].lower() in _PRONOUNS and verb in ENDINGS and not denied:
        yield from _endings(speaker, verb, value, when)
        return
    if not value:
        # "It has changed", "she isn't coming on Sunday": the verb alone, or a time, is what is said.
        value = when[0].text if when and verb == "be" else verb
    if value != "be":
        yield from _other_statements(speaker, subject, verb, value, denied, when)


def _subject(tokens: Sequence[str]) -> tuple[int, int]:
    """Return from where to where the clause's subject stands; twice 0 where there is none."""
    start = next((i for i, _ in enumerate(tokens) if _is_subject(tokens, i)), None)
    if start is None:
        return 0, 0
    low, end = tokens[start].lower(), start + 1
    if low in _PRONOUNS:
        return start, end
    while end < len(tokens) and end - start < 4:
        word = tokens[end].lower()
        is_verb = word in _AUXILIARY | _ADVERBS | _DENIALS | _APOSTROPHES
        if is_verb or (end - start > 1 and _looks_finite(word)) or not tokens[end][0].isalnum():
            break
        if low not in _OWN | {"the"} and not tokens[end][:1].isupper():
            break
        end += 1
    return start, end


def _is_subject(tokens: Sequence[str], i: int) -> bool:
    word, low = tokens[i], tokens[i].lower()
    opens = all(t.lower() in _ADVERBS for t in tokens[:i])
    if low in _PRONOUNS or low in _OWN or (low == "the" and opens):
        return True
    is_name = word[:1].isupper() and low not in FUNCTION_WORDS and word.isalpha() and len(word) > 1
    after = tokens[i + 1].lower() if i + 1 < len(tokens) else ""
    follows = _AUXILIARY | _ADVERBS | _APOSTROPHES
    return is_name and (after in follows or _looks_finite(after))


def _looks_finite(word: str) -> bool:
    return word in _IRREGULAR or (word.isalpha() and word.endswith(("ed", "s")) and len(word) > 3)


def _verb(tokens: Sequence[str], place: int) -> tuple[str, int, bool, bool]:
    """Return the verb behind the subject (base form, "" for none), and where what follows it begins.

    The last two say whether it is denied, and whether a form of "be" stands before it.
    """
    denied = was_be = False
    while place < len(tokens):
        word = tokens[place].lower()
        after = tokens[place + 1].lower() if place + 1 < len(tokens) else ""
        if word in _DENIALS:
            denied = True
        elif word in _BE:
            was_be = True
        elif not (
            word in _APOSTROPHES or word in _ADVERBS or (word in _AUXILIARY and _helps(word, after))
        ):
            break
        place += 1
    if place >= len(tokens) or not tokens[place][0].isalnum():
        return ("be" if was_be else ""), place, denied, was_be
    word = tokens[place].lower()
    is_participle = tokens[place].islower() and (word.endswith(("ing", "ed")) or word in _IRREGULAR)
    if was_be and not is_participle:
        return "be", place, denied, True
    return base_of(word), place + 1, denied, was_be


def _helps(word: str, after: str) -> bool:
    """Say whether an auxiliary helps the verb ``after``: "I have moved", not "I have a dog"."""
    if word in ("have", "has", "had") and after not in ("", "to"):
        is_participle = _looks_finite(after) or after.endswith("en")
        return is_participle or after in _ADVERBS | _DENIALS | {"been"}
    return bool(after) and (after == "to" or word not in _NO_AUXILIARY)


def _endings(speaker: str, verb: str, value: str, when: Sequence[Span]) -> Iterator[Statement]:
    """Read what the first person has given up: "I quit my job at Siemens", "I stopped smoking"."""
    first, _, rest = value.partition(" ")
    if verb == "give" and first.lower() != "up":
        yield statement(speaker, verb, value, when)
        return
    ended = rest if first.lower() == "up" else value
    yield statement(speaker, verb, ended, when, negated=True)
    doing, _, what = ended.partition(" ")
    if doing.endswith("ing") and what:
        yield from _other_statements(speaker, ("I",), base_of(doing.lower()), what, True, when)


def _other_statements(
    speaker: str, subject: Sequence[str], verb: str, value: str, denied: bool, when: Sequence[Span]
) -> Iterator[Statement]:
    first, noun = subject[0].lower(), " ".join(subject[1:]).lower()
    who = speaker if first in _PRONOUNS else " ".join(subject)
    if first in _OWN or first == "the":
        if not noun:
            return
        if verb == "be":
            who, relation = (speaker, noun) if first in _OWN else (noun, "is")
            yield statement(who, relation, value, when, negated=denied, is_state=not denied)
            return
        who = f"{speaker}'s {noun}" if first in _OWN else noun
    preposition, _, after = value.partition(" ")
    relation, given = _STATES.get((verb, preposition.lower()), ""), after
    if not given or not relation:
        relation, given = _STATES.get((verb, ""), ""), value.removeprefix("to ")
    if relation:
        yield statement(who, relation, given, when, negated=denied, is_state=not denied)
    else:
        yield statement(who, verb, value, when, negated=denied)


def _open_ended(clause: str, span: Span) -> Span:
    """Return a time without an end behind "since", and without a beginning behind "until"."""
    led = _LEADING.search(clause[: span.place]) or _LED.match(span.text)
    if led is None:
        return span
    is_until = led[1].lower() in ("until", "till")
    return replace(span, start=-inf) if is_until else replace(span, end=inf)


def _value(text: str) -> str:
    """Return the words of a value up to the next comma, without loose ends."""
    head = re.split(r"[,()–—;]", text.strip(" ,"))[0]
    words = head.strip(" .!?'’\"").split()[:_LONGEST]
    while words and words[-1].lower() in _LOOSE_ENDS:
        words.pop()
    return re.sub(r"\s+([.,!?])", r"\1", " ".join(words))


def base_of(verb: str) -> str:
    """Return the base form of a verb, near enough to compare."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith(("ied", "ies")) and len(verb) > 4:
        return f"{verb[:-3]}y"
    for ending in ("ing", "ed"):
        root = verb.removesuffix(ending)
        if root != verb and len(root) >= 3:
            if root[-1] == root[-2] and root[-1] not in "ls":
                return root[:-1]
            return f"{root}e" if f"{root}e" in _WITH_E else root
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") and len(verb) > 3 else verb


# Small talk ----------------------------------------------------------------------------------------

_SMALL = frozenset(word_list("small_talk"))
#: Times that greetings and thanks name.
_GREETED = frozenset(["today", "tonight", "this morning", "this afternoon", "this evening"])
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def refusal_of(turn: Turn) -> str:
    """Return why the turn is not kept, "" if it is: no name, number, time, nor word of content."""
    text = turn.text.strip()
    if not text:
        return "empty"
    named = (span.text.lower() not in _GREETED for span in spans(text, turn.at or 0.0))
    if re.search(r"\d", text) or any(named):
        return ""
    count = _content_words(text, turn.speaker)
    if text.endswith("?") and count <= 2:
        return "small talk: a question that tells nothing"
    return "small talk" if count == 0 else ""


def content_share(text: str, speaker: str = "") -> float:
    """Return from 0 to 1 how much ``text`` says: four words of content, or any number, is 1."""
    return 1.0 if re.search(r"\d", text) else min(1.0, _content_words(text, speaker) / 4)


def _content_words(text: str, speaker: str) -> int:
    """Return how many words are no function words, small talk, the speaker or a form of address."""
    addressed = re.findall(r"(?:^|[,!]\s*)([A-Z]\w+)(?=\s*[!,.?]|$)", text)
    known = FUNCTION_WORDS | _SMALL | {speaker.lower()} | {name.lower() for name in addressed}
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
    return sum(word not in known and word.split("'")[0] not in known for word in words)
