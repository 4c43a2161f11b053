"""An episode as atomic decisions, whatever world it came from, and the worth of each.

The return-based annotator needs no model: the worth of a decision is its discounted reward-to-go on a
scale of 0 to 10; its words are those of its kind of move (the world's adapter), so that advice carries
over to other tasks.

States are written by one serialiser: a bank's states and an agent's own state are near each other only
if both are written the same way, and cut old pages as short-term memory does::

    Question: ...
    look(red shoes) → Page 1 ...    (the latest few decisions and what they led to)
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sqlalchemy as sa

from stategate.envs.protocols import split_action
from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.protocols import ContextRequest, Embedder
from stategate.stores.bank import Bank, Row, row_table
from stategate.stores.sql import Text
from stategate.stores.text import one_line
from stategate.stores.tokens import truncate
from stategate.stores.traces import Event


@dataclass(frozen=True)
class Step:
    """One atomic decision: an action as worlds write it, and the page that it was taken on."""

    action: str
    page: str


@dataclass(frozen=True)
class Episode:
    """A finished episode. ``reward`` is 0 to 1; ``task_id`` is shared by attempts at one task.

    ``trust`` (0 to 1) is that of who recorded it.
    """

    id: str
    task_id: str
    question: str
    steps: tuple[Step, ...]
    reward: float
    source: str = ""
    trust: float = 1.0


def task_name(task: Mapping[str, object]) -> str:
    """Return a name that attempts at one task share, such as ``webshop/goal=3`` ("" if unknown)."""
    facts = [f"{key}={value}" for key, value in sorted(task.items()) if key != "env"]
    return f"{task.get('env', 'task')}/{','.join(facts)}" if facts else ""


def from_events(
    episode_id: str,
    events: Sequence[Event],
    *,
    question: str,
    reward: float,
    task_id: str = "",
    source: str = "",
) -> Episode:
    """Return the episode of recorded events (see ``stores.traces``).

    Raises ``ValueError`` without an action or a first one, or for an action without its page.
    """
    pages: dict[int, str] = {}
    acts: dict[int, str] = {}
    for event in events:
        if event.kind == "OBS":
            pages.setdefault(event.t, event.text)
        elif event.kind == "ACT":
            acts[event.t] = event.text
    order = sorted(acts)
    if not order:
        raise ValueError("the episode holds no action")
    if order[0]:
        raise ValueError("its first steps are another episode's: it was forked")
    for t in order:
        if t not in pages:
            raise ValueError(f"step {t} has no page")
    steps = tuple(Step(acts[t], pages[t]) for t in order)
    return Episode(episode_id, task_id or episode_id, question, steps, reward, source)


BLAME = 0.5  # factor on the worth of a failed episode's decisions
GAMMA = 0.97  # discount a step: a success ten steps later is worth 7.4


def annotate(episode: Episode, adapter: ExperienceAdapter) -> list[tuple[float, str]]:
    """Return the worth (0 to 10) and the words of each decision.

    Worth is the discounted reward-to-go: ``reward * GAMMA ** (steps left)``, scaled.
    """
    scale = 10.0 if episode.reward >= 1.0 else 10.0 * BLAME
    reward = min(max(episode.reward, 0.0), 1.0) if math.isfinite(episode.reward) else 0.0
    ended = "full reward" if episode.reward >= 1.0 else f"a reward of {episode.reward:.2f}"
    notes = []
    for i, step in enumerate(episode.steps):
        remaining = len(episode.steps) - 1 - i
        when = ("with this step", "one step later", f"{remaining} steps later")[min(remaining, 2)]
        move = adapter.move_of(episode.question, step.action)
        words = adapter.moves.get(move, move).capitalize().rstrip(".")
        worth = round(scale * (reward * GAMMA**remaining), 3)
        notes.append((worth, f"{words}. It ended in {ended} {when}."))
    return notes


#: Bumped when the wording of states or the rows' fields change: an old bank would not match any more.
FORMAT = 2
STEPS = 3  # latest decisions that a state holds
_STORED = 40  # tokens of an earlier page that short-term memory keeps (its default)
_EARLIER = 16  # tokens shown of an earlier page
_CURRENT = 72  # tokens shown of the current page
_QUESTION = 96  # tokens shown of the question; a MiniLM state has 256 word pieces in all


def state_text(
    adapter: ExperienceAdapter,
    question: str,
    decisions: Sequence[tuple[str, str]],
    *,
    start: str = "",
) -> str:
    """Return the state after ``decisions``, pairs of action and the page it led to, oldest first.

    ``start`` is the first page, used only before the first decision. Pages are as recorded.
    """
    lines = [f"Question: {truncate(one_line(question), _QUESTION)}"]
    recent = decisions[-STEPS:]
    for i, (action, page) in enumerate(recent):
        tool, params = split_action(action)
        is_last = i == len(recent) - 1
        if not is_last:  # shown as short-term memory would have kept it, even if all of it is known
            page = truncate(adapter.summary_line(page, question), _STORED)
        summary = adapter.summary_line(page, question if is_last else "", bare=True)
        summary = truncate(summary, _CURRENT if is_last else _EARLIER)
        lines.append(f"{tool}({truncate(params, 32)}) → {summary}")
    if not recent:
        page = adapter.summary_line(start, question, bare=True)
        lines.append(f"start → {truncate(page, _CURRENT)}")
    return "\n".join(lines)


def states_of(episode: Episode, adapter: ExperienceAdapter) -> list[str]:
    """Return the state in which each decision of ``episode`` was taken."""
    decisions = [(step.action, then.page) for step, then in pairwise(episode.steps)]
    return [
        state_text(adapter, episode.question, decisions[:i], start=step.page)
        for i, step in enumerate(episode.steps)
    ]


def situation_after(adapter: ExperienceAdapter, question: str, action: str) -> str:
    """Return the class of situation (the adapter's key) after ``action``, "" for an episode's start.

    Two states can be near in words and yet be different situations: advice does not carry over
    between those.
    """
    return str(adapter.situation(question, adapter.move_of(question, action) if action else ""))


def online_state(adapter: ExperienceAdapter, request: ContextRequest) -> str:
    """Return the state text of a running episode, from the request of its context builder."""
    decisions: list[tuple[str, str]] = []
    page_of = {e.t: e.text for e in request.events if e.kind == "OBS"}
    acts = [event for event in request.events if event.kind == "ACT"]
    for i, act in enumerate(acts):
        is_last = i == len(acts) - 1
        after = request.observation.text if is_last else page_of.get(acts[i + 1].t, "")
        decisions.append((act.text, after))
    start = request.observation.text
    return state_text(adapter, request.instruction, decisions, start=start)


# In a state bank ----------------------------------------------------------------------------------

#: Cosine from which two states with the same move are one row, whose worth is the mean of both.
SAME = 0.995


def make_of(embedder: Embedder) -> str:
    """Return what a bank must match to be searched with ``embedder``."""
    return f"{embedder.name}/{embedder.dimension}/format {FORMAT}"


def add_episode(
    bank: Bank, episode: Episode, embedder: Embedder, adapter: ExperienceAdapter
) -> int:
    """Add the decisions of ``episode``, unless it was added before; return the number of new rows.

    New rows, folded worths and the mark that the episode was read are one transaction.
    """
    if bank.is_read(episode.id):
        return 0
    texts = states_of(episode, adapter)
    vectors = embedder.embed(texts)
    entries = []
    folded: list[tuple[str, float]] = []
    notes = annotate(episode, adapter)
    actions = [step.action for step in episode.steps]
    for i, (text, vector, (worth, words)) in enumerate(zip(texts, vectors, notes, strict=True)):
        move = adapter.move_of(episode.question, actions[i])
        # Folding stays within one trust: a row must not gain worth from less trusted sources.
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
            "situation": situation_after(adapter, episode.question, actions[i - 1] if i else ""),
            "action": actions[i],
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
        entries.append((row, vector))
    return bank.add(entries, source=episode.id, folded=folded)


def trust_of(row: Row) -> float:
    """Return the trust of a row's source, 0 to 1; 1 in an older bank, which does not say."""
    trust = row.data.get("trust", 1.0)
    return float(trust) if isinstance(trust, int | float) and trust == trust else 0.0


def untrusted(bank: Bank, min_trust: float) -> frozenset[int]:
    """Return the numbers of the rows that are trusted less than ``min_trust``."""
    # Skip rows that end in trust 1.0. No text can imitate that: JSON escapes its quotes.
    text = sa.type_coerce(row_table.c.data, Text)
    rows = bank.rows(text.like('%"trust":%'), text.not_like('%"trust": 1.0}'))
    return frozenset(row.n for row in rows if trust_of(row) < min_trust)
