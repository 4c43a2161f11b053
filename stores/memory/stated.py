"""What a turn states, read by rules: who is or does what, for which time, and whether it is denied.

The light extractor: English clauses with a first person, "my ...", "the ..." or a name before a verb.
It knows which verbs tell a state that a newer value replaces (where one lives and works), and how
people take one back. The chat model's extractor (``nodes.retrieval.statements``) reads more, and costs.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from stategate.language.dates import Span, spans
from stategate.language.sentences import sentences
from stategate.language.words import FUNCTION_WORDS, word_list
from stategate.stores.memory.changes import (
    ALIKE,
    CORRECTED,
    FORMER,
    Change,
    change_of,
    is_retirement,
    joined,
)
from stategate.stores.memory.records import Statement

_ADVERBS = frozenset(
    """just also really actually still finally recently already now currently only always usually often
    sometimes even quite officially probably definitely basically mostly since then soon almost nearly
    hardly simply absolutely truly so far at present honestly well oh yes yeah""".split()
)
_AUXILIARY = frozenset(
    """have has had am is are was were be been being will would can could may might must should do does
    did going about used get got want wants wanted plan plans planned hope hopes hoped decided managed
    started need needs needed to ve s d m re ll shall""".split()
)
_BE = frozenset("am is are was were be been m re s".split())
_DENIALS = frozenset("not never nt".split())
_PRONOUNS = frozenset("i we".split())
_OWN = frozenset("my our".split())
_TOKEN = re.compile(r"\d[\d.,:/-]*\d|[^\W_]+(?:-[^\W_]+)*|['’](?=\w)|[^\w\s]")
_SPLIT = re.compile(
    r";|:\s|\s[-–—]\s|,?\s+(?:but|because|although|though|while|whereas|so)\s+"
    r"|,\s+(?:and\s+)?(?=(?:I|we|my|he|she|they|it)\b)|\s+and\s+(?=(?:I|we|my|it)\b)"
    r"|\s+and\s+(?=(?:started|moved|joined|switched|sold|left|works?|lives?|studies)\b)"
    r"|,\s+(?=(?:who|which|where|gave|started|moved|joined|switched|sold|quit)\b)"
)
#: Verbs that tell a state: verb and preposition, and the relation by which a newer value is found.
_STATES = {
    ("live", "in"): "lives in",
    ("live", "at"): "lives in",
    ("live", "on"): "lives in",
    ("move", "to"): "lives in",
    ("move", "into"): "lives in",
    ("relocate", "to"): "lives in",
    ("move", "in"): "lives in",
    ("work", "at"): "works at",
    ("work", "for"): "works at",
    ("work", "in"): "works at",
    ("start", "at"): "works at",
    ("hire", "at"): "works at",
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
#: Verbs that stand alone where the subject goes without saying: "gave up coffee", "and works as ...".
_SUBJECTLESS = frozenset(
    "gave started moved joined switched sold left quit works work lives live studies".split()
)
_CONTRACTED = frozenset(
    "don doesn didn isn aren wasn weren won couldn wouldn haven hasn can".split()
)
_SWITCH = re.compile(
    r"\b(?:switched|changed)\s+(?:over\s+)?from\s+(?P<old>[^,.;!?]+?)\s+to\s+(?P<new>[^,.;!?]+)",
    re.IGNORECASE,
)
_AFTERTHOUGHT = re.compile(
    r"\s*\b(?:any ?more|any longer|no more|after all|instead|now|at present|at the moment|these days|"
    r"currently|from now on|for now)\b",
    re.IGNORECASE,
)
#: What opens a clause and says nothing of what it tells.
_OPENING = re.compile(
    r"^(?:\W*(?:no|yes|yeah|oh|ah|well|sorry|correction|actually|anyway|okay|hey|hi|by the way)"
    r"[,.:!-]+\s+)+",
    re.IGNORECASE,
)
#: "moved back to Oslo", "moved from Oslo to Bergen": where to.
_WHITHER = re.compile(
    r"^(?:(?:back|over|again|away) )?(?:from .+? )?(?=(?:to|into) )", re.IGNORECASE
)
#: What was done at work, or done at all, as what has ended.
_JOB = re.compile(r"^(?:my |the )?(?:job|work|position|working) (?:at|for|with) ", re.IGNORECASE)
_DIVORCED = re.compile(
    r"\b(?:got|am|are|were|'m|'re) (?:a )?(?:divorced|separated)\b", re.IGNORECASE
)
_PAIRS = word_list("irregular_verbs")
_IRREGULAR = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True))
_WITH_E = frozenset(word_list("verbs_in_e"))
_LOOSE_ENDS = frozenset("on in at since and to for from of the a an until with by or as my".split())
_VAGUE = frozenset("friend guess point goodness god word turn".split())
_LONGEST = 14  # words of a value
_LETTERS = 8_000  # of a turn that are read
_LED = re.compile(r"(since|starting|as of|until|till)\b", re.IGNORECASE)
_LEADING = re.compile(rf"\b{_LED.pattern} (?:the )?$", re.IGNORECASE)


def stated(text: str, speaker: str, at: float) -> list[Statement]:
    """Return what ``speaker`` states in ``text``, said at ``at`` (Unix seconds), in order."""
    found: list[Statement] = []
    for sentence in sentences(joined(text[:_LETTERS])):
        if not sentence.rstrip().endswith("?"):
            found += _of_sentence(sentence, speaker or "user", at)
    return list(dict.fromkeys(found))


def _of_sentence(sentence: str, speaker: str, at: float) -> Iterator[Statement]:
    change = change_of(sentence)
    told = list(_of_clauses(change.rest, speaker, at))
    if change.is_denied:
        told = [replace(s, negated=not s.negated, is_state=False) for s in told]
    elif change.standing:
        told = [replace(s, corrects=_stands_for(change, s, speaker)) for s in told]
    yield from told
    is_told = any(s.negated and _key_words(change.what) <= _key_words(s.value) for s in told)
    if change.kind and not is_told:
        corrects = change.what if change.kind == CORRECTED else ""
        yield Statement(speaker, change.kind, change.new or change.what, corrects=corrects)
    if is_retirement(sentence):
        yield from (statement(speaker, r, "", (), negated=True) for r in ("works at", "works as"))


def _stands_for(change: Change, statement: Statement, speaker: str) -> str:
    """Return what a statement stands in place of; of others' affairs one is thought to be told once."""
    if change.what and not change.kind:
        return change.what
    is_own = statement.subject == speaker
    return FORMER if change.standing == ALIKE and not is_own else change.standing


