"""``stategate run``: one episode with a transcript, or many with a summary."""

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stores.errors import UserError
from ui.cli.output import (
    JsonFile,
    Overrides,
    Show,
    check_target,
    console,
    examples,
    show_summary,
    write_json,
)

if TYPE_CHECKING:
    from envs.protocols import World
    from graph.config import Config
    from graph.session import Session, StepResult

EXAMPLES = examples(
    "stategate run demo --goal 3",
    "stategate run webshop --goal 3 --set context.kind=window --budget 300",
    "stategate run webshop --goal 3 --show context --json episode.json",
    "stategate run webshop --actor human",
    "stategate run mine.yaml --task room=cellar --task seed=7",
    "stategate run webshop --episodes 50 --start 100 --out runs/first",
    "stategate run demo --thread mine             # and after a crash:",
    "stategate run demo --thread mine --resume",
)


def run(
    config: Annotated[
        str, typer.Argument(help="A preset (demo, webshop, smoke) or a YAML file.")
    ] = "demo",
    goal: Annotated[
        int | None, typer.Option(min=0, help="Which of the world's tasks to play; 0 if not given.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="A task in the world's own words; repeatable, YAML."
        ),
    ] = None,
    overrides: Overrides = None,
    actor: Annotated[
        str | None, typer.Option(help="Who acts: chat, rule, human, scripted, or your own kind.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The llm's model: default, small, a .gguf file, …")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Tokens the built context may have.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Steps an episode may take.")] = None,
    show: Annotated[
        Show, typer.Option(help="Of each step: the page, the built context (prompt), or nothing.")
    ] = "page",
    json_target: JsonFile = None,
    thread: Annotated[
        str | None, typer.Option(metavar="ID", help="Keep checkpoints, to resume the episode.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished episode of --thread.")
    ] = False,
    episodes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Play N tasks; print a summary.")
    ] = None,
    start: Annotated[
        int | None, typer.Option(min=0, help="The first task of --episodes; 0 if not given.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write --episodes to a run directory; resumes it."),
    ] = None,
) -> None:
    """Play an episode and show it step by step, or play many and summarise them."""
    _check(goal, task, start, episodes, thread, resume, out)
    from graph.config import load_config

    shortcuts = {
        "actor.kind": actor,
        "llm.model": model,
        "context.budget": budget,
        "max_steps": max_steps,
    }
    # ``--set`` comes after the shortcuts and so wins.
    words = [f"{key}={value}" for key, value in shortcuts.items() if value is not None]
    settled = load_config(config, [*words, *(overrides or ())])
    if episodes is None:
        play(settled, goal, task or (), json_target, thread, resume, show)
        return
    if settled.actor.kind == "human":
        raise UserError("a person plays one episode at a time: leave --episodes out")
    first = start if start is not None else goal or 0
    play_many(settled, range(first, first + episodes), out, json_target)


def _check(
    goal: int | None,
    task: list[str] | None,
    start: int | None,
    episodes: int | None,
    thread: str | None,
    resume: bool,
    out: str | None,
) -> None:
    if resume and thread is None:
        raise UserError("--resume needs the thread to go on with: --thread ID")
    if thread is not None and not thread.strip():
        raise UserError("--thread needs a name")
    if task and (goal is not None or episodes is not None):
        raise UserError("--task says what to play: leave --goal and --episodes out")
    if episodes is None and (start is not None or out is not None):
        raise UserError(f"{'--out' if start is None else '--start'} goes with --episodes N")
    if episodes is not None and thread is not None:
        raise UserError("--thread is for one episode; many are resumed with the same --out DIR")
    if episodes is not None and goal is not None and start is not None:
        raise UserError("with --episodes, name the first task once: --start N")


def task_of(world: "World", goal: int | None, pairs: Sequence[str]) -> dict[str, Any]:
    """Return the task that ``--goal`` or ``--task KEY=VALUE …`` names in ``world``.

    ``goal`` is a number in the world's list of tasks, unless its tasks call themselves by a goal or it
    lists none. Raises ``UserError``.
    """
    from envs.protocols import tasks_of

    if pairs:
        return _read_task(pairs)
    if not hasattr(world, "tasks"):
        return {} if goal is None else {"goal": goal}
    number = goal or 0
    tasks = tasks_of(world)
    if not tasks or "goal" in tasks[0]:
        return {"goal": number}
    if number >= len(tasks):
        raise UserError(f"no goal {number}: this world has tasks 0 to {len(tasks) - 1}")
    return dict(tasks[number])


