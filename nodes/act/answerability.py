"""Answerability: the sentences of a context that may be quoted, and the chance that one answers.

Sentences are ranked by cosine and shared words; the judge (``nodes.models.judge``) reads the best
of them together with the question, and says how likely each answers it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from numpy.typing import NDArray

from stategate.language.sentences import sentences
from stategate.language.utterance import is_asking, read_sentence
from stategate.language.words import CALENDAR, CARDINALS, FUNCTION_WORDS, ORDINALS
from stategate.nodes.models.calls import Ask
from stategate.nodes.models.judge import answer_chances, following_up
from stategate.nodes.protocols import BuiltContext, Embedder, Piece, Vector
from stategate.nodes.retrieval.quoting import ITEM
from stategate.stores.corpus.lexical import words
from stategate.stores.memory.recall import answer_chance, is_keywords
from stategate.stores.text import one_line

#: What an actor says where nothing that it may quote is near enough to the question.
NOTHING_FOUND = "Nothing found."
#: What an actor says to a statement.
NOTED = "Noted."
#: What an actor without a model says to a greeting, thanks and the like.
NOT_ASKED = "Nothing was asked."
#: In a decision's reason, between why a model's reply is taken back and what it wrote.
WROTE = "; the model wrote: "
_NO_ANSWERS = ("(not answered)", NOTHING_FOUND)
_BULLET = re.compile(r"^[-*+•] +")
_CITED = re.compile(r"^\[\d+\] ")
#: What makes a question one about the talk itself: "Which lake did I ask you about last time?"
_OF_TALK = re.compile(
    r"\b(?:(?:did|have|had) (?:i|we|you)|(?:that )?(?:i|we|you)(?: have| had)?) "
    r"(?:just |already |ever )?(?:ask|talk|speak|spoke|say|said|mention|discuss|tell|told|want)\w*"
    r"(?: to know)?(?: (?:you|me))?(?: (?:about|of))?\b|\b(?:the )?last time\b|\bso far\b",
    re.IGNORECASE,
)
_OF_ASKING = re.compile(r"\bask(?:ed)?\b|\bwant(?:ed)? to know\b", re.IGNORECASE)
_NO_TOPIC = FUNCTION_WORDS | {"question", "questions"}
_SPOKEN = 0.5  # share of its words below which a question about the talk is taken for another
_FACTS = frozenset(
    "who whom whose when where which what is are was were does do did has have".split()
)
_SHARED = 0.5  # weight of shared words beside the cosine
_READ = 8  # sentences that the judge reads, the best by words and meaning
_ANSWERS, _NEAR = 0.5, 0.1  # chance that answers; difference of two that are nearly as likely
#: Cosine below which a document's sentence that shares no word with a question is of another subject.
_SUBJECT = 0.35
#: Share of the best passage's words of a follow-up's subject, below which one is of another subject.
_SAME_SUBJECT = 0.5
_ABOVE = 1e-3  # by which what holds stands above what it closed
_BACKED = 0.75  # cosine and half the shared words, from which a sentence was taken from another

_NUMBERS = (*CARDINALS, "once", "twice", "half", "hundreds?", "thousands?", "dozens?", "free")
_NUMBER = re.compile(rf"\d|\b(?:{'|'.join(_NUMBERS)})\b", re.IGNORECASE)
_TIMES = (*sorted(CALENDAR), *"noon midnight morning evening night daily weekly".split())
_SEASONS = ("spring", "summer", "autumn", "winter")
_TIME = re.compile(rf"\d|\b(?:{'|'.join((*_TIMES, *_SEASONS, *_NUMBERS))})\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[\w,;:)] )[\"“]?([A-Z][\w'’-]+)")
#: What a question asks for, how it asks, and how that looks; the first that fits decides.
_KINDS = tuple(
    (name, re.compile(asks, re.IGNORECASE), looks)
    for name, asks, looks in (
        ("name", r"\bwho(?:se|m)?\b|\bname[sd]?\b|\bcalled\b", _NAME),
        ("time", r"^\W*when\b|\bwhat (?:year|day|date|time|month)\b", _TIME),
        (
            "number",
            r"\bhow (?!do|does|did|is|are|was|were|can|to)\w+\b|\b(?:cost|price|number|age)\b",
            _NUMBER,
        ),
    )
)


@dataclass(frozen=True)
class Quotable:
    """A sentence that may be an answer, with its document's title, its source and its heading.

    ``until`` is the day until which a memory held, ``closer`` the sentence of the memory before it (of
    one that has ended, what holds since), ``passage`` the text that the sentence stands in.
    """

    text: str
    title: str
    source: str
    section: str = ""
    until: str = ""
    closer: str = ""
    passage: str = ""

    @property
    def whole(self) -> str:
        """The title, the heading and the words."""
        return ". ".join(part for part in (self.title, self.section, self.text) if part)


@dataclass(frozen=True)
class Support:
    """The quotable sentences with their scores for a question, and the chances that each answers it.

    ``is_spoken``: the question is about the conversation, and so are the sentences.
    """

    quotable: Sequence[Quotable]
    scores: Vector
    chances: Vector
    is_spoken: bool = False

    @property
    def best(self) -> int:
        """The place of the best sentence."""
        return int(self.scores.argmax())

    @property
    def chance(self) -> float:
        """The chance that the best sentence answers."""
        return float(self.chances[self.best])


# Questions ----------------------------------------------------------------------------------------


def asks_for_fact(text: str) -> bool:
    """Say whether ``text`` asks for one fact, and not for a summary, a list or what came then."""
    first = re.findall(r"[\w'’]+", text.lower())[:3]
    is_amount = first[:1] == ["how"] and not {"do", "does", "did", "is", "are"} & {*first[1:2]}
    return len(first) > 2 and (first[0] in _FACTS or is_amount)


def missing_type(question: str, text: str) -> str:
    """Return the expected answer type (name, time, number) if ``text`` holds none of it, else "".

    The question's own words do not count.
    """
    low = question.lower()
    for name, asks, looks in _KINDS:
        if asks.search(question):
            is_held = any(match[0].lower() not in low for match in looks.finditer(text))
            return "" if is_held else name
    return ""


# What may be quoted -------------------------------------------------------------------------------


def quotables(context: BuiltContext, is_spoken: bool = False) -> list[Quotable]:
    """Return the quotable sentences of passages, memories and earlier turns, word for word.

    The prompt's introduction of a memory is not quoted, and no earlier question is an answer. Nor
    are the agent's own answers, unless the talk itself is asked about (``is_spoken``): then those to
    questions are.
    """
    quotable: list[Quotable] = []
    remembered: dict[str, Quotable] = {}
    current = body = ""
    for piece in context.visible("passage", "fact", "history"):
        if piece.kind == "passage":
            title = piece.says("title")
            blocks = [f.text.strip() for f in piece.fragments if f.role == "text"]
            blocks = [block for block in blocks if block] or [one_line(piece.text)]
            where = title or "the documents"
            whole = " ".join(" ".join([title, *blocks]).split()[:_PASSAGE_WORDS])
            quotable += [
                Quotable(text, title, where, head, passage=whole)
                for text, head in _sentences(blocks)
            ]
            continue
        speaker, asked = piece.says("speaker"), body
        body = piece.says("said")
        if speaker == "You" and not (is_spoken and is_asking(asked)):
            continue
        for part in sentences(body):
            text = _CITED.sub("", part.strip()).strip()
            purpose = read_sentence(text).purpose if speaker == "User" else ""
            is_answer = purpose not in ("question", "forget") and not text.endswith("?")
            if len(text.split()) > 2 and is_answer and body not in _NO_ANSWERS:
                until = piece.says("until").removeprefix("(until ").rstrip(")")
                one = Quotable(text, "", _source_of(piece), "", until, current)
                quotable.append(one)
                if piece.kind == "fact":
                    remembered[_as_said(text)] = one
                    # Recall puts what closed a fact, or is newer, before it.
                    current = current if until else text
    # What the conversation says has ended, or is older, where memory knows that it has.
    texts = ((one.text if one.passage else _as_said(one.text), one) for one in reversed(quotable))
    return list({text: remembered.get(text, one) for text, one in texts}.values())[::-1]


def _as_said(text: str) -> str:
    """Return a sentence without the day or the subject that memory puts in brackets."""
    return re.sub(r" \((?:about: |\d{4})[^()]*\)", "", text)


def _source_of(piece: Piece) -> str:
    return f"memory of {piece.says('day')}" if piece.kind == "fact" else "this conversation"


def _earlier_questions(context: BuiltContext) -> list[Quotable]:
    """Return the user's earlier questions, newest first, remembered ones last."""
    facts = sorted(context.visible("fact"), key=lambda piece: piece.says("day"))
    turns = [
        (_source_of(piece), _as_said(piece.says("said")))
        for piece in (*facts, *context.visible("history"))
        if piece.kind == "fact" or piece.says("speaker") == "User"
    ]
    questions = [turn for turn in turns if is_asking(turn[1]) and not _OF_TALK.search(turn[1])]
    return [Quotable(f'You asked: "{text}"', "", source) for source, text in reversed(questions)]


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