def _key_words(text: str) -> set[str]:
    return set(text.lower().split())


def _of_clauses(sentence: str, speaker: str, at: float) -> Iterator[Statement]:
    subject = ""
    for clause in filter(None, map(str.strip, filter(None, _SPLIT.split(sentence)))):
        first = clause.split()[0].lower()
        if subject and (first in _SUBJECTLESS or _looks_finite(first)):
            clause = f"{subject} {clause}"
        elif not subject and first in _SUBJECTLESS:
            clause = f"I {clause}"
        yield from _of_clause(clause, speaker, at)
        subject = _subject_of(clause) or subject


def _of_clause(clause: str, speaker: str, at: float) -> Iterator[Statement]:
    clause = _OPENING.sub("", clause)
    when = [_reaching(clause, span) for span in spans(clause, at)]
    bare = _AFTERTHOUGHT.sub("", clause)
    for span in when:
        bare = bare.replace(span.text, " ")
    if _DIVORCED.search(clause) and re.search(r"\b(?:I|we)\b", clause):
        yield statement(speaker, "married to", "", when, negated=True)
    if switch := _SWITCH.search(bare):
        yield statement(speaker, "uses", _value(switch["old"]), when, negated=True)
        yield statement(speaker, "uses", _value(switch["new"]), when, is_state=True)
        return
    tokens = [match[0] for match in _TOKEN.finditer(bare)]
    start = next((i for i, t in enumerate(tokens) if _is_subject(tokens, i)), None)
    if start is None:
        return
    end = _end_of_subject(tokens, start)
    subject = tokens[start:end]
    if owned := _end_of_owned(tokens, end):
        # "Zofia's school is ...": of Zofia what "my school is ..." is of the speaker.
        own = subject[0].lower() in _OWN
        speaker = f"{speaker}'s {' '.join(subject[1:])}" if own else " ".join(subject)
        subject, end = ["my", *tokens[end + 2 : owned]], owned
    verb, place, denied, was_be = _verb(tokens, end)
    if verb is None or (not was_be and tokens[place - 1][0].isupper()):
        return  # "My boss at Deutsche Bahn": no verb
    denied = denied or bool(re.search(r"\bno longer\b", clause, re.I))
    rest = tokens[place:]
    yield from _read(speaker, subject, verb, rest, was_be, denied, when)


