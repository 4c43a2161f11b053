"""The Runs tab: six findings, and any run directory with its episodes replayed."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from langgraph.checkpoint.memory import InMemorySaver

from stategate.envs.protocols import playable
from stategate.evals.core.run_directory import (
    Run,
    find_runs,
    outcome_of,
    read_run,
    read_stories,
)
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.graph.session import Session
from stategate.stores.errors import UserError
from stategate.ui.app.context import in_words, render_context
from stategate.ui.app.guard import PUBLISHED, bounds
from stategate.ui.app.html import empty, macros, note, short
from stategate.ui.app.page import render_page
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, Update, choice, frame, telling
from stategate.ui.app.tabs.episode_view import Stop, address_of, render_trail, taken_slot

#: Where runs are looked for: this folder's, and the published ones.
ROOTS = (Path("runs"), PUBLISHED / "runs")
_HINT = (
    "A run directory is what `stategate eval` writes with --out. Choose one above, or make one: "
    "stategate eval worlds --goals 0-19 --out runs/first"
)
_EPISODES = ["goal", "agent", "outcome", "reward", "steps", "tokens", "error"]


@dataclass
class Opened:
    """What one browser tab has open."""

    run: Run
    agent: str = ""
    goal: int = -1

    @property
    def config(self) -> Any:
        """The config of the agent whose episode is open, as plain values."""
        return (self.run.args.get("agents") or {})[self.agent]

    @property
    def task(self) -> dict[str, Any]:
        """The task of the episode."""
        rows = [r for r in self.run.episodes if r.get("goal") == self.goal and r.get("task")]
        return dict(rows[0]["task"]) if rows else {"goal": self.goal}


class RunsTab(common.Tab):
    """The tab's components and what they do."""

    def __init__(self, resources: Any) -> None:
        self._resources = resources
        self.stories = common.drawn("stories")
        with gr.Row(elem_classes="sg-agentbar"):
            label = "Run directory (choose, search by typing, or write a path)"
            self.choice = choice(label, "run", allow_custom_value=True)
        self.status = gr.HTML(elem_id="sg-run-status")
        self.facts = gr.HTML(empty("No run open", _HINT), elem_id="sg-run-facts")
        with gr.Column(visible=False) as self.panel:
            self.rows = frame("run-rows", "Results")
            self.tests = frame("run-tests", "Paired tests")
            label = "Episodes (click one to replay it)"
            self.episodes = frame("episodes", label, _EPISODES, show_search="filter")
        self.steps = common.drawn("run-steps")
        with gr.Row(elem_classes="sg-stage"):
            with common.column(6):
                self.page = gr.HTML(elem_id="sg-run-page")
            with common.column():
                self.read = gr.HTML(elem_id="sg-run-read")
        self.state = gr.State(None)
        self.outputs = self.parts()

    def choices(self) -> Update:
        """List the runs there are, and tell the stories of the published ones."""
        # A run is called by its name and that of the folder it lies in.
        found = [("/".join(folder.parts[-2:]), str(folder)) for folder in find_runs(ROOTS)]
        try:
            stories: Any = macros("runs").stories(read_stories(ROOTS[-1]))
        except UserError as error:
            stories = note(str(error), "warn")
        return {self.choice: gr.update(choices=found), self.stories: stories}

    def pick(self, event: gr.EventData) -> str:
        """Choose the run of a story."""
        return common.chosen(event, "pick")

    @telling
    def open(self, folder: str | None) -> Update:
        """Open a run directory; where that fails, nothing of the run before is left."""
        nothing: Update = dict.fromkeys((self.status, self.steps, self.page, self.read), "")
        nothing |= {self.state: None, self.panel: gr.update(visible=False)}
        nothing[self.facts] = empty("No run open", _HINT)
        if not folder:
            return nothing
        try:
            run = read_run(bounds.require_place(folder))
            rows, tests = table(run.summary.get("rows")), table(run.summary.get("tests"))
            drawn = facts_of(run)
            episodes = [_episode(row) for row in run.episodes]
        except Exception as error:
            return {**nothing, self.status: common.failed(error)}
        return {
            **nothing,
            self.state: Opened(run),
            self.panel: gr.update(visible=True),
            self.facts: drawn,
            self.rows: gr.update(value=rows, visible=bool(rows)),
            self.tests: gr.update(value=tests, visible=bool(tests)),
            self.episodes: gr.update(value=episodes, visible=bool(episodes)),
        }

    @telling
    def replay(self, opened: Opened | None, event: gr.SelectData) -> Update:
        """Open the replay of the episode whose row was clicked."""
        if opened is None:
            return {self.status: ""}
        goal, agent = event.row_value[:2]
        return self._at(Opened(opened.run, str(agent), int(goal)), 0)

    @telling
    def look(self, opened: Opened | None, event: gr.EventData) -> Update:
        """Look at another step of the open episode."""
        if opened is None:
            return {self.status: ""}
        return self._at(opened, common.number_of(event, "look", 10**6))

    def _at(self, opened: Opened, step: int | None) -> Update:
        steps = opened.run.steps(opened.agent, opened.goal)
        at = len(steps) if step is None else min(step, len(steps))
        stops = []
        for i, row in enumerate(steps):
            lost = sum((row.get("lost") or {}).values())
            facts = f"{row.get('tokens', 0):,} tokens" + (f" · {lost} lost" if lost else "")
            stops.append(Stop(i, str(row.get("action", "")), facts, fallback=row.get("fallback")))
        trail = render_trail(stops, at if at < len(steps) else None, over=True)
        update: Update = {self.state: opened, self.status: "", self.steps: trail}
        try:
            update |= self._replayed(opened, [str(row.get("action", "")) for row in steps], at)
        except Exception as error:  # the steps are there even where the world, or the agent, is not
            why = "This step cannot be drawn again:"
            update |= {self.page: note(common.problem_of(error), "info", why), self.read: ""}
        return update

    def _replayed(self, opened: Opened, actions: Sequence[str], at: int) -> Update:
        """Draw a step's page and what the model read: the run's agent is led there by its actions."""
        config = load_config(opened.config)
        # Nothing of a replay is written anywhere: the only memory is that of the last steps.
        kept = [params for params in config.memory if params.kind in ("short_term", "conversation")]
        config = config.model_copy(update={"memory": kept, "checkpoints": None})
        graph = build_graph(config, InMemorySaver(), self._resources)
        data = opened.run.args.get("data") or {}
        if data.get("sha256") not in (None, playable(graph.agent.world).fingerprint):
            raise UserError("the run's data is not the data that is here")
        session = Session(graph, "replay", task=opened.task)
        for action in actions[:at]:
            session.act(action)
        seen, view = session.observation, graph.agent.resources.view
        taken = actions[at] if at < len(actions) else None
        page = render_page(
            view,
            seen,
            graph.agent.world.instruction(session.values["session"]),
            taken=taken,
            live=False,
            forms=taken_slot(taken or "", seen),
            address=address_of({"env": config.env.kind, "goal": opened.goal}, at + 1),
        )
        if taken is None:
            return {self.page: page, self.read: ""}
        read = session.look(act=False)
        title = f"What the model read at step {at + 1}: {config.context.kind}"
        whole = in_words(view, view.chunks(seen))
        drawn = render_context(read.context, read.budget, whole, title=title)
        return {self.page: page, self.read: drawn}

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        opened.select(self.choices, None, [self.choice, self.stories], **QUIET)
        self.stories.click(self.pick, None, [self.choice], **QUIET)
        self.choice.change(self.open, [self.choice], self.outputs, **QUIET)
        drawn = [self.status, self.state, self.steps, self.page, self.read]
        self.episodes.select(self.replay, [self.state], drawn, **QUIET)
        self.steps.click(self.look, [self.state], drawn, **QUIET)