# The chance ---------------------------------------------------------------------------------------


def support(
    context: BuiltContext, question: str, embedder: Embedder, is_judged: bool = True
) -> Support | None:
    """Judge how likely what ``context`` quotes answers; None where it quotes nothing.

    Sentences are ranked alone, with a chance of 0, where nothing ``is_judged``.
    """
    quotable = quotables(context)
    if spoken := _spoken(context, question, embedder):
        return spoken if spoken.quotable else None
    if not quotable:
        return None
    about = " ".join(piece.says("about") for piece in context.visible("question"))
    query = following_up(question, about)
    meaning, shared = _nearness(query, question, quotable, embedder)
    scores = meaning + _SHARED * shared
    read = np.argsort(-scores, kind="stable")[:_READ]
    chances = np.zeros(len(quotable), np.float32)
    if is_judged and is_keywords(query):
        chances[read] = [answer_chance(float(meaning[i]), float(shared[i])) for i in read]
    elif is_judged:
        for judge, is_document in (("judge", False), ("judge-documents", True)):
            own = [i for i in read if bool(quotable[i].passage) == is_document]
            chances[own] = answer_chances(query, [quotable[i].whole for i in own], judge)
        chances[_strays(about, quotable, (shared == 0) & (meaning < _SUBJECT))] = 0
    return _current_first(Support(quotable, np.asarray(scores + chances), chances))


