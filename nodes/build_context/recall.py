"""``recall``: what was said, what is remembered, what the documents say, then the question.

    Conversation so far:        short-term memory, oldest first
    Remembered from before:     facts of long-term memory
    <document ...>              the best passages, quoted as data
    The user's standing wishes: how answers are always wanted, whatever is asked
    About: ...                  the question that a follow-up follows
    Question: ...

Documents are quoted as data (``nodes.retrieval.page``).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stategate.envs.protocols import ANSWER, Chunk, Fragment
from stategate.language.dates import resolved, spans
from stategate.language.sentences import clauses, sentences
from stategate.language.utterance import is_forgetting, named_things, read_sentences, read_utterance
from stategate.language.words import FUNCTION_WORDS, SMALL_TALK
from stategate.nodes.build_context.assemble import (
    built,
    fit,
    headed,
    line_piece,
    page_piece,
    size_of,
)
from stategate.nodes.models.judge import answer_chances, following_up
from stategate.nodes.protocols import (
    BuiltContext,
    ContextBuilder,
    ContextParams,
    ContextRequest,
    EnvParams,
    Piece,
)
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.corpus import CorpusSource, Retrieval
from stategate.nodes.retrieval.page import BREAK, describe, lead, text_of
from stategate.nodes.retrieval.quoting import quote, quoted_title
from stategate.nodes.retrieval.remember import MemoryPlace
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.recall import Limits, asked_of
from stategate.stores.memory.records import TRUSTED, Fact
from stategate.stores.memory.statements import told_part
from stategate.stores.text import day_of, one_line
from stategate.stores.tokens import count_tokens, truncate
from stategate.stores.traces import Event

_WHO = {"OBS": "User", "ACT": "You"}
_FACT_TOKENS = 140  # of a fact that a prompt shows
_REMEMBERED = 0.5  # chance below which no fact is thought to answer
_WISH_TOKENS = 120  # that standing wishes may have in any prompt
_EXPLAINED = 30  # candidates that are told with the reason why they are not shown

#: All candidates for a question with their scores, best first.
Find = Callable[[ContextRequest, str], Sequence[tuple[Chunk, float]]]


class MemoryReader(BaseModel):
    """The read policy: how much of which memory a prompt may show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    place: MemoryPlace = Field(default=MemoryPlace(), description="which memory, whose part")
    facts: int = Field(default=5, ge=0, description="facts, by relevance")
    min_trust: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="of a fact's source: user 1, agent 0.6, documents and tools 0.2",
    )
    tokens: int = Field(default=500, ge=0, description="tokens (cl100k) all of it may have")


