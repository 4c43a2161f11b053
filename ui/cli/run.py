"""``stategate run``: one episode with a transcript, or many with a summary."""

from typing import Annotated, Literal

import typer

from stores.errors import UserError
from ui.cli.output import examples

EXAMPLES = examples(
    "stategate run demo --goal 3",
    "stategate run webshop --goal 3 --set context.kind=window --budget 300",
    "stategate run webshop --goal 3 --show context --json episode.json",
    "stategate run webshop --actor human",
    """stategate run webshop --actor scripted --set 'actor.actions=["search[lamp]"]'""",
    "stategate run webshop --episodes 50 --start 100 --out runs/first",
    "stategate run demo --thread mine             # and after a crash:",
    "stategate run demo --thread mine --resume",
)


def run(
    config: Annotated[
        str, typer.Argument(help="A preset (demo, webshop, smoke) or a YAML file.")
    ] = "demo",
    goal: Annotated[
        int | None, typer.Option(min=0, help="Which goal to play; 0 if not given.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="Change the config; repeatable."),
    ] = None,
    actor: Annotated[
        str | None, typer.Option(help="Who acts: chat, rule, human, scripted, or your own kind.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The llm's model: default, small, a .gguf file, …")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Tokens the built context may have.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Steps an episode may take.")] = None,
    show: Annotated[
        Literal["page", "context", "none"],
        typer.Option(help="Of each step: the page, the built context (prompt), or nothing."),
    ] = "page",
    json_target: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write the whole episode, or the summary of --episodes; - is stdout.",
        ),
    ] = None,
    thread: Annotated[
        str | None, typer.Option(metavar="ID", help="Keep checkpoints, to resume the episode.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished episode of --thread.")
    ] = False,
    episodes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Play N goals; print a summary.")
    ] = None,
    start: Annotated[
        int | None, typer.Option(min=0, help="The first goal of --episodes; 0 if not given.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write --episodes to a run directory; resumes it."),
    ] = None,
) -> None:
    """Play an episode and show it step by step, or play many and summarise them."""
    _check(goal, start, episodes, thread, resume, out)
    from graph.config import load_config

    words = _overrides(actor, model, budget, max_steps)
    settled = load_config(config, [*words, *(overrides or ())])
    if episodes is not None:
        from ui.cli.episodes import play_many

        if settled.actor.kind == "human":
            raise UserError("a person plays one episode at a time: leave --episodes out")
        first = start if start is not None else goal or 0
        goals = range(first, first + episodes)
        play_many(settled, goals, out=out, json_target=json_target)
        return
    from ui.cli.play import play

    play(
        settled,
        goal,
        json_target=json_target,
        thread=thread,
        resume=resume,
        show=show,
    )


def _check(
    goal: int | None,
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
    if episodes is None:
        for name, value in (("--start", start), ("--out", out)):
            if value is not None:
                raise UserError(f"{name} goes with --episodes N")
    elif thread is not None:
        raise UserError("--thread is for one episode; many are resumed with the same --out DIR")
    elif goal is not None and start is not None:
        raise UserError("with --episodes, name the first goal once: --start N")


def _overrides(
    actor: str | None, model: str | None, budget: int | None, max_steps: int | None
) -> list[str]:
    """Return the shortcuts as overrides; ``--set`` comes after them and so wins."""
    given = {
        "actor.kind": actor,
        "llm.model": model,
        "context.budget": budget,
        "max_steps": max_steps,
    }
    return [f"{key}={value}" for key, value in given.items() if value is not None]