def _subject_of(clause: str) -> str:
    tokens = [match[0] for match in _TOKEN.finditer(clause)]
    start = next((i for i, t in enumerate(tokens) if _is_subject(tokens, i)), None)
    return "" if start is None else " ".join(tokens[start : _end_of_subject(tokens, start)])


def _is_subject(tokens: Sequence[str], i: int) -> bool:
    word, low = tokens[i], tokens[i].lower()
    opens = all(t.lower() in _ADVERBS for t in tokens[:i])
    if low in _PRONOUNS or low in _OWN or (low == "the" and opens):
        return True
    is_name = word[:1].isupper() and low not in FUNCTION_WORDS and word.isalpha() and len(word) > 1
    after = tokens[i + 1].lower() if i + 1 < len(tokens) else ""
    follows = _AUXILIARY | _ADVERBS | _CONTRACTED | {"'", "’"}
    return is_name and (after in follows or _looks_finite(after))


def _looks_finite(word: str) -> bool:
    return word in _IRREGULAR or (word.isalpha() and word.endswith(("ed", "s")) and len(word) > 3)


def _end_of_subject(tokens: Sequence[str], start: int) -> int:
    low = tokens[start].lower()
    if low in _PRONOUNS:
        return start + 1
    end = start + 1
    while end < len(tokens) and end - start < 4:
        word = tokens[end].lower()
        is_verb = word in _AUXILIARY | _ADVERBS | _DENIALS | _CONTRACTED or word in ("'", "’")
        if is_verb or (end - start > 1 and _looks_finite(word)) or not tokens[end][0].isalnum():
            break
        if low not in _OWN | {"the"} and not tokens[end][:1].isupper():
            break
        end += 1
    return end


def _end_of_owned(tokens: Sequence[str], end: int) -> int:
    """Return where the noun ends that "'s" at ``end`` gives to the subject, 0 for "Zofia's ill"."""
    if [t.lower() for t in tokens[end : end + 2]] not in (["'", "s"], ["’", "s"]):
        return 0
    for place in range(end + 2, min(end + 6, len(tokens))):
        word = tokens[place].lower()
        if place > end + 2 and (word in _BE | _AUXILIARY | _CONTRACTED or _looks_finite(word)):
            return place
        if word in FUNCTION_WORDS | _ADVERBS or not word[0].isalnum() or word.endswith("ing"):
            return 0
        if place == end + 2 and (word in _IRREGULAR or word.endswith("ed")):
            return 0
    return 0


def _verb(tokens: Sequence[str], place: int) -> tuple[str | None, int, bool, bool]:
    """Return the verb behind the subject (base form), and where what follows it begins.

    The last two say whether it is denied, and whether a form of "be" stands before it.
    """
    denied = was_be = False
    while place < len(tokens):
        word = tokens[place].lower()
        if word in ("'", "’"):
            place += 1
        elif word in _DENIALS or word == "t" or _is_contracted(tokens, place):
            denied = denied or word != "t"
            place += 1
        elif word == "no" and place + 1 < len(tokens) and tokens[place + 1].lower() == "longer":
            denied, place = True, place + 2
        elif word in _BE:
            was_be, place = True, place + 1
        elif (word in _AUXILIARY and _goes_on(tokens, place)) or word in _ADVERBS:
            place += 1
        else:
            break
    if place >= len(tokens) or not tokens[place][0].isalnum():
        return ("be" if was_be else None), place, denied, was_be
    word = tokens[place].lower()
    is_participle = tokens[place].islower() and (
        word.endswith("ing") or word.endswith("ed") or word in _IRREGULAR
    )
    if was_be and not is_participle:
        return "be", place, denied, True
    return base_of(word), place + 1, denied, was_be


def _is_contracted(tokens: Sequence[str], place: int) -> bool:
    """Say whether "doesn" of "doesn't" stands here: "can" alone denies nothing."""
    return tokens[place].lower() in _CONTRACTED and tokens[place + 1 : place + 2] in (["'"], ["’"])