def _read_task(pairs: Sequence[str]) -> dict[str, Any]:
    import yaml

    task: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.strip()):
            raise UserError(f"--task takes KEY=VALUE, not '{pair}'")
        try:
            task[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UserError(f"--task {key.strip()}: '{value}' is no YAML value") from None
    return task


def play(
    config: "Config",
    goal: int | None = None,
    task: Sequence[str] = (),
    json_target: str | None = None,
    thread: str | None = None,
    resume: bool = False,
    show: Show = "page",
) -> None:
    """Play one episode and print it. Raises ``UserError`` and ``typer.Exit(130)`` on Ctrl-C."""
    from ui.cli.human import play_by_hand
    from ui.cli.transcript import Transcript

    check_target(json_target)
    session = open_session(config, goal, task, thread, resume)
    by_hand = config.actor.kind == "human"
    out = console(stderr=json_target == "-")
    transcript = Transcript(out, config, session.agent.resources.view, show)
    silent = json_target == "-" or show == "none"
    steps: list[StepResult] = []
    try:
        _ = session.observation  # the first page: a goal that does not exist fails here
        values = session.values
        if not silent or by_hand:
            world = session.agent.bound().world
            asked = "" if by_hand else world.instruction(values["session"])
            transcript.head(values["episode"], asked, at=values["steps"])
        with closing((play_by_hand if by_hand else _watched)(session, out)) as results:
            for result in results:
                steps.append(result)
                if not silent and not by_hand:
                    transcript.step(result, futile(session, result))
    except KeyboardInterrupt:
        hint = "with --thread NAME an episode can be resumed"
        if thread is not None:
            hint = f"resume with {_resume_hint(thread)}"
        typer.echo(f"stategate: stopped after {len(steps)} steps; {hint}", err=True)
        raise typer.Exit(130) from None
    episode = episode_dict(session, steps)
    if not silent or by_hand:
        transcript.end(episode, session.observation)
    if by_hand and not session.done and thread is not None:
        out.print(f"go on with: {_resume_hint(thread)}", markup=False)
    if json_target is not None:
        write_json(json_target, episode)


def _watched(session: "Session", out: Any) -> Generator["StepResult", None, None]:
    """Take steps, with a spinner on terminals: a model may need many seconds for one."""
    config = session.agent.config
    if config.actor.kind == "chat" and out.is_terminal:
        out.print("starting the model …", style="dim")
        _ = session.agent.resources.llm  # here, since its download shows a bar of its own
    while not session.done:
        label = f"step {session.values['steps'] + 1} …"
        with out.status(label) if out.is_terminal else nullcontext():
            result = session.step()
        yield result


def open_session(
    config: "Config", goal: int | None, task: Sequence[str], thread: str | None, resume: bool
) -> "Session":
    """Return the session to play: a new episode, or the unfinished one of ``thread``.

    Raises ``UserError`` if there is nothing to resume, or if a new episode would bury an
    unfinished one.
    """
    import time
    import uuid

    from graph.build import build_graph
    from graph.session import Session
    from ui.actions import task_in_words

    # A thread id that no other run has keeps the traces of runs apart.
    name = thread or f"run-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
    session = Session(build_graph(config if thread is None else durable(config)), name)
    world = session.agent.bound().world
    if thread is None:
        return session.start(task_of(world, goal, task))
    values: Mapping[str, Any] = session.values
    unfinished = "session" in values and not session.done
    if not resume:
        if unfinished:
            raise UserError(
                f"thread '{thread}' has an unfinished episode (step {values['steps']}): "
                "add --resume, or name another --thread"
            )
        return session.start(task_of(world, goal, task))
    if not unfinished:
        why = "its episode is over" if values else "there is no such thread"
        raise UserError(f"nothing to resume on thread '{thread}': {why}; leave --resume out")
    played = {key: value for key, value in values["episode"].items() if key != "env"}
    if (goal is not None or task) and task_of(world, goal, task) != played:
        raise UserError(
            f"thread '{thread}' is at {task_in_words(played)}: leave --goal and --task out"
        )
    try:
        world.observe(values["session"])
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


def _resume_hint(thread: str) -> str:
    import shlex

    return f"the same command with --thread {shlex.quote(thread)} --resume"


# A played episode as plain values, for --json -------------------------------------------------------


def futile(session: "Session", result: "StepResult") -> str | None:
    """Return the decision's fallback, or why its action did nothing (None if all is well)."""
    decision = result.decision
    if decision.fallback is not None:
        return decision.fallback
    if session.agent.bound().accepts(decision.action, result.observation):
        return None
    return "illegal action: nothing happened"


def episode_dict(session: "Session", steps: Sequence["StepResult"]) -> dict[str, Any]:
    """Return the episode: task, steps, totals.

    ``steps`` are those that this process took; a resumed episode has earlier ones, which ``totals``
    count (except ``seconds``) and ``resumed_at`` names the number of.
    """
    from graph.agent import thaw

    values = session.values
    world = session.agent.bound().world
    parts = (values.get("info") or {}).get("reward")
    totals = ("done", "steps", "tokens", "model_tokens", "cost", "fallbacks")
    return {
        "config": session.agent.config.model_dump(mode="json"),
        "thread_id": session.thread_id,
        "episode_id": values["episode_id"],
        "task": dict(values["episode"]),
        "instruction": world.instruction(values["session"]),
        "resumed_at": steps[0].step if steps and steps[0].step else None,
        "steps": [_step(session, step) for step in steps],
        "totals": {
            "reward": values["reward"],
            "reward_parts": thaw(parts) if parts is not None else None,
            **{name: values[name] for name in totals},  # type: ignore[literal-required]
            "seconds": sum(step.seconds for step in steps),
        },
    }


def _step(session: "Session", result: "StepResult") -> dict[str, Any]:
    from graph.agent import thaw
    from graph.state import pack_decision

    seen, context, outcome = result.observation, result.context, result.outcome
    return {
        "step": result.step,
        "observation": {"text": seen.text, "actions": list(seen.actions)},
        "context": {
            "tokens": context.tokens,
            "over_budget": context.over_budget,
            "messages": [{"role": m.type, "content": str(m.content)} for m in context.messages],
            "pieces": [thaw(vars(piece)) for piece in context.pieces],
            "actions": list(context.actions),
            "dropped_actions": list(context.dropped_actions),
        },
        "decision": {**pack_decision(result.decision), "fallback": futile(session, result)},
        "outcome": {"text": outcome.text, "actions": list(outcome.actions)},
        "reward": result.reward,
        "done": result.done,
        "seconds": result.seconds,
    }


# Many episodes ----------------------------------------------------------------------------------------


def play_many(
    config: "Config", goals: Sequence[int], out: str | None, json_target: str | None
) -> None:
    """Play ``goals`` and print the summary; without ``out`` nothing but the summary is kept.

    Exit code 1 if every episode failed; 130 on Ctrl-C, with what to do about it.
    """
    import shutil
    import tempfile

    from evals.worlds.live import run_live
    from stores.runs import read_rows

    check_target(json_target)
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="stategate-"))
    values = config.model_dump(mode="json")
    agents: dict[str, list[str]] = {config.context.kind: []}
    try:
        summary = run_live(values, agents, goals, str(folder), (), 0, ["stategate", *sys.argv[1:]])
        failed = folder / "errors.jsonl"
        errors = read_rows(failed) if failed.exists() else []
    except KeyboardInterrupt:
        hint = f"goes on from '{out}'" if out else "with --out DIR goes on where it stopped"
        typer.echo(f"stategate: stopped; the same command {hint}", err=True)
        raise typer.Exit(130) from None
    finally:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
    if json_target is not None:
        write_json(json_target, summary)
    if json_target != "-":
        show_summary(console(), summary, errors, out)
    if len(errors) >= len(goals):
        raise typer.Exit(1)