def table(rows: Sequence[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    """Return rows as a table, a standard error beside its value; None where there are none."""
    names = [n for n in dict.fromkeys(n for row in rows or () for n in row) if n[-3:] != "_se"]
    data = [[_cell(row.get(name), row.get(f"{name}_se")) for name in names] for row in rows or ()]
    return {"headers": names, "data": data} if data else None


def _cell(value: Any, error: Any) -> str:
    if isinstance(value, float):
        spread = f" ± {error:.3g}" if isinstance(error, float) else ""
        return f"{value:.4g}{spread}"
    return "" if value is None else short(value, 90)


def facts_of(run: Run) -> Any:
    """Draw what a run was: its command, commit, seed, data, its plots."""
    facts = {name: run.args.get(name) for name in ("command", "commit", "seed", "max_steps")}
    data = run.args.get("data")
    if isinstance(data, Mapping):
        facts["data"] = f"{data.get('name', '')} ({str(data.get('sha256', ''))[:12]})"
    known = [(name, value) for name, value in facts.items() if value not in (None, "")]
    plots = [(p.name, b64encode(p.read_bytes()).decode("ascii")) for p in run.pictures[:6]]
    return macros("runs").run(run.folder.name, known, plots)


def _episode(row: Mapping[str, Any]) -> list[Any]:
    values = [row.get("reward") or 0.0, row.get("steps"), row.get("tokens")]
    place = [row.get("goal"), row.get("agent"), outcome_of(row)]
    return [*place, *values, short(row.get("error") or "", 120)]
