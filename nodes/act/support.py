"""What of a context may answer a question, and how likely it does: shared by the actors that answer.

The chance that the best sentence answers is a logistic of what a reader would look at: is it near in
meaning, does it share the question's words (the rare ones above all), does it hold what kind of thing
is asked for. Its weights are fitted on development questions whose evidence was left in or taken out
(``python -m evals.qa.answerable fit``) and stand in ``support.json`` with the run that they came from.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from operator import itemgetter

import numpy as np

from stategate.language.sentences import sentences
from stategate.language.words import FUNCTION_WORDS
from stategate.nodes.act.asked import holds, kind_asked
from stategate.nodes.protocols import BuiltContext, Embedder, Piece, Vector
from stategate.nodes.retrieval.quoting import ITEM
from stategate.stores.corpus.lexical import words
from stategate.stores.memory.extraction import extract_statements
from stategate.stores.text import one_line

#: What an actor says where nothing that it may quote is near enough to the question.
NOTHING_FOUND = "Nothing found."
#: In a decision's reason, between why a model's reply is taken back and what it wrote.
WROTE = "; the model wrote: "
_BULLET = re.compile(r"^[-*+•] +")
_CITED = re.compile(r"^\[\d+\] ")
_UNANSWERED = "(not answered)"
_POINTING = re.compile(r" \(about: ([^()]*)\)$")
#: What makes a question one about the talk itself: "Which lake did I ask you about last time?"
_OF_TALK = re.compile(
    r"\b(?:my (?:very )?(?:last|first|previous) question|"
    r"(?:did|have|had) (?:I|we|you) (?:(?:just|already|ever) )?(?:ask(?:ed)?|want(?:ed)? to know|"
    r"talk(?:ed)?|speak|spoken?|discuss(?:ed)?|mention(?:ed)?|say|said|tell|told)|"
    r"(?:I|we|you)(?: had| have|'ve)? (?:asked|talked|spoken?|discussed|mentioned|told|said))\b"
    r"(?: (?:me|you|to know))?(?: (?:about|of))?",
    re.IGNORECASE,
)
_ASKED = re.compile(r"\b(?:ask|asked|question|want(?:ed)? to know)\b", re.IGNORECASE)
_WHICH_TALK = re.compile(
    r"^\W*(?:do|can|could) you (?:still )?(?:know|remember|recall|tell me)\b|"
    r"\b(?:the )?(?:last|first|previous) time\b|\b(?:before|earlier|at first|so far)\b|"
    r"\b(?:first|last)(?=\W*$)|"
    r"\b(?:in|during) (?:our|the|my) (?:\w+ )?(?:conversation|talk|chat|session)\b",
    re.IGNORECASE,
)
#: Chance below which a question about the talk is taken for one about the documents.
_SPOKEN = 0.15
#: What makes a turn a question or an order, whatever it ends with.
_ASKS = re.compile(
    r"\?\s*$|^\W*(?:who|whom|whose|when|where|why|how|which|what|is|are|was|were|do|does|did|can|could|"
    r"should|would|will|has|have|had|tell|explain|name|list|find|show|give)\b",
    re.IGNORECASE,
)
_FACT = re.compile(
    r"^\W*(?:who|whom|whose|when|where|which|what|how (?:many|much|long|old|far|high|deep|big)|"
    r"is|are|was|were|does|do|did|has|have)\b(?:\W+\w+){2,}",
    re.IGNORECASE,
)
#: A statement is acknowledged where it is the user's own; many a question comes without its mark.
_TELLS = re.compile(r"\b(?:i|i'm|me|my|mine|we|our|ours)\b", re.IGNORECASE)
#: Cosine and half the share of words that a model's sentence has with what it was taken from.
_BACKED = 0.75
#: Kinds of things asked for that are no nouns.
_NOUNS = {"when": "time", "who": "person", "where": "place", "why": "reason", "count": "number"}
NOTED = "Noted."


@dataclass(frozen=True)
class Quotable:
    """What may be an answer: its words, the title to find it by, where it stands, and under what."""

    text: str
    title: str
    source: str
    section: str = ""

    @property
    def whole(self) -> str:
        """The title, the heading and the words."""
        return ". ".join(part for part in (self.title, self.section, self.text) if part)


def asks_for_fact(text: str) -> bool:
    """Say whether ``text`` asks for one fact, and not for a summary, a list or what came then."""
    return bool(_FACT.match(text))


def is_asking(text: str) -> bool:
    """Say whether ``text`` is a question or an order, whatever it ends with."""
    return bool(_ASKS.search(text))


def is_told(text: str) -> bool:
    """Say whether ``text`` asks nothing and states something of the user's own."""
    if is_asking(text) or not _TELLS.search(text):
        return False
    return bool(extract_statements(text, "user", 0.0))


