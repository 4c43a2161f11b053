"""One episode on the terminal: a transcript, a JSON file, a thread that outlives the process."""

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import typer

from stores.errors import UserError
from ui.cli.episode import episode_dict, futile
from ui.cli.output import check_target, console, write_json
from ui.cli.transcript import Show, Transcript

if TYPE_CHECKING:
    from graph.config import Config
    from graph.session import Session, StepResult


def play(
    config: "Config",
    goal: int | None,
    *,
    json_target: str | None = None,
    thread: str | None = None,
    resume: bool = False,
    show: Show = "page",
) -> None:
    """Play one episode and print it. Raises ``UserError`` and ``typer.Exit(130)`` on Ctrl-C."""
    check_target(json_target)
    session = open_session(config, goal, thread, resume)
    by_hand = config.actor.kind == "human"
    out = console(stderr=json_target == "-")
    transcript = Transcript(out, config, show)
    silent = json_target == "-" or show == "none"
    steps: list[StepResult] = []
    try:
        _ = session.observation  # the first page: a goal that does not exist fails here
        values = session.values
        if not silent or by_hand:
            world = session.agent.bound().world
            wish = "" if by_hand else world.instruction(values["session"])
            transcript.head(values["episode"], wish, at=values["steps"])
        with closing(_steps(session, by_hand, out)) as taken:
            for result in taken:
                steps.append(result)
                if not silent and not by_hand:
                    transcript.step(result, futile(session, result))
    except KeyboardInterrupt:
        _stopped(thread, len(steps))
    episode = episode_dict(session, steps)
    if not silent or by_hand:
        transcript.end(episode)
    if by_hand and not session.done and thread is not None:
        out.print(f"go on with: {_resume_hint(thread)}", markup=False)
    if json_target is not None:
        write_json(json_target, episode)


def _steps(session: "Session", by_hand: bool, out: Any) -> Generator["StepResult", None, None]:
    if by_hand:
        from ui.cli.human import play_by_hand

        return play_by_hand(session, out)
    return _watched(session, out)


def _watched(session: "Session", out: Any) -> Generator["StepResult", None, None]:
    """Take steps, with a spinner on terminals: a model may need many seconds for one."""
    config = session.agent.config
    if config.actor.kind == "chat" and out.is_terminal:
        out.print("starting the model …", style="dim")
        _ = session.agent.resources.llm  # here, since its download shows a bar of its own
    while not session.done:
        if out.is_terminal:
            with out.status(f"step {session.values['steps'] + 1} …", spinner="dots"):
                result = session.step()
        else:
            result = session.step()
        yield result


def open_session(config: "Config", goal: int | None, thread: str | None, resume: bool) -> "Session":
    """Return the session to play: a new episode, or the unfinished one of ``thread``.

    Raises ``UserError`` if there is nothing to resume, or if a new episode would bury an
    unfinished one.
    """
    from graph.build import build_graph
    from graph.session import Session

    if thread is None:
        return Session(build_graph(config), _fresh_name(), task={"goal": goal or 0})
    session = Session(build_graph(durable(config)), thread)
    values: Mapping[str, Any] = session.values
    unfinished = "session" in values and not session.done
    if not resume:
        if unfinished:
            raise UserError(
                f"thread '{thread}' has an unfinished episode (step {values['steps']}): "
                "add --resume, or name another --thread"
            )
        return session.start({"goal": goal or 0})
    if not unfinished:
        why = "its episode is over" if values else "there is no such thread"
        raise UserError(f"nothing to resume on thread '{thread}': {why}; leave --resume out")
    if goal is not None and values["episode"].get("goal") != goal:
        raise UserError(
            f"thread '{thread}' is at goal {values['episode'].get('goal')}: leave --goal out"
        )
    try:
        session.agent.bound().world.observe(values["session"])
    except (KeyError, UserError):
        raise UserError(
            f"thread '{thread}' was played with another config: name that CONFIG and its --set"
        ) from None
    return session


def durable(config: "Config") -> "Config":
    """Return ``config`` with checkpoints on disk, where it does not say otherwise."""
    if config.checkpoints is not None:
        return config
    from stores.home import home

    return config.model_copy(update={"checkpoints": str(home() / "checkpoints.sqlite")})


def _fresh_name() -> str:
    """Return a thread id that no other run has, so that traces of runs stay apart."""
    import time
    import uuid

    return f"run-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"


def _resume_hint(thread: str) -> str:
    import shlex

    return f"the same command with --thread {shlex.quote(thread)} --resume"


def _stopped(thread: str | None, steps: int) -> None:
    told = f"stategate: stopped after {steps} steps"
    if thread is None:
        typer.echo(f"{told}; with --thread NAME an episode can be resumed", err=True)
    else:
        typer.echo(f"{told}; resume with {_resume_hint(thread)}", err=True)
    raise typer.Exit(130)
