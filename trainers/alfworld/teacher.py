"""What the searching expert would do, knowing where things are: all commands that are as good.

Searching, it goes where a thing that is wanted lies unseen. Who learns from that and cannot see it
learns where such things are likely.
"""

from collections.abc import Sequence

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import Knowledge, decide, delivered, knowledge_of
from stategate.envs.alfworld.reading import Goal, command_of, goal_of, kind_of
from stategate.envs.protocols import Observation, Session, World
from stategate.stores.traces import Event


def good_commands(
    world: World,
    session: Session,
    past: Sequence[tuple[str, str]],
    page: Observation,
    events: Sequence[Event] = (),
) -> Sequence[str]:
    """Return the good commands at ``page``, none where the expert knows of nothing to do."""
    assert isinstance(world, AlfWorld)  # noqa: S101 - the course's own world
    asked = world.instruction(session)
    goal, known = goal_of(asked), knowledge_of(past, page.text, page.actions)
    carries = kind_of(known.hand) == goal.thing
    wanted = goal.target if goal.is_light and carries else goal.thing
    done = delivered(goal, known)
    there = {
        place
        for place, things in world.contents(session).items()
        if place not in known.seen and any(kind_of(t) == wanted and t not in done for t in things)
    }
    if tools := _changing(world, session, goal, known, page.actions):
        return tools
    action, _ = decide(asked, known, page.actions, dict.fromkeys(there, 1.0))
    if not action:
        return ()
    own = command_of(action)
    if own.verb == "go" and own.place in there:
        return [a for a in page.actions if a.startswith("go ") and command_of(a).place in there]
    return [a for a in page.actions if _is_like(a, action, goal, known, done)]


def _changing(
    world: World, session: Session, goal: Goal, known: Knowledge, actions: Sequence[str]
) -> list[str]:
    """Return the ways to where the thing in hand can be changed as asked, none where it need not.

    What serves for it is tried out and not read off a name.
    """
    is_due = goal.state and goal.state not in known.states.get(known.hand, set())
    if not is_due or not known.hand or kind_of(known.hand) != goal.thing:
        return []
    if here := _with_verb(goal.state, actions):
        return here
    ways = [a for a in actions if command_of(a).verb == "go"]
    return [a for a in ways if _with_verb(goal.state, world.step(session, a)[1].actions)]


def _with_verb(verb: str, actions: Sequence[str]) -> list[str]:
    return [action for action in actions if command_of(action).verb == verb]


def _is_like(action: str, best: str, goal: Goal, known: Knowledge, done: set[str]) -> bool:
    """Say whether a command does the same with a thing and place of the same kinds, as little tried."""
    one, other = command_of(action), command_of(best)

    def facts(name: str) -> tuple[bool, ...]:
        things = known.seen.get(name, ())
        return (
            name in known.been,
            name in known.seen,
            name == known.at,
            any(kind_of(t) == goal.thing for t in things),
            any(kind_of(t) == goal.target for t in things),
        )

    if action == best:
        return True
    tried = known.tried
    return (
        one.verb == other.verb
        and kind_of(one.thing) == kind_of(other.thing)
        and kind_of(one.place) == kind_of(other.place)
        and one.thing not in done
        and facts(one.place) == facts(other.place)
        and tried.get(action, 0) == tried.get(best, 0)
    )