def _spoken(context: BuiltContext, question: str, embedder: Embedder) -> Support | None:
    """Return the turns that a question about the talk asks for; None where it may ask for a fact, too.

    "Did I ask about the key?" and "What did I ask first?" ask for turns alone: without one nothing
    answers, nor where the first turns of a long conversation are not shown.
    """
    if not _OF_TALK.search(question):
        return None
    turns = _earlier_questions(context)
    if not _OF_ASKING.search(question):
        turns += [one for one in quotables(context, True) if not one.title]
    topic = " ".join(_OF_TALK.sub(" ", question).split())
    is_order = _NO_TOPIC.issuperset(named := re.findall(r"\w+", topic.lower()))
    scores = chances = np.zeros(len(turns), np.float32)
    if turns and is_order:
        place = next((ORDINALS[word] for word in named if word in ORDINALS), 0)
        order = np.arange(len(turns), dtype=np.float32)  # of the newest question first
        scores = -abs(order - len(turns) + place) if place else -order
        told = context.visible("history")
        is_whole = not told or any(piece.id.startswith("history:0:") for piece in told)
        chances = chances + (not place or (is_whole and place <= len(turns)))
    elif turns:
        meaning, chances = _nearness(topic, topic, turns, embedder)
        scores = meaning + _SHARED * chances
    evidence = Support(turns, scores, chances)
    if turns and evidence.chance >= _SPOKEN:
        return replace(evidence, is_spoken=True)
    opening = _OF_TALK.match(question)  # what "we" discussed may stand in the minutes
    return evidence if is_order or (opening and " we" not in opening[0].lower()) else None


def _current_first(evidence: Support) -> Support:
    """Return the support with what closed a memory as likely, and just above that memory.

    Of memories that are nearly as likely the one that recall puts first stands above, too.
    """
    scores, chances = evidence.scores.copy(), evidence.chances.copy()
    places = {one.text: i for i, one in enumerate(evidence.quotable)}
    for i, one in reversed([*enumerate(evidence.quotable)]):
        place = places.get(one.closer, i)
        is_near = min(chances[i], chances[place]) >= max(_ANSWERS, chances[i] - _NEAR)
        if place != i and (one.until or is_near):
            scores[place] = max(scores[place], scores[i] + _ABOVE)
            chances[place] = max(chances[place], chances[i])
    return replace(evidence, scores=scores, chances=chances)


