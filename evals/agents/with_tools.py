"""Real tools under each arm: a world as tools, or a folder of files; played by an actor or by a model.

stategate eval tools --config mine.yaml --player explore --n 100 --out runs/tools
stategate eval tools --set llm.n_ctx=8192 --n 6 --out runs/tools-files
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import BaseMessage
from langgraph.errors import GraphRecursionError

from stategate.envs.protocols import tasks_of
from stategate.evals.agents.arms import arms_of, middleware_of
from stategate.evals.agents.files import make_files, tools_over
from stategate.evals.agents.players import ActorModel, Metered, WrittenCalls
from stategate.evals.agents.run import scored
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Task, run_task
from stategate.graph.config import load_config
from stategate.graph.world_tools import standing, world_tools
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError
from stategate.stores.runs import public_config

FILES, MODEL = "files", "model"
_MODELS = "qa"  # the preset that names the model where no world is played
_ALL = {"kind": "full", "budget": 10**6}  # an actor reads what the middleware left
TOOL_ARMS = ("nothing", "last", "clear", "compress")
_SYSTEM = (
    "You solve the task with the tools. Make one call at a time, and wait for its result. Where "
    "actions are listed, copy one of them, and another where that did not help. "
    "When you know the answer or the task is over, say it without a call."
)
_FAILED = {"success": 0.0, "errors": 1}


def run_tools(
    out: str,
    on: str = FILES,
    player: str = MODEL,
    n: int = 10,
    arms: Sequence[str] = TOOL_ARMS,
    budget: int = 3000,
    calls: int = 50,
    overrides: Sequence[str] = (),
    lingua: str = "",
) -> dict[str, Any]:
    """Play the first ``n`` tasks with each arm; return the summary.

    ``on`` is "files", or a configuration whose world is played. ``player`` is a kind of actor, or
    "model": the configured language model. ``budget`` is the prompt's, ``calls`` how many the model
    has; ``lingua`` are the weights of that arm. Raises ``UserError`` for names that there are not.
    """
    known = registry()
    if player != MODEL and player not in known.kinds("actor"):
        raise UserError(
            f"--player {player}: {MODEL}, or an actor ({', '.join(known.kinds('actor'))})"
        )
    if on == FILES and player != MODEL:
        raise UserError(f"files are read by a language model: --player {MODEL}")
    config = load_config(_MODELS if on == FILES else on, overrides)
    world = None if on == FILES else config.env.build(Resources(env=config.env))
    listed = [{"seed": i} for i in range(n)] if world is None else list(tasks_of(world))[:n]
    args = {
        "on": on,
        "player": player,
        "n": len(listed),
        "arms": arms_of(arms, lingua),
        "budget": budget,
        "calls": calls,
        "config": public_config(config.model_dump(mode="json", include={"env", "llm"})),
        "data": str(getattr(world, "fingerprint", "")),
    }

    def dataset(arm: str) -> Sequence[Sample]:
        return [Sample({"family": on, "seed": i}, task, [_FAILED]) for i, task in enumerate(listed)]

    def solver(arm: str) -> Solver:
        resources = Resources(config.llm, config.embedder, None, config.env)

        def solve(sample: Sample, attempt: Attempt) -> None:
            with ExitStack() as stack:
                if world is None:
                    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                    made = make_files(int(sample.key["seed"]))
                    for name, text in made.files.items():
                        (folder / name).write_text(text, "utf-8")
                    tools, asked = tools_over(folder), made.question
                else:
                    tools = world_tools(world, resources.view, task=sample.data)
                    asked = world.instruction(world.reset(sample.data)[0])
                model: Any = (
                    resources.llm
                    if player == MODEL
                    else ActorModel(
                        instruction=asked,
                        actor=resources.get(known.parse("actor", player)),
                        builder=resources.get(known.parse("context", _ALL)),
                        resources=resources,
                        most=calls,
                    )
                )
                row, messages = play(model, tools, arm, asked, budget, calls, lingua)
            said = str(messages[-1].text)
            end = standing(messages)
            if world is None:
                row["success"] = float(made.is_right(said))
            else:
                row["success"] = float(end is not None and end.done and end.reward >= 1.0)
                row["score"] = end.reward if end is not None and end.done else 0.0
                row["steps"] = end.steps if end is not None else 0
            attempt.rows[0] |= {**row, "said": said[:300]}

        return solve

    return run_task(Task(args["arms"], dataset, solver, scored, "tasks", "task"), out, args)


def play(
    model: Any,
    tools: Sequence[Any],
    arm: str,
    asked: str,
    budget: int,
    calls: int,
    lingua: str = "",
) -> tuple[Row, list[BaseMessage]]:
    """Let ``model`` work with ``tools`` under ``arm``; returns its row and all messages."""
    metered = Metered()
    own: list[AgentMiddleware[Any, Any, Any]] = list(
        middleware_of(arm, budget, metered.bill, lingua)
    )
    agent: Any = create_agent(
        model, list(tools), middleware=[*own, WrittenCalls(), metered], system_prompt=_SYSTEM
    )
    last: list[BaseMessage] = []
    spent, problems, ended = 0.0, 0, True
    started = time.perf_counter()
    question: Mapping[str, Any] = {"messages": [{"role": "user", "content": asked}]}
    try:
        limit = {"recursion_limit": 4 * calls + 20}
        for mode, value in agent.stream(question, limit, stream_mode=["custom", "values"]):
            if mode == "values":
                last = value["messages"]
            elif value.get("type") == "stategate.context":
                spent += value["seconds"]
                problems += bool(value["problem"])
            if metered.calls > calls + 1:
                ended = False
                break
    except GraphRecursionError:
        ended = False
    seconds = time.perf_counter() - started
    told = metered.bill.row(metered.calls, metered.orphans, spent, problems)
    told["commands_lost"] = metered.lost / max(metered.offered, 1)
    return {**told, "ended": ended, "agent_s": seconds}, last
