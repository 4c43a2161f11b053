"""Questions, and whose memory they read: shared by the command line and the app."""

from collections.abc import Callable

from stategate.graph.config import Config
from stategate.graph.session import Session, StepResult
from stategate.nodes.retrieval.memory import MemoryPlace
from stategate.nodes.write_memory.long_term import LongTermMemory
from stategate.stores.home import home


def memory_place(config: Config) -> MemoryPlace:
    """Return the long-term memory that a config writes (this machine's where it writes none)."""
    places = (node.place for node in config.memory if isinstance(node, LongTermMemory))
    return next(places, MemoryPlace())


def durable(config: Config) -> Config:
    """Return ``config`` with checkpoints on disk, where it does not say otherwise."""
    if config.checkpoints is not None:
        return config
    return config.model_copy(update={"checkpoints": str(home() / "checkpoints.sqlite")})


def put_question(
    session: Session, question: str, on_text: Callable[[str], object] | None = None
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