def quotables(context: BuiltContext) -> list[Quotable]:
    """Return what may be quoted: sentences of passages, and what was remembered or said, word for word.

    How a prompt introduces a remembered line is no part of it, and what the user asked earlier in the
    conversation is no answer.
    """
    quotable: list[Quotable] = []
    for piece in context.shown("passage", "fact", "history"):
        if piece.kind == "passage":
            title, blocks = passage_of(piece)
            where = title or "the documents"
            quotable += [Quotable(text, title, where, head) for text, head in _sentences(blocks)]
            continue
        body, source = piece.says("said"), "this conversation"
        if piece.kind == "fact":
            body = body or piece.says("answer")
            asked = _POINTING.sub("", piece.says("question"))
            if asked and not _ASKS.search(asked):
                body = asked  # a statement, whatever was replied to it
            source = f"memory of {piece.says('day')}"
            if body in (_UNANSWERED, NOTED, NOTHING_FOUND) or "the user asked" in body:
                continue
        for part in sentences(body):
            text = _CITED.sub("", part.strip()).strip()
            is_ours = piece.kind == "history" and text in (NOTED, NOTHING_FOUND)
            if len(text.split()) > 2 and not text.endswith("?") and not is_ours:
                quotable.append(Quotable(text, "", source))
    return list({one.text: one for one in reversed(quotable)}.values())[::-1]


def passage_of(piece: Piece) -> tuple[str, list[str]]:
    """Return a passage's title and blocks; of a text without fragments "" and its one line."""
    blocks = [fragment.text.strip() for fragment in piece.fragments if fragment.role == "text"]
    return piece.says("title"), [b for b in blocks if b] or [one_line(piece.text)]


def of_talk(question: str) -> str:
    """Return what is left of a question about the talk itself, such as "Which lake?"; else ""."""
    rest, found = _OF_TALK.subn(" ", question)
    return " ".join(_WHICH_TALK.sub(" ", rest).split()) if found else ""


def spoken(context: BuiltContext, question: str) -> list[Quotable]:
    """Return what was said before: of "What did I ask ...?" what was asked, else answers, too.

    The oldest comes first where ``question`` is about the first time, else the newest.
    """
    turns: list[tuple[str, str, str]] = []  # source, asked, answered
    for piece in context.pieces:
        said, asked = piece.says("said"), piece.says("question")
        if piece.kind == "fact" and (asked or said):
            source = f"memory of {piece.says('day')}"
            turns.append((source, asked or said, piece.says("answer")))
        elif piece.kind == "history" and said:
            if piece.says("speaker") == "User":
                turns.append(("this conversation", said, ""))
            elif turns:
                turns[-1] = (*turns[-1][:2], said)
    turns.sort(key=itemgetter(0), reverse=not re.search(r"\bfirst\b", question, re.IGNORECASE))
    is_of_asking = bool(_ASKED.search(question))
    quotable: list[Quotable] = []
    for source, asked, answer in turns:
        bare = _POINTING.sub("", asked)
        answer = _POINTING.sub("", "" if answer in (_UNANSWERED, NOTED, NOTHING_FOUND) else answer)
        if of_talk(bare):
            continue
        if not is_asking(bare):
            quotable += [] if is_of_asking else [Quotable(bare, "", source)]
        else:
            about = f" of {pointing[1]}" if (pointing := _POINTING.search(asked)) else ""
            below = answer if is_of_asking else ""
            quotable.append(Quotable(f'You asked{about}: "{bare}"', "", source, below))
        if not is_of_asking:
            parts = (part for part in sentences(answer) if len(part.split()) > 2)
            quotable += [Quotable(part, "", source) for part in parts]
    return list({one.text: one for one in quotable}.values())