def _strays(
    about: str, quotable: Sequence[Quotable], is_far: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Say which sentences stand in documents of another subject, of which the judge has read few.

    They are far from the question ("What is my dog called?"), or it follows up on another subject:
    their passages hold less than half as many words of ``about`` as the best.
    """
    is_document = np.array([bool(one.passage) for one in quotable])
    held = np.array([_shared(about, f"{one.title} {one.passage or one.text}") for one in quotable])
    return np.asarray(is_document & (is_far | (held < _SAME_SUBJECT * held.max())))


def _nearness(
    query: str, question: str, quotable: Sequence[Quotable], embedder: Embedder
) -> tuple[Vector, Vector]:
    """Return each quotable's cosine with ``query``, and its share of ``question``'s words."""
    similarity = embedder.embed([one.whole for one in quotable]) @ embedder.embed([query])[0]
    shared = [_shared(question, f"{one.section} {one.text}") for one in quotable]
    return np.asarray(similarity), np.asarray(shared, np.float32)


def _shared(question: str, text: str) -> float:
    terms = set(words(question))
    return len(terms & set(words(text))) / max(len(terms), 1)


# The strong judge -------------------------------------------------------------------------------

#: ``light`` reads sentences on this machine; ``strong`` asks the chat model about the best passages.
JudgeKind = Literal["light", "strong"]
_ASKED_OF = 3  # passages that the strong judge reads, the best
_PASSAGE_WORDS = 220
_JUDGE = (
    "You are shown a passage, then a question. Say whether the passage holds the answer to exactly "
    "this question. Many questions look answerable and are not: then say No. Reply with one word: Yes "
    "or No."
)
_LOGPROBS = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": 10}


async def strong_support(evidence: Support, context: BuiltContext, ask: Ask) -> Support:
    """Return ``evidence`` with the probabilities of "Yes" to its best passages in its chances.

    The odds of "Yes" and of the light judge are multiplied: a small model says "Yes" too easily. The
    passage stands first and the question last, so that a server's cache of the prefix serves the next
    question. Each call is one token; a server without log-probabilities says 1 or 0.
    """
    questions = context.visible("question")
    question = " ".join(following_up(p.says("instruction"), p.says("about")) for p in questions)
    order = np.argsort(-evidence.scores, kind="stable")
    places: dict[str, list[int]] = {}
    for place in map(int, order):
        one = evidence.quotable[place]
        places.setdefault(one.passage or one.text, []).append(place)
    chances = np.zeros(len(order), np.float32)
    for passage, within in list(places.items())[:_ASKED_OF]:
        text = f"Passage: {passage}\n\nQuestion: {question}\nDoes the passage answer it?"
        reply = await ask([SystemMessage(_JUDGE), HumanMessage(text)], **_LOGPROBS)
        yes, light = yes_chance(reply), float(np.clip(evidence.chances[within].max(), 0.02, 0.98))
        chances[within[0]] = yes * light / (yes * light + (1 - yes) * (1 - light))
    scores = evidence.scores.copy()
    first = int(chances.argmax()) if chances.any() else evidence.best
    scores[first] = scores.max() + _ABOVE
    return _current_first(replace(evidence, scores=scores, chances=chances))


def yes_chance(reply: AIMessage) -> float:
    """Return the probability of "Yes" beside "No" in the first token of a reply."""
    content = (reply.response_metadata.get("logprobs") or {}).get("content") or []
    mass = {"yes": 0.0, "no": 0.0}
    for token in content[0].get("top_logprobs", []) if content else []:
        word = str(token.get("token", "")).strip().lower()
        if word in mass:
            mass[word] += float(np.exp(token["logprob"]))
    total = sum(mass.values())
    return (
        mass["yes"] / total if total else float(str(reply.text).strip().lower().startswith("yes"))
    )


# A model's answer ---------------------------------------------------------------------------------


def backing(
    question: str, text: str, quotable: Sequence[Quotable], embedder: Embedder
) -> tuple[str, str]:
    """Return the source of each sentence of a model's answer, and why it can't be trusted ("").

    An answer is doubtful if most of its sentences have no source, or if nothing in it is of the kind
    that ``question`` asks for ("When …" without any time): it is of the subject, and no answer.
    """
    claims = [part for line in text.splitlines() for part in sentences(line)]
    similarity = embedder.embed(claims) @ embedder.embed([one.whole for one in quotable]).T
    cited = []
    for number, (sentence, row) in enumerate(zip(claims, similarity, strict=True), 1):
        shared = np.asarray([_shared(sentence, one.text) for one in quotable])
        total = row + _SHARED * shared
        best = int(total.argmax())
        is_backed = float(total[best]) >= _BACKED or shared[best] == 1
        cited.append(f"[{number}] {quotable[best].source if is_backed else 'no source found'}")
    sources = f"written by the model from {'; '.join(cited)}"
    if 2 * sources.count("no source found") > len(claims):
        return sources, "most of it has no source"
    missing = missing_type(question, f"said {text}") if asks_for_fact(question) else ""
    return sources, f"it names no {missing}" if missing else ""
