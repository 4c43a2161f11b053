"""Playing one episode and recording it as a trajectory, for whoever trains or measures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stategate.envs.protocols import Observation, Session, World
from stategate.stores.traces import Event
from stategate.stores.traces.trajectories import Trajectory

#: Returns the action to take in a session on its page.
Choose = Callable[[Session, Observation], str]


@dataclass
class Played:
    """An episode so far; ``page`` is the present one."""

    page: Observation
    instruction: str
    events: list[Event] = field(default_factory=list)
    actions: list[tuple[str, ...]] = field(default_factory=list)
    steps: int = 0

    def trajectory(
        self, name: str, task: Mapping[str, Any], agent: Mapping[str, Any]
    ) -> Trajectory:
        """Return the episode ``name`` of ``task`` as ``agent`` played it."""
        events, actions = tuple(self.events), tuple(self.actions)
        return Trajectory(name, events, self.page.reward, self.instruction, task, agent, actions)


def record_episode(world: World, task: Mapping[str, Any], choose: Choose, max_steps: int) -> Played:
    """Play ``task`` to its end, or for ``max_steps``, and return its record."""
    session, page = world.reset(task)
    played = Played(page, world.instruction(session), [Event("OBS", page.text, 0)], [page.actions])
    while not page.done and played.steps < max_steps:
        action, t = choose(session, page), played.steps
        session, page = world.step(session, action)
        played.events.append(Event("ACT", action, t))
        if page.done:
            played.events.append(Event("REWARD", str(page.reward), t))
            played.events += [Event("OBS", page.text, t), Event("DONE", "", t)]
        else:
            played.events.append(Event("OBS", page.text, t + 1))
        played.actions.append(page.actions)
        played.page, played.steps = page, t + 1
    return played
