"""What a name in English text is the name of, told from the words in it and around it.

Only closed classes of general English stand here (function words, titles, legal forms, the nouns that
names of institutions and places end in): no list of names, so that a text of any field is read alike.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from stores.memory.records import Entity, Relation

#: Kinds of entities. Memories written earlier may hold others, which are read and shown as they are.
NAMED = ("person", "location", "organisation", "thing")
KINDS = (*NAMED, "topic")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = _words(
    "a an the this that these those such some any no every each either neither both all half many much "
    "more most few fewer little less least several enough another other same own one ones "
    "i you he she it we they me him her us them my your his its our their mine yours hers ours theirs "
    "myself yourself himself herself itself ourselves themselves who whom whose which what where when "
    "why how whether if unless while whereas because since until till although though as than so too "
    "and or but nor yet not never only also even just still already again ever once then there here now "
    "very rather quite almost perhaps however therefore thus otherwise instead moreover meanwhile "
    "of in on at by for with without within about against between among through during before after "
    "above below over under to from up down into onto out off across along around behind beside besides "
    "beyond despite except inside near outside per past toward towards upon via like unlike according "
    "is are was were be been being am do does did done doing have has had having will would shall should "
    "can could may might must ought let lets get gets got yes no please thanks hello hi ok "
    "two three four five six seven eight nine ten hundred thousand million first second third last next "
    "today yesterday tomorrow tonight something anything nothing everything someone anyone everyone "
    "nobody somebody anybody everybody else"
)  # fmt: skip
CALENDAR = _words(
    "january february march april may june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday spring summer autumn winter christmas easter"
)
TITLES = _words(
    "mr mrs ms miss dr prof professor sir dame lord lady king queen prince princess emperor pope saint "
    "father sister brother reverend rev rabbi judge justice president chancellor minister senator "
    "governor mayor ambassador general colonel major captain lieutenant sergeant admiral commander "
    "inspector officer doctor director coach chef uncle aunt earl duke count baron"
)
_LEGAL = _words("ltd limited inc plc llc llp gmbh ag sa corp corporation co company kg bv oy ab as spa")
_INSTITUTIONS = _words(
    "university college academy school institute institution foundation association society union league "
    "council committee commission ministry department agency authority office bureau board court tribunal "
    "parliament senate congress government police army navy hospital clinic library museum gallery bank "
    "group holding holdings records press orchestra ensemble quartet choir band club united party church "
    "organization organisation federation confederation cooperative trust fund network airlines railways "
    "properties partners brothers assembly pictures entertainment publishing publishers music international "
    "industries systems technologies motors insurance sons laboratory laboratories laboratoires studios team times gazette "
    "herald tribune radio television news post"
)
_GEOGRAPHY = _words(
    "street road avenue square rue boulevard river lake mount mountain mountains "
    "valley valleys island islands bay gulf sea ocean strait cape coast peninsula glacier desert "
    "forest park region province county district state republic kingdom city town village port harbour "
    "bridge tower castle palace abbey cathedral theatre theater stadium estadio station airport hall "
    "plain land canal falls point cove beach center centre"
)
_THINGS = _words(
    "act law code bill treaty agreement convention protocol declaration constitution war wars battle siege "
    "revolution rebellion uprising plan project programme program cup trophy medal prize award championship "
    "festival olympics games conference summit exhibition crisis disaster earthquake hurricane storm "
    "book novel poem song symphony concerto opera film movie album journal magazine review chronicle "
    "story tale mission operation edition version theory theorem effect syndrome disease"
)
_PLACE_NOUNS = _GEOGRAPHY | _words("country capital suburb parish port isle yard neighbourhood commune")
_HEADS = _THINGS | _INSTITUTIONS | _GEOGRAPHY | TITLES
_SPEECH = _words(
    "said says told tells wrote writes warned added argued explained replied answered asked believes "
    "thinks lives lived died married studied"
)
_AGENTS = re.compile(r"(?:[a-z]{2,}(?:er|or|ist|ian|man|woman|ess|eon|ant)|chief|head|captain|wife|"
                     r"husband|daughter|son|mother|father|cousin|friend|king|queen|poet|author|editor)$")  # fmt: skip
_WORKS = _words(
    "novel book film movie opera song album poem play concerto symphony ship vessel app software "
    "programme program language protocol newspaper magazine journal named called"
)
PLACE_PREPOSITIONS = _words("in on at near across around outside inside off throughout along towards")
_WORD = re.compile(r"[\w'’.&-]+|[,;:()\"“”]")
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s?$")


def plain(name: str) -> str:
    """Return ``name`` without article, titles and possessive, on one line."""
    name = _POSSESSIVE.sub("", " ".join(name.split()).strip(" .,;:\"“”'’()"))
    first, _, rest = _ARTICLE.sub("", name).partition(" ")
    while rest and first.lower().rstrip(".") in TITLES - {"saint"} and not rest.startswith("of "):
        first, _, rest = rest.partition(" ")
    return f"{first} {rest}".strip()


_TOKEN = re.compile(r"[^\W_]+(?:['’.\-/&][^\W_]+)*['’]?|[&]|[^\w\s]")
_JOINS = _words("of de del della di da du la le van von der den el al y & d'")


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
    another capital after it.
    """
    found: list[Name] = []
    tokens_of = [(m.start(), m.end(), list(_TOKEN.finditer(text, m.start(), m.end()))) for m in re.finditer(r"[^\n]+", text)]
    lower = {t[0] for *_, tokens in tokens_of for t in tokens if t[0].islower()}
    inside = Counter(
        _bare(t[0]) for *_, tokens in tokens_of for t, before in zip(tokens[1:], tokens, strict=False)
        if t[0][0].isupper() and before[0] not in _OPENERS
    )  # fmt: skip
    titles = [m for m in _QUOTED.finditer(text) if _is_title(m[1])]
    quoted = {i for m in titles for i in range(m.start(1), m.end(1))}
    found += [Name(m[1].rstrip(".,"), m.start(1), m.start(1) + len(m[1].rstrip(".,"))) for m in titles]
    for *_, tokens in tokens_of:
        i = 0
        while i < len(tokens):
            if tokens[i].start() in quoted:
                i += 1
                continue
            end = _run(tokens, i, inside)
            if end > i and (i == 0 or tokens[i - 1][0] in _OPENERS):
                if not _begins_name(tokens, i, end, lower, inside, is_name):
                    i += 1
                    continue
            if end > i:
                name = text[tokens[i].start() : tokens[end - 1].end()]
                bare = plain(name)
                is_word = bare.lower() in FUNCTION_WORDS and not bare.isupper()
                if len(bare) > 1 and not is_word and not _is_adjective(tokens, i, end) and not _ADJECTIVE.search(name) and bare.lower() not in CALENDAR | TITLES:
                    found.append(Name(name, tokens[i].start(), tokens[end - 1].end()))
            i = max(end, i + 1)
    return sorted(found, key=lambda name: name.start)


