"""Playing one episode and recording it as a trajectory, for whoever trains or measures."""

from collections.abc import Callable, Mapping
from typing import Any

from stategate.envs.protocols import Observation, Session, World
from stategate.stores.traces import Event
from stategate.stores.traces.trajectories import Trajectory

#: Returns the action to take in a session on its page.
Choose = Callable[[Session, Observation], str]


class Recorder:
    """Records one episode, from its first page on; ``page`` is the present one."""

    def __init__(self, page: Observation, instruction: str) -> None:
        self.page, self.steps, self.instruction = page, 0, instruction
        self._events = [Event("OBS", page.text, 0)]
        self._actions = [page.actions]

    def took(self, action: str, outcome: Observation) -> None:
        """Add an action and the page that it led to, which may be the last one."""
        t = self.steps
        self._events.append(Event("ACT", action, t))
        if outcome.done:
            self._events.append(Event("REWARD", str(outcome.reward), t))
            self._events += [Event("OBS", outcome.text, t), Event("DONE", "", t)]
        else:
            self._events.append(Event("OBS", outcome.text, t + 1))
        self._actions.append(outcome.actions)
        self.page, self.steps = outcome, t + 1

    def trajectory(
        self, name: str, task: Mapping[str, Any], agent: Mapping[str, Any]
    ) -> Trajectory:
        """Return the episode ``name`` of ``task`` as ``agent`` played it."""
        events, actions = tuple(self._events), tuple(self._actions)
        return Trajectory(name, events, self.page.reward, self.instruction, task, agent, actions)


def record_episode(
    world: World, task: Mapping[str, Any], choose: Choose, max_steps: int
) -> Recorder:
    """Play ``task`` to its end, or for ``max_steps``, and return its record."""
    session, page = world.reset(task)
    recorder = Recorder(page, world.instruction(session))
    while not page.done and recorder.steps < max_steps:
        action = choose(session, page)
        session, page = world.step(session, action)
        recorder.took(action, page)
    return recorder
