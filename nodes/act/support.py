"""What of a context may answer a question, and how likely it does: shared by the actors that answer.

The chance that the best sentence answers is a logistic of what a reader would look at: is it near in
meaning, does it share the question's words (the rare ones above all), does it hold what kind of thing
is asked for. Its weights are fitted on development questions whose evidence was left in or taken out
(``python -m evals.qa.answerable fit``) and stand in ``support.json`` with the run that they came from.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np

from nodes.act.asked import holds, kind_asked
from nodes.protocols import BuiltContext, Embedder, Vector
from nodes.retrieval.quoting import ITEM, unquoted_blocks
from stores.corpus.lexical import words
from stores.memory.names import FUNCTION_WORDS
from stores.memory.stated import stated

#: What an actor says where nothing that it may quote is near enough to the question.
NOTHING_FOUND = "Nothing found."
#: In a decision's reason, before what a model wrote that is not its answer; what was doubted stands before.
WROTE = "; the model wrote: "
_ABOUT = re.compile(r"^About: (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_BULLET = re.compile(r"^[-*+•] +")
_MARK = re.compile(r"^\[\d+\] |^(?:You|User): ")
#: A remembered line as prompts show it: the day, and what was said or answered.
_REMEMBERED = re.compile(
    r'^On (\S+) (?:[^:"]* said[^"]*: "(?P<said>.*)"$|'
    r'the user asked[^"]*: "(?P<asked>.*?)" Answer[^:]*: (?P<answer>.*)$)',
    re.DOTALL,
)
_UNANSWERED = "(not answered)"
#: What makes a turn a question or an order, whatever it ends with.
_ASKS = re.compile(
    r"\?\s*$|^\W*(?:who|whom|whose|when|where|why|how|which|what|is|are|was|were|do|does|did|can|could|"
    r"should|would|will|has|have|had|tell|explain|name|list|find|show|give)\b", re.IGNORECASE,
)  # fmt: skip
_FACT = re.compile(
    r"^\W*(?:who|whom|whose|when|where|which|what|how (?:many|much|long|old|far|high|deep|big)|"
    r"is|are|was|were|does|do|did|has|have)\b(?:\W+\w+){2,}", re.IGNORECASE,
)  # fmt: skip
#: A statement is acknowledged where it is the user's own; many a question comes without its mark.
_TELLS = re.compile(r"\b(?:i|i'm|me|my|mine|we|our|ours)\b", re.IGNORECASE)
#: Cosine and half the share of words that a model's sentence has with what it was taken from.
_BACKED = 0.75
#: Kinds of things asked for that are no nouns.
_NOUNS = {"when": "time", "who": "person", "where": "place", "why": "reason", "count": "number"}
#: Parts of a prompt that may hold an answer.
_READ = ("passage", "fact", "history")
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
    return bool(_TELLS.search(text) and not is_asking(text) and stated(text, "user", 0.0))


def quotables(context: BuiltContext) -> list[Quotable]:
    """Return what may be quoted: sentences of passages, and what was remembered or said, word for word.

    How a prompt introduces a remembered line is no part of it, and what the user asked earlier in the
    conversation is no answer.
    """
    quotable: list[Quotable] = []
    for piece in context.pieces:
        if piece.kind not in _READ or not piece.text:
            continue
        if piece.kind == "passage":
            title, blocks = unquoted_blocks(piece.text)
            where = title or "the documents"
            quotable += [Quotable(text, title, where, head) for text, head in _sentences(blocks)]
            continue
        body, source = piece.text, "this conversation"
        if piece.kind == "fact":
            remembered = _REMEMBERED.search(body.strip())
            if remembered is None:
                continue
            body = remembered["said"] or remembered["answer"] or ""
            if remembered["asked"] and not _ASKS.search(remembered["asked"]):
                body = remembered["asked"]  # a statement, whatever was replied to it
            source = f"memory of {remembered[1]}"
            if (
                body == _UNANSWERED
                or body.strip() in (NOTED, NOTHING_FOUND)
                or "the user asked" in body
            ):
                continue
        for part in _SENTENCE.split(body):
            text = _MARK.sub("", part.strip()).strip()
            is_ours = piece.kind == "history" and text in (NOTED, NOTHING_FOUND)
            if len(text.split()) > 2 and not text.endswith("?") and not is_ours:
                quotable.append(Quotable(text, "", source))
    return list({one.text: one for one in reversed(quotable)}.values())[::-1]


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
            for part in _SENTENCE.split(_BULLET.sub("", block)):
                if len(part.split()) > (1 if ITEM.match(block) else 2):
                    yield part, heading


def about_in(context: BuiltContext) -> str:
    """Return what a follow-up points back to, as the prompt says it, or ""."""
    return " ".join(_ABOUT.findall(context.part("question"))[-1:])


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
    said = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
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
    """Each quotable's score for a question (as ranked), and the chance that the best one answers it."""

    scores: Vector
    chance: float
    best: int


def support(
    question: str, about: str, quotable: Sequence[Quotable], embedder: Embedder, weight: float = 0.5
) -> Support:
    """Score ``quotable`` (not empty), and judge how likely the best one answers."""
    near, scores = scored(question, about, quotable, embedder, weight)
    rows = features(f"{about} {question}".strip(), quotable, near, scores)
    return Support(scores, _chance(rows), int(scores.argmax()))


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
    table = json.loads(files("nodes.act").joinpath("support.json").read_text(encoding="utf-8"))
    return (*(np.asarray(table[key]) for key in ("mean", "scale", "weights")), table["bias"])


def _chance(row: Sequence[float]) -> float:
    mean, scale, weights, bias = _fitted()
    return float(1 / (1 + np.exp(-(((np.asarray(row) - mean) / scale) @ weights + bias))))
