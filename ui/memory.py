"""Questions, whose memory, first fetches: shared by the command line and the app."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from stategate.graph.config import Config, with_memory
from stategate.graph.session import Session, StepResult
from stategate.nodes.protocols import Params
from stategate.nodes.retrieval.memory import MemoryPlace
from stategate.stores.assets.fetch import ASSETS
from stategate.stores.home import home, this_user


def of_user(config: Config, user: str | None) -> Config:
    """Return ``config`` with the long-term memory of ``user`` in its reader and its writers.

    Without a name those that name nobody are this system's user's: who types commands is one person.
    """
    return with_memory(
        config,
        lambda place: place.model_copy(update={"user": user or place.user or this_user()}),
    )


def memory_places(config: Config) -> list[MemoryPlace]:
    """Return the long-term memories that a config reads, and then those that it writes."""
    found: list[MemoryPlace] = []

    def note(place: MemoryPlace) -> MemoryPlace:
        found.append(place)
        return place

    with_memory(config, note)
    return found


def thread_of(config: Config, thread: str) -> str:
    """Return the checkpoints' name of a conversation: equal names of two users are two threads."""
    places = memory_places(config)
    user = (places[-1].user if places else None) or this_user()
    if user == this_user() and not thread.startswith("user="):
        return thread
    return f"user={quote(user, safe='')}/{thread}"


def durable(config: Config) -> Config:
    """Return ``config`` with checkpoints on disk, where it does not say otherwise."""
    if config.checkpoints is not None:
        return config
    return config.model_copy(update={"checkpoints": str(home() / "checkpoints.sqlite")})


def put_question(
    session: Session, question: str, on_text: Callable[[str], Any] | None = None
) -> StepResult:
    """Put a question on a thread; ``on_text`` hears the answer as it is written.

    A question that a crash cut short is answered when it is asked again: its turn is written once.
    """
    with session.graph.alone(session.config):
        was_cut = session.graph.settle(session.config)
        values = session.values
        is_open = bool(session.graph.get_state(session.config).next)
        if is_open and values.get("task") is not None:
            asked = (values["task"] or {}).get("question")
        elif values.get("session"):
            world = session.agent.world
            asked = world.instruction(values.get("before") or values["session"])
        else:
            asked = None
        if asked == question and is_open:
            return session.step(on_text)
        if asked == question and was_cut:  # answered and written down, but nobody saw it
            return session.last()
        session.start({"question": question})
        return session.step(on_text)


def to_fetch(config: Config, context: Params | None = None) -> str:
    """Say in brackets what a step fetches first, "" where all of it is here.

    ``context`` is read in place of the config's builder. To be put behind what is going on.
    """
    builder = context or config.context
    nodes: list[Params | None] = [builder, config.actor]
    if config.updater.kind != "none" or builder.kind not in ("full", "window"):
        nodes.append(config.embedder)
    if config.actor.asks_model:
        nodes.append(config.llm)
    names = dict.fromkeys(name for node in nodes if node for name in node.assets())
    missing = [ASSETS[name] for name in names if name in ASSETS and not ASSETS[name].is_present]
    if not missing:
        return ""
    sizes = [f"{asset.description} ({asset.size / 1e6:,.0f} MB)" for asset in missing]
    return f" (first it fetches {' and '.join(sizes)})"