class ConversationContext(ContextParams):
    """What every builder of a conversation's prompt shares: all but the choice of passages."""

    retrieval: Retrieval = Field(
        default="hybrid",
        description="'dense' cosine, 'hybrid' also BM25 and sentences ('rrf', removed, means it)",
    )
    history_tokens: int = Field(
        default=600, ge=0, description="tokens the conversation may have in the prompt (0: none)"
    )
    memory: MemoryReader | None = Field(
        default=None, description="read long-term memory; null reads none"
    )
    top_k: int = Field(default=5, ge=0, description="how many passages to show")

    @classmethod
    def fits(cls, env: EnvParams) -> bool:
        """Say whether the world is a conversation: commands would be left out as passages are."""
        return env.conversational

    def conversation(
        self, resources: Resources, find: Find, best_last: bool = False
    ) -> ContextBuilder:
        """Return a builder that shows the best ``top_k`` of the passages which ``find`` ranks.

        The best passages get room first, and stand first or, with ``best_last``, last. Raises
        ``UserError`` if the memory cannot be opened.
        """
        store = self.memory.place.open() if self.memory is not None else None

        def build_context(request: ContextRequest) -> BuiltContext:
            question_text = one_line(request.instruction)
            if self.memory is not None and store is not None and is_forgetting(question_text):
                owner = self.memory.place.owner
                return _forgetting_context(store, owner, resources, question_text, request)
            earlier = request.events if self.history_tokens else ()
            stands_alone = read_utterance(question_text).purpose in ("correction", "wish")
            about = "" if stands_alone else followed_turn(question_text, earlier)
            query = following_up(question_text, about)
            question, remaining = _question(question_text, about, request)
            history = self._history(request.events, remaining // 3)
            remaining -= size_of(history)
            memory, wishes = list[Piece](), list[Piece]()
            if self.memory is not None and store is not None:
                wishes = wish_pieces(self.memory, store, min(remaining // 4, _WISH_TOKENS))
                remaining -= size_of(wishes)
                room = min(remaining // 2, self.memory.tokens)
                memory = remembered_pieces(self.memory, store, resources, query, room)
                remaining -= size_of(memory)
            ranked = find(request, query)
            passages = _passages(ranked, self.top_k, remaining, best_last)
            return built([*history, *memory, *passages, *wishes, question])

        return build_context

    def candidates_for(
        self, request: ContextRequest, query: str, k: int, resources: Resources
    ) -> list[tuple[Chunk, float]]:
        """Return the ``k`` best candidates of the source for the words of ``query``, with scores."""
        if not k:
            return []
        if isinstance(request.source, CorpusSource):
            return request.source.find(query, k, self.retrieval)
        vector = resources.embedder.embed([query])[0]
        return request.source.search(vector, k)

    def _history(self, events: Sequence[Event], room: int) -> list[Piece]:
        lines = []
        for e in events if self.history_tokens else ():
            if e.kind in ("OBS", "ACT"):
                who, text = Fragment(_WHO[e.kind], role="speaker"), one_line(e.text)
                line = (who, lead(": "), Fragment(text, role="said"), BREAK)
                lines.append(line_piece(f"history:{e.t}:{e.kind}", "history", line))
        head = line_piece("history", "history", "Conversation so far:\n")
        return headed(head, lines, min(room, self.history_tokens))


class Recall(ConversationContext):
    """For questions: the conversation, remembered facts, and the best passages."""

    kind: Literal["recall"] = "recall"

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder. Raises ``UserError`` if the memory cannot be opened."""
        return self.conversation(
            resources,
            lambda request, query: self.candidates_for(request, query, self.top_k, resources),
        )


def _question(question: str, about: str, request: ContextRequest) -> tuple[Piece, int]:
    """Return the closing question and the tokens left; it is cut only where nothing else fits."""
    is_open = ANSWER in request.observation.actions
    cue = (Fragment("Answer:\n", ANSWER),) if is_open else ()
    line: tuple[Fragment, ...] = (lead("Question: "), Fragment(question, role="instruction"), BREAK)
    longer = (lead("About: "), Fragment(about, role="about"), BREAK, *line)
    if about and count_tokens(text_of((*longer, *cue))) <= request.budget // 2:
        line = longer
    visible = (*fit(line, request.budget - count_tokens(text_of(cue))), *cue)
    if count_tokens(text_of(visible)) > request.budget:
        visible = ()
    chunk = Chunk("question", "question", "", (ANSWER,) if is_open else ())
    piece = page_piece(chunk, (*line, *cue), visible, None)
    return piece, request.budget - piece.tokens_after


def _passages(
    ranked: Sequence[tuple[Chunk, float]], shown: int, room: int, best_last: bool
) -> list[Piece]:
    """Quote the first ``shown`` passages, best first while there is room; one is cut where it ends.

    The rest has pieces without text, so that every score can be audited.
    """
    pieces: list[Piece] = []
    is_full = False
    for rank, (chunk, score) in enumerate(ranked):
        number = min(shown, len(ranked)) - rank if best_last else rank + 1
        whole, title = chunk.text or describe(chunk), str(chunk.data.get("title", ""))
        quoted = quote(number, title, whole)
        visible = quoted
        if is_full or rank >= shown:
            visible = ()
        elif count_tokens(text_of(quoted)) > room:
            is_full = True
            size = count_tokens(text_of(quoted_title(title)))
            inner = truncate(whole, max(room - 30 - size, 0))
            visible = quote(number, title, inner) if inner.strip() else ()
            visible = visible if count_tokens(text_of(visible)) <= room else ()
        piece = replace(page_piece(chunk, quoted, visible, score), kind="passage")
        room -= piece.tokens_after
        pieces.append(piece)
    return pieces[::-1] if best_last else pieces


def remembered_pieces(
    reader: MemoryReader, store: LongTerm, resources: Resources, query: str, room: int
) -> list[Piece]:
    """Return pieces for what is remembered about ``query``, at most ``room`` tokens, best first."""
    asked = asked_of(query, resources.embedder, judge=answer_chances)
    limits = Limits(reader.facts, min_trust=reader.min_trust)
    found = store.recall(reader.place.owner, asked, limits)
    lines = [
        line_piece(f"fact:{fact.id}", "fact", fact_line(fact), score=fact.score)
        for fact in found
        if not fact.left_out
    ]
    head = line_piece("memory", "memory", "Remembered from before:\n")
    remaining = room - head.tokens_after
    visible, left_out = [], []
    for piece in lines:
        if piece.tokens_after <= remaining:
            visible.append(piece)
            remaining -= piece.tokens_after
        else:
            reason = f"budget: {piece.tokens_before} tokens, {max(remaining, 0)} were left"
            left_out.append(piece.emptied(reason))
    for fact in found[:_EXPLAINED]:
        if fact.left_out:
            size, score = count_tokens(fact.text), fact.signals["total"]
            piece = Piece(f"fact:{fact.id}", "fact", "", (), size, 0, score, (), fact.left_out)
            left_out.append(piece)
    best = max((fact.support for fact in found), default=0.0)
    if best < _REMEMBERED:
        reason = f"nothing remembered: chance {best:.2f} that a fact answers"
        left_out.append(Piece("nothing remembered", "memory", "", (), 0, 0, best, (), reason))
    return [head, *visible, *left_out] if visible else left_out


def wish_pieces(reader: MemoryReader, store: LongTerm, room: int) -> list[Piece]:
    """Return pieces for the user's standing wishes, the newest that have ``room`` tokens, last."""
    head = line_piece("wishes", "memory", "The user's standing wishes:\n")
    lines = [
        line_piece(
            f"wish:{fact.id}",
            "wish",
            (lead("- "), Fragment(one_line(fact.passage), role="said"), BREAK),
        )
        for fact in reversed(store.wishes(reader.place.owner))
    ]
    return headed(head, lines, room)


def _forgetting_context(
    store: LongTerm, owner: str, resources: Resources, wish: str, request: ContextRequest
) -> BuiltContext:
    """Return a piece of the kind ``forget`` for each fact that a wish to forget names, and the wish.

    An empty piece says that none fits, or that nothing is named ("Forget all I said").
    """
    parts = (part.text for part in read_sentences(wish) if part.purpose == "forget")
    things = [thing for part in parts for thing in named_things(part)]
    asked = [asked_of(thing, resources.embedder) for thing in things]
    facts = {fact.id: fact for one in asked for fact in store.matching(owner, one)}
    pieces = [
        line_piece(f"fact:{number}", "forget", [*fact_line(fact), *_rest(fact)], score=fact.score)
        for number, fact in facts.items()
    ]
    if not pieces:
        which = "no fact" if things or not store.facts(owner) else "any fact"
        pieces = [Piece(which, "forget", "", (), 0, 0, None, (), f"{which} may be meant")]
    told = told_part(wish, ("question", "forget"))
    # "My new one is 7" is about what is forgotten.
    about = " ".join(things) if told and is_follow_up(told) else ""
    return built([*pieces, _question(wish, about, request)[0]])


def _rest(fact: Fact) -> list[Fragment]:
    """Return what a fact holds beside its passage, as a number of words: it is forgotten, too."""
    left = len(fact.text.split()) - len((fact.passage or fact.text).split())
    return [Fragment(f"with the other {left} words of its message", role="note")] if left else []


def fact_line(fact: Fact) -> list[Fragment]:
    """Return a fact as a prompt shows it, one line: when, by whom, until when, from where.

    What an unknown or untrusted speaker told is a "fact" to be read, and nothing that "said" quotes.
    """
    dated = [lead("On "), Fragment(day_of(fact.at), role="day")]
    until = f" (until {day_of(fact.valid_to)})" if fact.valid_to is not None else ""
    source = "" if fact.trust >= TRUSTED else f" [from {one_line(fact.source)}, unverified]"
    text = resolved(one_line(fact.passage or fact.text), fact.at)
    quotation = truncate(text, _FACT_TOKENS).replace('"', "'")
    speaker = one_line(fact.speaker) or ("the user" if fact.source == "user" else "")
    # Who an untrusted source says it is, is a part of what it says.
    by = f"{speaker} said" if speaker and fact.trust >= TRUSTED else "it was noted"
    quotation = f"{speaker}: {quotation}" if speaker and fact.trust < TRUSTED else quotation
    fragment = Fragment(quotation, role="fact" if by == "it was noted" else "said")
    dated += [lead(f" {by}"), Fragment(until, role="until"), lead(f'{source}: "')]
    return [*dated, fragment, lead('"\n')]


# Follow-up questions -----------------------------------------------------------------------------

#: Words that stand for something said before.
_POINTERS = frozenset(
    "he him his she her hers it its they them their theirs this that these those there then one "
    "ones same other former latter".split()
)
_PERSONS = frozenset("he him his she her hers they them their theirs".split())
#: They belong to what the words before them name: "Ana sold her boat."
_POSSESSIVES = frozenset("his her its their".split())
#: A question that brings in something new, or that is about the user, stands alone.
_ALONE = frozenset("a an i my me we our us".split())
_SHORT = 1  # words of content of a question that asks for nothing by itself
_ANSWER_WORDS = 12  # of an answer that are looked at


def followed_turn(question: str, events: Sequence[Event]) -> str:
    """Return the words of content of the question that ``question`` follows, "" if it stands alone.

    That is the newest question of the conversation that stands alone, the first one where none does.
    "He" or "she" after "Who ...?" is in its answer: then the answer's words stand in front. ``events``
    are the questions (OBS) and answers (ACT), oldest first.
    """
    turns = [event for event in events if event.kind in ("OBS", "ACT")]
    questions = [index for index, event in enumerate(turns) if event.kind == "OBS"]
    if not questions or not is_follow_up(question):
        return ""
    index = next((i for i in reversed(questions) if not is_follow_up(turns[i].text)), questions[0])
    words = _content(turns[index].text)
    asks_who = turns[index].text.lower().startswith("who")
    if asks_who and _PERSONS.intersection(_words(question.lower())):
        answers = [event.text for event in turns[index + 1 : index + 2] if event.kind == "ACT"]
        words = [*(w for text in answers for w in _content(text, _ANSWER_WORDS)), *words]
    return " ".join(words)


def is_follow_up(question: str) -> bool:
    """Say whether a question leans on what was said before: it has a pronoun, or hardly a noun.

    One that names its subject by itself ("What is a geyser?", "Where do I live?") stands alone.
    """
    for span in spans(question, 0.0):  # "this week" points at a time
        question = question.replace(span.text, " ")
    # What stands after a clause that says something of its own points back to that.
    parts = [part for sentence in sentences(question) for part in clauses(sentence)]
    counts = (sum(word.lower() not in SMALL_TALK for word in _content(part)) for part in parts)
    first = next((i for i, count in enumerate(counts, 1) if count > _SHORT), None)
    words = _words(" ".join(parts[:first]))
    lower = {word.lower() for word in words}
    if not words or lower & _POINTERS - _POSSESSIVES:
        return True
    owned = (i for i, word in enumerate(words) if word.lower() in _POSSESSIVES)
    if any(len(_content(" ".join(words[:i]))) <= _SHORT for i in owned):
        return True
    return len(_content(" ".join(words))) <= _SHORT and not lower & _ALONE


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", text)


def _content(text: str, most: int | None = None) -> list[str]:
    """Return the words of ``text`` (its first ``most``) that are no function words."""
    return [word for word in _words(text)[:most] if word.lower() not in FUNCTION_WORDS]
