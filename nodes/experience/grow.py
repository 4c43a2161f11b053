"""Put episodes into a state bank, for offline builds and running agents.

A state that is nearly identical to one that the bank has (same move, cosine at least ``SAME``) adds
no row: it is folded into that row's worth, so worth becomes a mean over what happened there.
"""

import hashlib

import sqlalchemy as sa

from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.episode import FORMAT, Episode, annotate, states_of
from stategate.nodes.protocols import Embedder
from stategate.stores.bank import Bank, Entry, Row, row_table
from stategate.stores.sql import Text

SAME = 0.995


def make_of(embedder: Embedder) -> str:
    """Return what a bank must match to be searched with ``embedder``."""
    return f"{embedder.name}/{embedder.dimension}/format {FORMAT}"


def add_episode(
    bank: Bank, episode: Episode, embedder: Embedder, adapter: ExperienceAdapter
) -> int:
    """Add the decisions of ``episode``, unless it was added before; returns how many rows are new.

    New rows, what was folded and the mark that the episode was read are one transaction.
    """
    if bank.is_read(episode.id):
        return 0
    texts = states_of(episode, adapter)
    vectors = embedder.embed(texts)
    entries = []
    folded: list[tuple[str, float]] = []
    notes = annotate(episode, adapter)
    for i, (text, vector, (worth, words)) in enumerate(zip(texts, vectors, notes, strict=True)):
        move = adapter.move_of(episode.question, episode.steps[i].action)
        # A row is trusted as its least trusted source is: others are not folded into it.
        twins = [
            hit.row.id
            for hit in bank.search(vector, 3)
            if hit.score >= SAME
            and hit.row.data.get("move") == move
            and trust_of(hit.row) == episode.trust
        ]
        if twins:
            folded.append((twins[0], worth))
            continue
        data = {
            "state": text,
            "action": episode.steps[i].action,
            "move": move,
            "experience": words,
            "episode": episode.id,
            "source": episode.source,
            "step": i,
            "steps": len(episode.steps),
            "reward": episode.reward,
            "seen": 1,
            "trust": episode.trust,
        }
        digest = hashlib.sha256(f"{episode.id}\n{i}\n{text}".encode("utf-8", "surrogatepass"))
        row = Row(id=digest.hexdigest()[:16], task=episode.task_id, q=worth, data=data)
        entries.append(Entry(row, vector))
    return bank.add(entries, source=episode.id, folded=folded)


def trust_of(row: Row) -> float:
    """Return how far a row's source is trusted (0 to 1): wholly, where an older bank does not say."""
    trust = row.data.get("trust", 1.0)
    return float(trust) if isinstance(trust, int | float) and trust == trust else 0.0


def untrusted(bank: Bank, min_trust: float) -> frozenset[int]:
    """Return the numbers of the rows that are trusted less than ``least``."""
    # The last field of what is trusted wholly; JSON escapes the quotes of any text that looks the same.
    text = sa.type_coerce(row_table.c.data, Text)
    rows = bank.rows(text.like('%"trust":%'), text.not_like('%"trust": 1.0}'))
    return frozenset(row.n for row in rows if trust_of(row) < min_trust)