def _sentences(blocks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each sentence of a passage, item of a list or row of a table, and the heading above it.

    A row is told with its columns' names: "boat: canoe; metres: 6".
    """
    heading, columns = "", list[str]()
    for block in blocks:
        if block.startswith("#"):
            heading, columns = block.strip("# "), []
        elif block.startswith("|"):
            cells = [cell.strip() for cell in block.strip("|").split("|")]
            if len(columns) == len(cells):
                named = zip(columns, cells, strict=True)
                yield "; ".join(f"{name}: {cell}" for name, cell in named if cell), heading
            else:
                columns = cells
        else:
            columns = []
            for part in sentences(_BULLET.sub("", block)):
                if len(part.split()) > (1 if ITEM.match(block) else 2):
                    yield part, heading


@dataclass(frozen=True)
class Backing:
    """From where each sentence of a model's answer comes, and why none of it can be trusted ("")."""

    cited: str
    doubt: str


def backing(question: str, text: str, quotable: Sequence[Quotable], embedder: Embedder) -> Backing:
    """Say from where each sentence of a model's answer comes: the nearest source, or that none is.

    An answer is doubtful if most of its sentences have no source, or if nothing in it is of the kind
    that ``question`` asks for ("How long …" without any time): it is of the subject, and no answer.
    """
    said = [part for line in text.splitlines() for part in sentences(line)]
    near = embedder.embed(said) @ embedder.embed([one.whole for one in quotable]).T
    cited = []
    backed = 0
    for number, (sentence, row) in enumerate(zip(said, near, strict=True), 1):
        shared = np.asarray([_shared(sentence, one.text) for one in quotable])
        best = int((row + 0.5 * shared).argmax())
        is_near = float(row[best]) + 0.5 * float(shared[best]) >= _BACKED or shared[best] == 1
        backed += is_near
        cited.append(f"[{number}] {quotable[best].source if is_near else 'no source found'}")
    doubt = "" if 2 * backed >= len(said) else "most of it has no source"
    named = text if text.split()[0].lower() in FUNCTION_WORDS else f"said {text}"  # "Jo does."
    if asks_for_fact(question) and not holds(question, named):
        kind = kind_asked(question)[0]
        doubt = doubt or f"it names no {_NOUNS.get(kind, kind)}"
    return Backing(f"sentences from {'; '.join(cited)}", doubt)


_NAME = re.compile(r"(?<=[\w,] )[A-Z][\w'-]+")


@dataclass(frozen=True)
class Support:
    """What may be quoted, each one's score for a question, and the chance that the best one answers.

    ``is_spoken``: the question is about the talk, and so is what may be quoted.
    """

    quotable: Sequence[Quotable]
    scores: Vector
    chance: float
    best: int
    is_spoken: bool = False


def support(
    context: BuiltContext, question: str, embedder: Embedder, weight: float
) -> Support | None:
    """Judge how likely what ``context`` quotes answers; None where it quotes nothing."""
    rest = of_talk(question)
    if rest and (said := spoken(context, question)):
        if not set(words(rest)) - {"which", "what"}:  # "What did I ask you last time?"
            return Support(said, -np.arange(len(said), dtype=np.float32), 1.0, 0, True)
        found = _support(rest, "", said, embedder, weight)
        if found.chance >= _SPOKEN:
            return replace(found, is_spoken=True)
    quotable = quotables(context)
    if not quotable:
        return None
    about = " ".join(piece.says("about") for piece in context.shown("question"))
    return _support(question, about, quotable, embedder, weight)


def _support(
    question: str, about: str, quotable: Sequence[Quotable], embedder: Embedder, weight: float
) -> Support:
    near, scores = scored(question, about, quotable, embedder, weight)
    rows = features(f"{about} {question}".strip(), quotable, near, scores)
    return Support(quotable, scores, _chance(rows), int(scores.argmax()))


def scored(
    question: str, about: str, quotable: Sequence[Quotable], embedder: Embedder, weight: float = 0.5
) -> tuple[Vector, Vector]:
    """Return each sentence's cosine, and that plus ``weight`` times the share of the asked words."""
    near = (
        embedder.embed([one.whole for one in quotable])
        @ embedder.embed([f"{about} {question}".strip()])[0]
    )
    shared = np.asarray([_shared(question, f"{one.section} {one.text}") for one in quotable])
    return near, near + weight * shared


def features(
    question: str, quotable: Sequence[Quotable], near: Vector, scores: Vector
) -> list[float]:
    """Return what the chance is judged by, of the sentence that scores best (and its fellows).

    The score, the cosine, the share of the question's words in the sentence or its title, the same with
    rare words counting more, the names that neither holds, whether what is asked for is there, and how
    far the best of another source stands behind.
    """
    best = int(scores.argmax())
    one = quotable[best]
    asked = list(dict.fromkeys(words(question)))
    own = set(words(one.whole))
    holders = [set(words(other.whole)) for other in quotable]
    rarity = {w: np.log(1 + len(holders) / (1 + sum(w in held for held in holders))) for w in asked}
    total = sum(rarity.values()) or 1.0
    names = {stem for name in _NAME.findall(question) for stem in words(name)}
    everywhere = set().union(*holders)
    others = [float(s) for s, o in zip(scores, quotable, strict=True) if o.title != one.title]
    return [
        float(scores[best]),
        float(near[best]),
        len(own & set(asked)) / max(len(asked), 1),
        float(sum(rarity[w] for w in asked if w in own) / total),
        len(names - own) / max(len(names), 1),
        float(bool(names - everywhere)),
        holds(question, one.text),
        float(scores[best]) - max(others, default=0.0),
        float(sum(rarity[w] for w in asked if w in everywhere) / total),
    ]


def _shared(question: str, text: str) -> float:
    wanted = set(words(question))
    return len(wanted & set(words(text))) / max(len(wanted), 1)


@lru_cache(maxsize=1)
def _fitted() -> tuple[Vector, Vector, Vector, float]:
    table = json.loads(
        files("stategate.nodes.act").joinpath("support.json").read_text(encoding="utf-8")
    )
    return (*(np.asarray(table[key]) for key in ("mean", "scale", "weights")), table["bias"])


def _chance(row: Sequence[float]) -> float:
    mean, scale, weights, bias = _fitted()
    return float(1 / (1 + np.exp(-(((np.asarray(row) - mean) / scale) @ weights + bias))))
