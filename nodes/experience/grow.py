"""Put an annotated episode into a state bank: one way, for offline builds and for running agents.

A state that is nearly identical to one that the bank has (same move, cosine at least ``SAME``) adds
no row: it is folded into that row's worth, so worth becomes a mean over what happened there.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from nodes.experience.returns import Annotation, move_of
from nodes.experience.states import FORMAT, states_of
from nodes.experience.trajectory import Trajectory
from nodes.protocols import Embedder, Updater, UpdaterParams, Vector
from stores.bank import Entry, Row
from stores.state_bank import StateBank
from stores.traces import Event

SAME = 0.995


def make_of(embedder: Embedder) -> str:
    """Return what a bank must match to be searched with ``embedder``."""
    return f"{embedder.name}/{embedder.dimension}/format {FORMAT}"


def updater_make(params: UpdaterParams) -> str | None:
    """Return what a bank's recurrent states must match, None for an updater without a state."""
    return None if params.kind == "none" else params.model_dump_json()


def add_episode(
    bank: StateBank,
    episode: Trajectory,
    annotations: Sequence[Annotation],
    embedder: Embedder,
    updater: Updater | None = None,
    same: float = SAME,
) -> int:
    """Add the decisions of ``episode``, unless it was added before; returns how many rows are new.

    Rows and the mark that the episode was read are written in one transaction.
    """
    if bank.bank.is_read(episode.id):
        return 0
    texts = states_of(episode)
    vectors = embedder.embed(texts)
    hidden = recurrent_states(episode, updater) if updater is not None else None
    entries = []
    folded: list[tuple[str, float]] = []
    for i, (text, vector, note) in enumerate(zip(texts, vectors, annotations, strict=True)):
        move = move_of(episode.question, episode.steps[i])
        twin = _twin(bank, vector, move, same)
        if twin is not None:
            folded.append((twin, note.q))
            continue
        row = Row(
            id=_identity(episode.id, i, text),
            task=episode.task_id,
            q=note.q,
            data={
                "state": text,
                "action": episode.steps[i].action,
                "move": move,
                "experience": note.experience,
                "by": note.by,
                "episode": episode.id,
                "source": episode.source,
                "step": i,
                "steps": len(episode.steps),
                "reward": episode.reward,
                "seen": 1,
            },
        )
        own = {"text": vector}
        if hidden is not None:
            own["state"] = hidden[i]
        entries.append(Entry(row, own))
    added = bank.bank.add(entries, source=episode.id)
    for id_, q in folded:
        _fold(bank, id_, q)
    return added


def recurrent_states(episode: Trajectory, updater: Updater) -> Vector:
    """Replay ``episode`` and return the state before each decision, as the graph would have it."""
    state = updater.initial()
    states = []
    for t, step in enumerate(episode.steps):
        events = [Event("ACT", episode.steps[t - 1].action, t - 1)] if t else []
        state = updater.update(state, [*events, Event("OBS", step.before, t)])
        if state is None:
            raise ValueError("the updater keeps no state")
        states.append(state)
    return np.stack(states).astype(np.float32)


def _twin(bank: StateBank, vector: Vector, move: str, same: float) -> str | None:
    for hit in bank.nearest_text(vector, 3):
        if hit.score >= same and hit.row.data.get("move") == move:
            return hit.row.id
    return None


def _fold(bank: StateBank, id_: str, q: float) -> None:
    row = bank.bank.row(id_)
    seen = int(row.data.get("seen", 1))
    bank.bank.change(id_, q=(row.q * seen + q) / (seen + 1), seen=seen + 1)


def _identity(episode: str, step: int, text: str) -> str:
    digest = hashlib.sha256(f"{episode}\n{step}\n{text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]
