"""Our long-term memory as a ranker of a conversation's turns: written turn by turn, asked as users ask.

What counts are the turns that the provenance of the recalled facts names, in the order of the facts.
"""

from evals.memory.published import Conversation, Question
from evals.memory.rankers import Ranking, database, scratch
from nodes.protocols import Embedder
from nodes.retrieval.remember import Memory
from stores.memory.recall import DEFAULT, Limits, Weights

_DEPTH = 50


def remembered(conversation: Conversation, embedder: Embedder, weights: str = "") -> Ranking:
    """Return the ranking of a memory that holds the conversation, written in its own time."""
    folder = scratch()
    memory = Memory(database(folder.name), embedder=embedder, user=conversation.id)
    memory.remember_all(
        [
            {
                "text": f"{turn.text} [{turn.caption}]" if turn.caption else turn.text,
                "speaker": turn.speaker, "at": session.at, "thread": session.id, "id": turn.id,
            }
            for session in conversation.sessions
            for turn in session.turns
        ]
    )  # fmt: skip
    owner = {t.id: s.id for s in conversation.sessions for t in s.turns}
    wanted = Weights.parse(weights) if weights else DEFAULT

    def ranking(question: Question) -> tuple[list[str], list[str], float | None]:
        facts = memory.recall(
            question.text, limits=Limits(facts=_DEPTH), weights=wanted, at=question.at
        )
        turns = list(dict.fromkeys(t["episode_id"] for fact in facts for t in fact.turns))
        sessions = list(dict.fromkeys(owner[id_] for id_ in turns))
        return turns, sessions, facts[0].score if facts else None

    ranking.folder = folder  # type: ignore[attr-defined] - the memory lives as long as the ranking
    return ranking
