"""What a name in English text is the name of, told from the words in it and around it.

Only closed classes of general English tell (``words.toml``: function words, titles, the nouns that
names of institutions and places end in): no list of names, so that a text of any field is read alike.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

LETTERS = 8_000  # of a text that are read: each name is looked up all over it
_MENTIONS = 20  # of a name that are looked at
#: Kinds of entities. Memories written earlier may hold others, which are read and shown as they are.
NAMED = ("person", "location", "organisation", "thing")
KINDS = (*NAMED, "topic")
_LISTS = {
    name: tuple(words.split())
    for name, words in tomllib.loads(
        Path(__file__).with_name("words.toml").read_text("utf-8")
    ).items()
}
_WORDS = {name: frozenset(words) for name, words in _LISTS.items()}
FUNCTION_WORDS = _WORDS["function_words"]
CALENDAR = _WORDS["calendar"]
TITLES = _WORDS["titles"]
_LEGAL = _WORDS["legal"]
_INSTITUTIONS = _WORDS["institutions"]
_GEOGRAPHY = _WORDS["geography"]
_THINGS = _WORDS["things"]
_PLACE_NOUNS = _GEOGRAPHY | _WORDS["more_place_nouns"]
_HEADS = _THINGS | _INSTITUTIONS | _GEOGRAPHY | TITLES
_SPEECH = _WORDS["speech"]
_AGENTS = re.compile(
    r"(?:[a-z]{2,}(?:er|or|ist|ian|man|woman|ess|eon|ant)|"
    r"chief|head|captain|wife|husband|daughter|son|cousin|friend|king|queen|poet)$"
)
_WORKS = _WORDS["works"]
_FIELDS = _WORDS["fields"]
_FIELD = re.compile(
    r"[a-z]{2,}(?:[ts]ions?|ments?|ness|ships?|isms?|ics|logy|graphy|nomy|tures?|stry|stries)$"
)
PLACE_PREPOSITIONS = _WORDS["place_prepositions"]
_WORD = re.compile(r"[\w'’.&-]+|[,;:()\"“”]")
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s?$")


def word_list(name: str) -> tuple[str, ...]:
    """Return a list of ``words.toml`` in its order."""
    return _LISTS[name]


def plain(name: str) -> str:
    """Return ``name`` without article, titles and possessive, on one line."""
    name = _POSSESSIVE.sub("", " ".join(name.split()).strip(" .,;:\"“”'’()"))
    first, _, rest = _ARTICLE.sub("", name).partition(" ")
    while rest and first.lower().rstrip(".") in TITLES - {"saint"} and not rest.startswith("of "):
        first, _, rest = rest.partition(" ")
    return f"{first} {rest}".strip()


_TOKEN = re.compile(r"(?:[A-Z]|St)\.(?=\s?[A-Z])|[^\W_]+(?:['’.\-/&][^\W_]+)*['’]?|[&]|[^\w\s]")
_JOINS = _WORDS["joins"]


@dataclass(frozen=True)
class Name:
    """A capitalised name: its text and where it begins and ends."""

    text: str
    start: int
    end: int


def proper_names(text: str, is_name: Callable[[int], bool] | None = None) -> list[Name]:
    """Return the runs of capitalised words of ``text`` (one sentence a line) that read as names.

    A word that begins a sentence is capitalised anyway: it counts if ``is_name`` says so of its
    position, or without that if the text writes it so elsewhere too, or never in lower case and with
    another capital after it. Quoted titles count as one name.
    """
    titles = [m for m in _QUOTED.finditer(text) if _is_title(m[1])]
    found = [Name(m[1].rstrip(".,"), m.start(1), m.end(1)) for m in titles]
    quoted = {i for m in titles for i in range(m.start(1), m.end(1))}
    lines = [list(_TOKEN.finditer(text, *m.span())) for m in re.finditer(r"[^\n]+", text)]
    lower = {token[0] for tokens in lines for token in tokens if token[0].islower()}
    inside = {
        _bare(token[0])
        for tokens in lines
        for before, token in pairwise(tokens)
        if token[0][0].isupper() and before[0] not in _OPENERS
    }
    for tokens in lines:
        words = [token[0] for token in tokens]
        i = 0
        while i < len(tokens):
            end = i if tokens[i].start() in quoted else _end_of_name(words, i)
            is_first = i == 0 or tokens[i - 1][0] in _OPENERS
            if end == i or (is_first and not _begins_name(tokens[i:end], lower, inside, is_name)):
                i += 1
                continue
            name = text[tokens[i].start() : tokens[end - 1].end()]
            if _is_worth(name) and not _is_adjective(tokens, i, end):
                found.append(Name(name, tokens[i].start(), tokens[end - 1].end()))
            i = end
    return sorted(found, key=lambda name: name.start)


#: Nationalities ("Danish", "Anglo-American") and what is made of names ("Kepler-based").
_ADJECTIVE = re.compile(r"^[A-Z][\w-]*(?:ish|ese|[aei]ans?)$|^\w+-[a-z]{2,}$")
_QUOTED = re.compile(r"[\"“]([^\"“”\n]{2,80})[\"”]")
_OPENERS = frozenset('"“‘(:;.!?•*#-–—')


def _is_title(text: str) -> bool:
    """Say whether quoted words are a title: all but the function words are capitalised."""
    words = re.findall(r"[^\W\d_][\w'’-]*", text)
    content = [word for word in words if word.lower() not in FUNCTION_WORDS]
    return (
        bool(content)
        and "(" not in text
        and words[0][0].isupper()
        and all(w[0].isupper() for w in content)
        and text[-1] not in ".!,"
    )


def _is_worth(name: str) -> bool:
    bare = plain(name)
    low = bare.lower()
    is_word = low in FUNCTION_WORDS and not bare.isupper()
    is_other = low in CALENDAR | TITLES or bool(_ADJECTIVE.search(name))
    return len(bare) > 1 and not is_word and not is_other


def _is_adjective(tokens: Sequence[re.Match[str]], start: int, end: int) -> bool:
    """Say whether a single word stands between "a" and a noun: "a Welsh poet"."""
    if end != start + 1 or not 0 < start < len(tokens) - 1 or tokens[start][0].isupper():
        return False
    return tokens[start - 1][0].lower() in ("a", "an") and tokens[end][0].islower()


def _bare(word: str) -> str:
    return _POSSESSIVE.sub("", word)


def _is_capital(word: str) -> bool:
    low = word.lower()
    if low in CALENDAR or low in ("i", "i'm", "i've", "i'd", "i'll"):
        return False
    return word[:1].isupper() or bool(re.match(r"[ld]['’][A-Z]", word))


def _end_of_name(words: Sequence[str], start: int) -> int:
    """Return the end of the name that begins at word ``start`` (``start`` itself if none does)."""
    if not _is_capital(words[start]):
        return start
    end = start + 1
    while end < len(words):
        word, after = words[end], [*words[end + 1 : end + 3], "", ""]
        if _ends_possessive(words[start], words[end - 1], word):
            break
        if _is_capital(word) or (word.isdigit() and len(word) < 3 and end == start + 1):
            end += 1
        elif (word in _JOINS or word in ("v", "für")) and _is_capital(after[0]):
            if word == "of" and not _takes_of(words, start, end):
                break
            end += 2
        elif word == "of" and after[0] == "the" and _is_capital(after[1]):
            if not _takes_of(words, start, end):
                break
            end += 3
        elif word == "und" and "für" in words[start:end] and _is_capital(after[0]):
            end += 2
        elif word == "for" and (shared := _end_of_purpose(words, end)):
            end = shared
        elif word in ("and", ",") and (
            shared := _end_of_fields(words, start, end) or _end_of_pair(words, start, end)
        ):
            return shared
        else:
            break
    return end


def _is_field(word: str) -> bool:
    low = word.lower()
    return low in _FIELDS or bool(_FIELD.match(low))


def _end_of_capitals(words: Sequence[str], start: int) -> int:
    end = start
    while end < len(words) and _is_capital(words[end]):
        end += 1
    return end


def _end_of_fields(words: Sequence[str], start: int, end: int) -> int:
    """Return where a name ends whose institution is of several fields, 0 where "and" joins two names.

    "The Department of Health and Social Care" and "the Ministry of Food, Agriculture and Forestry" are
    one; "the Department of Justice and Microsoft" and "the Bank of England and Deutsche Bank" two.
    """
    is_last = False
    while {"of", "for"} & set(words[start:end]) and _is_field(words[end - 1]) and not is_last:
        is_last = "and" in words[end : end + 2]
        end += 1 + (words[end : end + 2] == [",", "and"])
        after = _end_of_capitals(words, end)
        if after == end or words[end - 1] not in ("and", ","):
            return 0
        end = after
    return end if is_last and _is_field(words[end - 1]) else 0


def _end_of_purpose(words: Sequence[str], end: int) -> int:
    """Return where the name of an institution for a field ends, 0 if it is not called by that.

    "The Office for National Statistics", "the Council for the Environment"; "the Council for Berlin"
    not.
    """
    if words[end - 1].lower() not in _INSTITUTIONS | _GEOGRAPHY:
        return 0
    begin = end + 1 + (words[end + 1 : end + 2] == ["the"])
    last = _end_of_capitals(words, begin)
    return last if last > begin and _is_field(words[last - 1]) else 0


def _end_of_pair(words: Sequence[str], start: int, end: int) -> int:
    """Return where a name of two with one head ends, 0 where these are two names.

    "the Victoria and Albert Museum" is one: "the" stands before a single word, and the head, one
    institution or thing, behind the second. In "the Louvre and the British Museum", "Ada Holt and Bern
    University" and "the Nobel and Pulitzer Prizes" two are named.
    """
    first = start + (words[start] == "The")
    has_article = first > start or (start > 0 and words[start - 1].lower() == "the")
    if (
        words[end] != "and"
        or not has_article
        or end != first + 1
        or words[first].lower() in _INSTITUTIONS
    ):
        return 0
    last = end + 1
    while last < len(words) and _is_capital(words[last]):
        last += 1
    is_head = last > end + 2 and words[last - 1].lower() in _INSTITUTIONS | _THINGS | _LEGAL
    return last if is_head else 0


def _ends_possessive(first: str, before: str, word: str) -> bool:
    """Say whether a name ends between "Holt's" and ``word``: not in "The Keeper's Tale"."""
    if not before.endswith(("'s", "’s")):
        return False
    is_part = word.lower() in _HEADS or first.lower() in ("the", "saint")
    return not _is_capital(word) or _bare(before).isupper() or not is_part


def _takes_of(words: Sequence[str], start: int, end: int) -> bool:
    """Say whether "of X" belongs to the name: "University of X", "the Rite of X", "Ada Holt" not."""
    if words[end - 1].lower() in _GEOGRAPHY:
        return end == start + 1  # "Bay of X", but "the Dry Valleys of X" lie in X
    is_article = words[start] == "The" or (start > 0 and words[start - 1].lower() == "the")
    return is_article or words[end - 1].lower() in _HEADS


def _begins_name(
    name: Sequence[re.Match[str]],
    lower: Set[str],
    inside: Set[str],
    is_name: Callable[[int], bool] | None,
) -> bool:
    """Say whether the capital of ``name``, which begins a sentence, is that of a name."""
    word, low = name[0][0], _bare(name[0][0].lower())
    if low in FUNCTION_WORDS:
        return low == "the" and len(name) > 1
    if _bare(word) in inside or (word.isupper() and len(word) > 1) or re.search(r".[A-Z]|\d", word):
        return True
    if len(name) > 1 and name[-1][0].isdigit():
        return True
    if len(name) == 1 and {low, f"{low}s", low.removesuffix("s")} & lower:
        return False
    if is_name is not None:
        return is_name(name[0].start())
    return low not in lower and (len(name) > 1 or word.endswith(("'s", "’s")))


def kind_of(name: str, text: str, label: str | None = None) -> str:
    """Return which of :data:`NAMED` fits ``name`` best, by its words and its surroundings in ``text``.

    ``label`` is what a recogniser takes it for; it counts as one more sign.
    """
    votes: defaultdict[str, float] = defaultdict(float)
    if label == "organisation":
        votes[label] = 1.0
    elif label:  # small recognisers often take a single foreign word for a person
        votes[label] = 1.6 if " " in name else 1.2
    _read_name(name, votes)
    for match in islice(re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text), _MENTIONS):
        before = _WORD.findall(text[max(0, match.start() - 60) : match.start()])[-4:]
        after = _WORD.findall(text[match.end() : match.end() + 40])[:3]
        _read_surroundings(name, before, after, votes)
    return max(NAMED, key=lambda kind: votes[kind])


def _read_name(name: str, votes: defaultdict[str, float]) -> None:
    words = [w.strip(".,") for w in name.split()]
    low = [w.lower() for w in words]
    head = low[low.index("of") - 1] if "of" in low[1:] else low[-1]
    if (low[-1] in _LEGAL and len(low) > 1) or "&" in low:
        votes["organisation"] += 4
    if "v" in low:
        votes["thing"] += 8
    if low[0] in TITLES and low[1:2] == ["of"]:
        votes["person"] += 3
    if FUNCTION_WORDS & set(low) - _JOINS:
        votes["person"] -= 2
    for kind, heads in (
        ("thing", _THINGS),
        ("organisation", _INSTITUTIONS),
        ("location", _GEOGRAPHY),
    ):
        if head in heads or head.removesuffix("s") in heads:
            votes[kind] += 3
        elif low[0] in heads and len(low) > 1:
            votes[kind] += 3 if kind == "location" else 2
    if (
        re.search(r"\d", name)
        or low[-1] in {"ii", "iii", "iv"}
        or re.search(r"[a-z][A-Z]{1}[a-z]{3}", words[0])
    ):
        votes["thing"] += 2
    if re.fullmatch(r"[A-Z]{2,6}", name):
        votes["organisation"] += 1
    if 2 <= len(words) <= 3 and all(w[:1].isupper() for w in words):
        votes["person"] += 1
    elif len(words) == 1:
        votes["location"] += 0.2


def _read_surroundings(
    name: str, before: Sequence[str], after: Sequence[str], votes: defaultdict[str, float]
) -> None:
    last = before[-1] if before else ""
    skipped = (",", "of", "The", "the")
    noun = next((word for word in reversed(before) if word not in skipped), "")
    first = after[0] if after else ""
    is_where = before[-2:-1] and before[-2] in PLACE_PREPOSITIONS | {"to", "from", "over"}
    signs: tuple[tuple[object, dict[str, float]], ...] = (
        (last.lower().rstrip(".") in TITLES, {"person": 3}),
        (last in PLACE_PREPOSITIONS, {"location": 2}),
        (last in ("from", "to"), {"location": 0.7 if " " in name else 1.1}),
        (last == "during" or "during" in before[-2:-1], {"thing": 2}),
        (last in ('"', "“") and first in ('"', "”"), {"thing": 4}),
        (last == "by", {"person": 0.5, "organisation": 0.3}),
        (
            last == "The" and before[-2:-1] and before[-2] not in _OPENERS,
            {"thing": 2, "person": -2},
        ),
        (last == "the" and is_where, {"location": 1.2, "person": -2}),
        (last == "the", {"thing": 0.6, "organisation": 0.6, "person": -2}),
        (last == "of" and noun in _PLACE_NOUNS, {"location": 3}),
    )
    for kind, weight in next((weights for is_so, weights in signs if is_so), {}).items():
        votes[kind] += weight
    if last != "of" and _AGENTS.match(noun) and noun not in FUNCTION_WORDS:
        votes["person"] += 1.5
    elif last != "of" and noun in _WORKS:
        votes["thing"] += 3
    elif last != "of" and noun in _INSTITUTIONS:
        votes["organisation"] += 2
    if first in _SPEECH or last in ("said", "says"):
        votes["person"] += 1.5
    if first == "," and len(after) > 1 and (after[1].isdigit() or after[1] == "who"):
        votes["person"] += 2
    if first == "(" and len(after) > 1 and after[1] == "born":
        votes["person"] += 3


_ABBREVIATION = re.compile(
    r"\b(?:[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Rev|Sir|Jr|Sr|Gen|Col|Lt|Capt|Mt|No|Fig|vs?|ca|approx|e\.g|i\.e|"
    r"[Tt]el|Fa|Hr|Fr|Nr|Str|Abs|bzw|inkl|evtl|ggf)\.\s*$"
)
_MONTHS = r"(?:Jan|Feb|M[aä]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])"
_END = re.compile(
    rf"(?:[!?]|(?<!\d)\.|\.(?!\s+{_MONTHS}))[\"”’')]*\s+(?=[\"“‘'(]?[^\W_a-zäöüß])"
    r"|\n\s*\n|(?<=[.!?])\n"
)


def sentences(text: str) -> list[str]:
    """Return the sentences of ``text``; a title, an initial or a wrapped line ends none."""
    ends = (
        match.end()
        for match in _END.finditer(text)
        if not _ABBREVIATION.search(text, max(0, match.end() - 12), match.end())
    )
    parts, start = [], 0
    for end in (*ends, len(text)):
        parts.append(" ".join(text[start:end].split()))
        start = end
    return [part for part in parts if part]