#: Nationalities ("Danish", "Anglo-American") and what is made of names ("Kepler-based").
_ADJECTIVE = re.compile(r"^[A-Z][\w-]*(?:ish|ese|[aei]ans?)$|^\w+-[a-z]{2,}$")
_QUOTED = re.compile(r"[\"“]([^\"“”\n]{2,80})[\"”]")
_OPENERS = frozenset("\"“‘(:;.!?•*#-–—")


def _is_title(text: str) -> bool:
    """Say whether quoted words are a title: all but the function words are capitalised."""
    words = re.findall(r"[^\W\d_][\w'’-]*", text)
    if "(" in text:
        return False
    content = [word for word in words if word.lower() not in FUNCTION_WORDS]
    return bool(content) and words[0][0].isupper() and all(w[0].isupper() for w in content) and text[-1] not in ".!,"


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
    return word[0].isupper() or bool(re.match(r"[ld]['’][A-Z]", word))


def _run(tokens: Sequence[re.Match[str]], start: int, inside: Mapping[str, int]) -> int:
    """Return the end of the name that begins at token ``start`` (``start`` itself if none does)."""
    if not _is_capital(tokens[start][0]):
        return start
    end = start + 1
    while end < len(tokens):
        word, before = tokens[end][0], tokens[end - 1][0]
        if before.endswith(("'s", "’s")) and (
            not _is_capital(word) or _bare(before).isupper()
            or word.lower() not in _HEADS and tokens[start][0].lower() not in ("the", "saint")
        ):
            break
        after = tokens[end + 1][0] if end + 1 < len(tokens) else ""
        if _is_capital(word):
            end += 1
        elif word in _JOINS and after and _is_capital(after) and (
            word != "of" or _takes_of(tokens, start, end)
        ):
            end += 2
        elif word == "of" and after == "the" and end + 2 < len(tokens) and _is_capital(tokens[end + 2][0]) and _takes_of(tokens, start, end):
            end += 3
        elif word == "v" and after and _is_capital(after):
            end += 2
        elif word.isdigit() and len(word) < 3 and end == start + 1:
            end += 1
        else:
            break
    return end


