"""What a thread's checkpoints remember: the state at the beginning of every step of an episode."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from graph.build import Graph
from graph.state import State

#: The node after which a checkpoint is written, by the node that comes next.
BEFORE = {"observe": "write_memory", "update_state": "observe", "build_context": "update_state"}
BEFORE |= {"act": "build_context", "write_memory": "act"}


@dataclass(frozen=True)
class Boundary:
    """The tracked state when ``step`` steps were taken and the next one has not begun."""

    step: int
    values: State
    following: str

    def write(self, graph: Graph, config: RunnableConfig, **changes: Any) -> None:
        """Make this the head of the thread of ``config``, with ``changes``."""
        write_head(graph, config, {**self.values, **changes}, self.following)


def boundaries(graph: Graph, config: RunnableConfig) -> dict[int, Boundary]:
    """Return the boundaries of the current episode's steps, from 0 to those taken.

    Undone steps stay in the history and are passed over: going backwards in time, the way to the
    head leads through the newest boundary of each number below the last.
    """
    values = graph.get_state(config).values
    found: dict[int, Boundary] = {}
    wanted = values.get("steps", -1)
    for snapshot in graph.get_state_history(config):
        if wanted < 0:
            break
        seen = snapshot.values
        if seen.get("episode_id") != values.get("episode_id") or seen.get("steps") != wanted:
            continue
        following = snapshot.next[0] if snapshot.next else "observe"
        if following == ("observe" if wanted else "update_state"):
            found[wanted] = Boundary(wanted, cast(State, seen), following)
            wanted -= 1
    return dict(sorted(found.items()))


def write_head(
    graph: Graph, config: RunnableConfig, values: Mapping[str, Any], following: str
) -> None:
    """Make ``values`` the head of a thread whose next node is ``following``."""
    tracked = {k: v for k, v in values.items() if k not in ("observation", "context")}
    graph.update_state(config, tracked, as_node=BEFORE[following])


def ready(bound: Any, boundary: Boundary) -> State:
    """Return the state of a step at the moment of acting: the new events are folded in.

    ``bound`` is a :class:`graph.agent.BoundAgent`; nothing is written.
    """
    state = cast(State, dict(boundary.values))
    return cast(State, {**state, **bound.update_state(state)})