def _goes_on(tokens: Sequence[str], place: int) -> bool:
    """Say whether an auxiliary is one here: "I have moved", not "I have a dog"."""
    if place + 1 >= len(tokens):
        return False
    word, after = tokens[place].lower(), tokens[place + 1].lower()
    if (
        after == "to"
        or word == "to"
        or word in ("will", "would", "can", "could", "ve", "ll", "d", "s")
    ):
        return True
    if word in ("have", "has", "had"):
        return (
            after in _ADVERBS | _DENIALS | {"been"} or _looks_finite(after) or after.endswith("en")
        )
    return word not in (
        "get",
        "got",
        "want",
        "wants",
        "wanted",
        "need",
        "needs",
        "started",
        "going",
    )


def _read(
    speaker: str,
    subject: Sequence[str],
    verb: str,
    rest: Sequence[str],
    was_be: bool,
    denied: bool,
    when: Sequence[Span],
) -> Iterator[Statement]:
    first, noun = subject[0].lower(), " ".join(subject[1:]).lower()
    words = " ".join(rest).replace(" ' ", "'").replace(" ’ ", "’")
    if verb in ("move", "relocate", "switch", "change"):
        words = _WHITHER.sub("", words)
    value = _value(words)
    preposition, _, after = value.partition(" ")
    preposition = preposition.lower()
    if first in _PRONOUNS and verb in ENDINGS and not denied:
        if verb == "give" and preposition != "up":
            yield statement(speaker, verb, value, when)
            return
        ended = after if preposition == "up" else value
        if job := _JOB.match(ended):
            yield statement(speaker, "works at", ended[job.end() :], when, negated=True)
            return
        doing, _, what = ended.partition(" ")
        yield statement(speaker, verb, ended, when, negated=True)
        if verb in ("stop", "quit", "give") and doing.endswith("ing") and what:
            yield statement(speaker, base_of(doing.lower()), what, when, negated=True)
        return
    if first in _PRONOUNS and verb == "hand" and "notice" in value:
        place = value.rpartition(" at ")[2] if " at " in value else ""
        yield statement(speaker, "works at", place, when, negated=True)
        return
    if not value:
        # "It has changed", "she isn't coming on Sunday": the verb alone, or a time, is what is said.
        value = when[0].text if when and verb == "be" else verb
    if value == "be":
        return
    if first in _OWN or first == "the":
        if not noun or noun in _VAGUE:
            return
        if verb == "be":
            who, relation = (speaker, noun) if first in _OWN else (noun, "is")
            yield statement(who, relation, value, when, negated=denied, is_state=not denied)
            return
        who = f"{speaker}'s {noun}" if first in _OWN else noun
    else:
        who = speaker if first in _PRONOUNS else " ".join(subject)
    for key in ((verb, preposition), (verb, "")):
        if key in _STATES and (value if not key[1] else after):
            given = after if key[1] else re.sub(r"^to ", "", value)
            yield statement(who, _STATES[key], given, when, negated=denied, is_state=not denied)
            return
    if verb == "be" and preposition == "with" and after:
        yield statement(who, "works at", after, when, negated=denied, is_state=not denied)
        return
    yield statement(who, verb, value, when, negated=denied)


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


def _reaching(clause: str, span: Span) -> Span:
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


def is_past(relation: str, text: str) -> bool:
    """Say whether ``text`` has the verb ``relation`` in the past alone: "lent", but not "is called"."""
    words = re.findall(r"[\w'’]+", text.lower())
    before = ["", *words]
    return any(
        (word in _IRREGULAR or word.endswith("ed"))
        and base_of(word) == relation
        and not before[i].endswith(
            ("is", "am", "are", "been", "'s", "'m", "'re", "’s", "’m", "’re")
        )
        for i, word in enumerate(words)
    )


def base_of(verb: str) -> str:
    """Return the base form of a verb, near enough to compare."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    for ending, stem in (("ied", "y"), ("ies", "y")):
        if verb.endswith(ending) and len(verb) > 4:
            return verb[: -len(ending)] + stem
    for ending in ("ing", "ed"):
        root = verb.removesuffix(ending)
        if root != verb and len(root) >= 3:
            if root[-1] == root[-2] and root[-1] not in "ls":
                return root[:-1]
            return f"{root}e" if f"{root}e" in _WITH_E else root
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") and len(verb) > 3 else verb