def _takes_of(tokens: Sequence[re.Match[str]], start: int, end: int) -> bool:
    """Say whether "of X" goes on the name: "University of X", "the Annals of X", not "Ada Holt of X"."""
    before = tokens[start - 1][0].lower() if start else ""
    if tokens[end - 1][0].lower() in _GEOGRAPHY:
        return end == start + 1  # "Bay of X", but "the Dry Valleys of X" lie in X
    is_article = before == "the" or tokens[start][0] == "The"
    return is_article or tokens[end - 1][0].lower() in _HEADS


def _begins_name(
    tokens: Sequence[re.Match[str]], start: int, end: int, lower: set[str],
    inside: Mapping[str, int], is_name: Callable[[int], bool] | None,
) -> bool:  # fmt: skip
    word = tokens[start][0]
    low = _bare(word.lower())
    if low in FUNCTION_WORDS:
        return low == "the" and end > start + 1
    if inside[_bare(word)] or word.isupper() and len(word) > 1 or re.search(r".[A-Z]|\d", word):
        return True
    if end > start + 1 and tokens[end - 1][0].isdigit():
        return True
    if end == start + 1 and {low, f"{low}s", low.removesuffix("s")} & lower:
        return False
    if is_name is not None:
        return is_name(tokens[start].start())
    if low in lower:
        return False
    return end > start + 1 or word.endswith(("'s", "’s"))


def kind_of(name: str, text: str, label: str | None = None) -> str:
    """Return which of :data:`NAMED` fits ``name`` best, by its words and its surroundings in ``text``.

    ``label`` is what a recogniser takes it for; it counts as one more sign.
    """
    votes: Counter[str] = Counter({label: _trust(name, label)} if label else {})
    _read_name(name, votes)
    for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text):
        before = _WORD.findall(text[max(0, match.start() - 60) : match.start()])[-4:]
        after = _WORD.findall(text[match.end() : match.end() + 40])[:3]
        _read_surroundings(name, before, after, votes)
    return max(NAMED, key=lambda kind: votes[kind])


def _trust(name: str, label: str) -> float:
    """Small recognisers often take a single foreign word for a person, and much for a firm."""
    if label == "organisation":
        return 1.0
    return 1.6 if " " in name else 1.2


def _read_name(name: str, votes: Counter[str]) -> None:
    words = [w.strip(".,") for w in name.split()]
    low = [w.lower() for w in words]
    head = low[low.index("of") - 1] if "of" in low[1:] else low[-1]
    if low[-1] in _LEGAL and len(low) > 1 or "&" in low:
        votes["organisation"] += 4
    if "v" in low:
        votes["thing"] += 8
    if low[0] in TITLES and low[1:2] == ["of"]:
        votes["person"] += 3
    if FUNCTION_WORDS & set(low) - _JOINS:
        votes["person"] -= 2
    for kind, heads in (
        ("thing", _THINGS), ("organisation", _INSTITUTIONS), ("location", _GEOGRAPHY),
    ):  # fmt: skip
        if head in heads or head.removesuffix("s") in heads:
            votes[kind] += 3
        elif low[0] in heads and len(low) > 1:
            votes[kind] += 3 if kind == "location" else 2
    if re.search(r"\d", name) or low[-1] in {"ii", "iii", "iv"} or re.search(r"[a-z][A-Z]{1}[a-z]{3}", words[0]):
        votes["thing"] += 2
    if re.fullmatch(r"[A-Z]{2,6}", name):
        votes["organisation"] += 1
    if 2 <= len(words) <= 3 and all(w[:1].isupper() for w in words):
        votes["person"] += 1
    elif len(words) == 1:
        votes["location"] += 0.2


def _read_surroundings(
    name: str, before: Sequence[str], after: Sequence[str], votes: Counter[str]
) -> None:
    last = before[-1] if before else ""
    skipped = (",", "of", "The", "the")
    noun = next((word for word in reversed(before) if word not in skipped), "")
    first = after[0] if after else ""
    if last.lower().rstrip(".") in TITLES:
        votes["person"] += 3
    elif last in PLACE_PREPOSITIONS:
        votes["location"] += 2
    elif last in ("at", "from", "to"):
        votes["location"] += 0.7 if " " in name else 1.1
    elif last == "during" or "during" in before[-2:-1]:
        votes["thing"] += 2
    elif last in ('"', "“") and first in ('"', "”"):
        votes["thing"] += 4
    elif last == "by":
        votes["person"] += 0.5
        votes["organisation"] += 0.3
    elif last == "The" and len(before) > 1 and before[-2] not in _OPENERS:
        votes["thing"] += 2
        votes["person"] -= 2
    elif last == "the" and before[-2:-1] and before[-2] in PLACE_PREPOSITIONS | {"to", "from", "over"}:
        votes["location"] += 1.2
        votes["person"] -= 2
    elif last == "the":
        votes["thing"] += 0.6
        votes["organisation"] += 0.6
        votes["person"] -= 2
    elif last == "of" and noun in _PLACE_NOUNS:
        votes["location"] += 3
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


