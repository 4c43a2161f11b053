"""The expert's moves, walked by an agent's nodes with a clock beside: for benchmarks of steps."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envs.webshop.expert import play


@dataclass(frozen=True)
class Walked:
    """One step: the agent's ``state`` with its built context, and when each part was done.

    ``marks`` are seconds of the wall clock before the observation, and after the observation, the
    update of the state and the context; ``processor`` is the processor time of all three.
    """

    state: Any
    step: int
    marks: tuple[float, float, float, float]
    processor: float


def walk(agent: Any, goal: int, seed: int) -> Iterator[Walked]:
    """Follow the expert through ``goal``, so that every context and actor sees the same pages."""
    moves = [event.text for event in play(agent.world, goal, seed).events if event.kind == "ACT"]
    state: Any = dict(agent.observe({"task": {"goal": goal}}, {}))
    for step, move in enumerate(moves):
        before, busy = time.perf_counter(), time.process_time()
        state |= agent.observe({**state, "task": None}, {})
        seen = time.perf_counter()
        state |= agent.update_state(state)
        updated = time.perf_counter()
        state |= agent.build_context(state)
        marks = (before, seen, updated, time.perf_counter())
        yield Walked(state, step, marks, time.process_time() - busy)
        session, _ = agent.world.step(state["session"], move)
        state |= {"session": dict(session), "action": move, "steps": step + 1}