def merged(entities: Iterable[Entity]) -> list[Entity]:
    """Return each entity once, in order, without short forms ("Weiss") of longer ones of the text."""
    unique = list({e.name.lower(): e for e in reversed(list(entities)) if e.name}.values())[::-1]
    return [e for e in unique if not any(_shortens(e, other) for other in unique)]


def _shortens(entity: Entity, other: Entity) -> bool:
    short, full = entity.name.lower().split(), other.name.lower().split()
    if len(short) >= len(full) or "topic" in (entity.kind, other.kind):
        return False
    if other.kind == "person" and (len(short) == 1 or entity.kind == "person"):
        return short in (full[-len(short) :], full[: len(short)])
    return entity.kind == other.kind != "location" and short == full[: len(short)]


_ALSO = re.compile(
    r"\b(?:also|sometimes|otherwise|commonly)\s+(?:known\s+as|called|named)\s+"
    r"((?:the\s+|an?\s+)?[\w'’-]+(?:\s+[\w'’-]+){0,3}?)"
    r"(?:\s+or\s+((?:the\s+|an?\s+)?[\w'’-]+(?:\s+[\w'’-]+){0,3}?))?"
    r"(?=\s*(?:[,;:.!?()\[\]\n]|$|\s(?:is|are|was|were|in|that|which|and|because|for|by)\b))",
    re.IGNORECASE,
)


def other_names(text: str, name: str) -> Mapping[str, Any]:
    """Return ``{"also_known_as": [...]}`` where a sentence that holds ``name`` gives other names."""
    others: dict[str, str] = {}
    for sentence in sentences(text):
        low = sentence.lower()
        for match in _ALSO.finditer(sentence):
            if name.lower() not in low[: match.start()]:
                continue
            for other in filter(None, match.groups()):
                bare = _ARTICLE.sub("", other).strip()
                if bare.lower() not in (name.lower(), f"{name.lower()}s"):
                    others.setdefault(bare.lower(), bare)
    return {"also_known_as": list(others.values())} if others else {}


def sentences(text: str) -> list[str]:
    """Return the sentences of ``text``; a title, an initial or a wrapped line ends none."""
    ends = (
        match.end()
        for match in re.finditer(r"[.!?][\"”’')]*\s+(?=[\"“‘'(]?[A-Z\d])|\n\s*\n|(?<=[.!?])\n", text)
        if not re.search(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Rev|Sir|No|vs?|e\.g|i\.e)\.\s*$", text[: match.end()])
    )  # fmt: skip
    parts, start = [], 0
    for end in (*ends, len(text)):
        parts.append(" ".join(text[start:end].split()))
        start = end
    return [part for part in parts if part]


_LISTED = re.compile(r"\s*(?:,\s*(?:and\s+)?|\s(?:and|or)\s+)(?:the\s+)?[A-Z]")
_BETWEEN = re.compile(r",\s+(?:the\s+)?")


def regions(text: str, names: Sequence[tuple[Entity, int, int]]) -> dict[str, Entity]:
    """Return the region of each place that is written "place, region", by the place's name.

    ``names`` are entities with where they stand in ``text``. In a list of places ("in Zamora, Spain,
    and Kerala") the comma need not say where the first lies: lists are left alone.
    """
    places = [name for name in names if name[0].kind == "location"]
    found: dict[str, Entity] = {}
    for (place, start, end), (region, next_start, next_end) in pairwise(places):
        is_listed = _LISTED.match(text, next_end) or re.search(r"[A-Z][\w'’-]*,\s+$", text[:start])
        if _BETWEEN.fullmatch(text, end, next_start) and not is_listed and place.name != region.name:
            found.setdefault(place.name, region)
    return found


def described(text: str, entity: Entity, regions: Mapping[str, Entity]) -> Entity:
    """Return ``entity`` with the attributes that ``text`` gives it: other names, region."""
    attributes = dict(other_names(text, entity.name))
    if entity.kind == "location" and entity.name in regions:
        attributes["region"] = regions[entity.name].name
    return replace(entity, attributes=attributes) if attributes else entity


def distinct(relations: Iterable[Relation]) -> list[Relation]:
    """Return each relation once and none of an entity with itself; names of 40 letters at most."""
    key = {
        (r.subject.name, r.relation, r.object.name): replace(r, relation=r.relation[:40])
        for r in relations
        if r.subject.name != r.object.name
    }
    return list(key.values())
