"""The Runs tab: open a run directory, filter and replay its episodes, compare it with another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from langgraph.checkpoint.memory import InMemorySaver

from stategate.envs.protocols import playable
from stategate.evals.core.run_directory import Run, find_runs, pairs, read_run, replay, select
from stategate.evals.core.stories import read_stories, search_runs
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.graph.session import Session
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.ui.app.guard import bounds
from stategate.ui.app.render.context import in_words, render_context
from stategate.ui.app.render.html import empty, join, macros, note
from stategate.ui.app.render.page import render_page
from stategate.ui.app.render.runs import (
    render_episodes,
    render_pairs,
    render_rows,
    render_run,
    render_steps,
)
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import EVENTS_JS, QUIET, App, Update, button, data_of, telling
from stategate.ui.app.tabs.episode_view import address_of, taken_slot

#: Where runs are looked for: this folder's, and the published ones.
ROOTS = (Path("runs"), Path(__file__).resolve().parents[3] / "docs" / "results" / "runs")
_OUTCOMES = ["all", "success", "partial", "failed", "errors"]
_ALL = "all agents"
_HINT = (
    "A run directory is what `stategate eval` writes with --out. Choose one above, or make one: "
    "stategate eval worlds --goals 0-19 --out runs/first"
)


@dataclass
class Opened:
    """What one browser tab has open."""

    run: Run
    episode: tuple[str, int] | None = None


class RunsTab:
    """The tab's components and what they do."""

    def __init__(self, app: App, resources: Any) -> None:
        self.app = app
        self._resources = resources
        self._folders: list[Path] = []
        self.stories = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-stories")
        with gr.Row(elem_classes="sg-agentbar"):
            self.words = gr.Textbox(
                label="Search all runs: words of a name, a command, an agent",
                lines=1,
                scale=2,
                elem_id="sg-run-words",
                min_width=260,
            )
            self.choice = gr.Dropdown(
                [],
                label="Run directory (choose one, or type a path)",
                allow_custom_value=True,
                elem_id="sg-run",
                scale=3,
                min_width=260,
            )
            self.agent = gr.Dropdown(
                [_ALL], value=_ALL, label="Agent", elem_id="sg-run-agent", min_width=130
            )
            self.outcome = gr.Dropdown(
                _OUTCOMES,
                value="all",
                label="Outcome",
                min_width=120,
                elem_id="sg-run-outcome",
                filterable=False,
            )
            self.low = gr.Slider(0, 1, value=0, step=0.05, label="Reward from", min_width=140)
            self.high = gr.Slider(0, 1, value=1, step=0.05, label="Reward to", min_width=140)
        self.hits = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-run-hits")
        self.status = gr.HTML(elem_id="sg-run-status")
        with gr.Row(elem_classes="sg-stage"):
            with gr.Column(scale=5, min_width=320):
                self.facts = gr.HTML(empty("No run open", _HINT), elem_id="sg-run-facts")
            with gr.Column(scale=5, min_width=320):
                self.episodes = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-episodes")
        self.steps = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-run-steps")
        with gr.Row(elem_classes="sg-stage"):
            with gr.Column(scale=6, min_width=320):
                self.page = gr.HTML(elem_id="sg-run-page")
            with gr.Column(scale=5, min_width=320):
                self.read = gr.HTML(elem_id="sg-run-read")
        with gr.Accordion("Compare with another run, episode by episode", open=False):
            with gr.Row():
                self.other = gr.Dropdown(
                    [],
                    label="The other run",
                    allow_custom_value=True,
                    elem_id="sg-run-other",
                    scale=3,
                    min_width=240,
                )
                self.first = gr.Dropdown([], label="Agent of this run", min_width=130)
                self.second = gr.Dropdown([], label="Agent of the other", min_width=130)
                self.compare = button("Compare runs", "run-compare", 120, scale=None)
            self.pairs = gr.HTML(elem_id="sg-run-pairs")
        self.state = gr.State(None)

    def choices(self) -> Update:
        """List the runs there are, and tell the stories of the published ones."""
        self._folders = find_runs(ROOTS)
        names = [str(folder) for folder in self._folders]
        # A run is called by its name and that of the folder it lies in.
        choices = [("/".join(Path(name).parts[-2:]), name) for name in names]
        try:
            known = read_stories(ROOTS[-1])
            stories: Any = macros("runs").stories(known) if known else ""
        except UserError as error:
            stories = note(str(error), "warn")
        return {
            self.choice: gr.update(choices=choices),
            self.other: gr.update(choices=choices),
            self.stories: stories,
        }

    def search(self, words: str) -> Update:
        """List the runs that have all ``words``."""
        if not (words or "").strip():
            return {self.hits: ""}
        found = search_runs(self._folders, words)
        return {self.hits: macros("runs").hits(found, len(self._folders))}

    def pick(self, event: gr.EventData) -> Update:
        """Choose the run of a story or of a search."""
        return {self.choice: str(data_of(event).get("pick", ""))}

    @telling
    def open(self, folder: str | None) -> Update:
        """Open a run directory."""
        drawn = (
            self.status,
            self.facts,
            self.episodes,
            self.steps,
            self.page,
            self.read,
            self.pairs,
        )
        update: Update = {**dict.fromkeys(drawn, ""), self.state: None}
        if not folder:
            return {**update, self.facts: empty("No run open", _HINT)}
        try:
            run = read_run(bounds.require_inside(folder))
            agents = run.agents
            drawn_facts = join(render_run(run), render_rows(run.tables))
            listed = self._listed(Opened(run), _ALL, "all", 0.0, 1.0)
        except Exception as error:  # nothing of the run before must stand under this one's name
            return {**update, self.status: common.failed(error)}
        return {
            **update,
            self.state: Opened(run),
            self.facts: drawn_facts,
            self.episodes: listed,
            self.agent: gr.update(choices=[_ALL, *agents], value=_ALL),
            self.outcome: "all",
            self.low: 0,
            self.high: 1,
            self.first: gr.update(choices=agents, value=agents[0] if agents else None),
        }

    def _listed(self, opened: Opened, agent: str, outcome: Any, low: float, high: float) -> Any:
        rows = opened.run.episodes
        if not rows:
            return note("This run directory holds no episodes: only its summary was kept.", "info")
        wanted = None if agent == _ALL else agent
        return render_episodes(select(rows, wanted, outcome, low, high), len(rows), opened.episode)

    def filter(
        self, opened: Opened | None, agent: str, outcome: str, low: float, high: float
    ) -> Update:
        """Show the episodes that pass the filters."""
        if opened is None:
            return {self.status: ""}
        return {self.episodes: self._listed(opened, agent, outcome, low, high)}

    @telling
    def look(self, opened: Opened | None, event: gr.EventData) -> Update:
        """Open the replay of an episode, or look at another of its steps."""
        data = data_of(event)
        agent, _, goal = str(data.get("pick", "")).rpartition("|")
        if opened is None or not (goal or opened.episode):
            return {self.status: ""}
        chosen = (agent, int(goal)) if goal else opened.episode or ("", 0)
        steps = opened.run.steps(*chosen)
        step = str(data.get("look", "0"))
        at = int(step) if step.isdigit() else len(steps)
        rows = [r for r in opened.run.episodes if (r.get("agent"), r.get("goal")) == chosen]
        if not rows:
            raise UserError("this episode is not in the run")
        update = {self.state: Opened(opened.run, chosen), self.status: ""}
        update[self.steps] = render_steps(steps, at, rows[0])
        try:
            update[self.page] = self._page(opened.run, *chosen, steps, at)
        except Exception as error:  # the steps are there even where the world is not
            update[self.page] = note(common.problem_of(error), "info", "The page cannot be drawn:")
        try:
            update[self.read] = self._read(opened.run, *chosen, steps, at)
        except Exception as error:
            why = "What the model read cannot be built again:"
            update[self.read] = note(common.problem_of(error), "info", why)
        return update

    def _read(self, run: Run, agent: str, goal: int, steps: Any, at: int) -> Any:
        """Draw what the model read at a step: the run's agent is led there by its own actions."""
        if at >= len(steps):
            return ""
        config = load_config((run.args.get("agents") or {})[agent])
        # Nothing of a replay is written anywhere: the only memory is that of the last steps.
        kept = [params for params in config.memory if params.kind in ("short_term", "conversation")]
        config = config.model_copy(update={"memory": kept, "checkpoints": None})
        rows = [r for r in run.episodes if r.get("goal") == goal and r.get("task")]
        task = dict(rows[0]["task"]) if rows else {"goal": goal}
        session = Session(
            build_graph(config, InMemorySaver(), self._resources), "replay", task=task
        )
        for step in steps[:at]:
            session.act(str(step.get("action", "")))
        seen = session.look(act=False)
        view = session.agent.resources.view
        whole = in_words(view, view.chunks(seen.observation))
        title = f"What the model read at step {at + 1}: {config.context.kind}"
        box = render_context(seen.context, seen.budget, whole, title=title)
        recorded = steps[at].get("tokens")
        is_same = recorded is None or recorded == seen.context.tokens
        changed = f"built as today; the run recorded {recorded:,} tokens" if not is_same else ""
        line = note(changed, "warn") if changed else None
        return join(line, box, macros("parts").prompt(seen.context.text))

    def _page(self, run: Run, agent: str, goal: int, steps: Any, at: int) -> Any:
        env = registry().parse("env", (run.args.get("agents") or {})[agent]["env"])
        world = playable(self._resources.get(env))
        known = (run.args.get("data") or {}).get("sha256")
        here = world.fingerprint
        if known and here != known:
            raise UserError("the run's data is not the data that is here")
        actions = [str(step.get("action", "")) for step in steps]
        tasks = [r["task"] for r in run.episodes if r.get("goal") == goal and r.get("task")]
        moments = replay(world, tasks[0] if tasks else {"goal": goal}, actions)
        session, seen = moments[min(at, len(moments) - 1)]
        taken = actions[at] if at < len(actions) else None
        view = env.view()  # type: ignore[attr-defined]
        return render_page(
            view,
            seen,
            world.instruction(session),
            taken=taken,
            live=False,
            forms=taken_slot(taken or "", seen),
            address=address_of({"env": env.kind, "goal": goal}, min(at, len(actions)) + 1),
        )

    def other_agents(self, folder: str | None) -> Update:
        """List the agents of the other run."""
        try:
            agents = read_run(bounds.require_inside(folder)).agents if folder else []
        except UserError as error:
            return {self.pairs: common.failed(error)}
        return {self.second: gr.update(choices=agents, value=agents[0] if agents else None)}

    def compare_runs(
        self, opened: Opened | None, folder: str | None, first: str | None, second: str | None
    ) -> Update:
        """Compare two runs episode by episode."""
        try:
            if opened is None or not folder or not first or not second:
                raise UserError("open a run, choose another, and an agent of each")
            other = read_run(bounds.require_inside(folder))
            shared = pairs(opened.run, first, other, second)
        except UserError as error:
            return {self.pairs: common.failed(error)}
        names = (f"{opened.run.folder.name}: {first}", f"{other.folder.name}: {second}")
        return {self.pairs: render_pairs(shared, *names)}

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        everything = [
            self.status,
            self.facts,
            self.episodes,
            self.steps,
            self.page,
            self.state,
            self.pairs,
            self.agent,
            self.outcome,
            self.low,
            self.high,
            self.first,
            self.read,
        ]
        opened.select(self.choices, None, [self.choice, self.other, self.stories], **QUIET)
        self.words.change(
            self.search, [self.words], [self.hits], trigger_mode="always_last", **QUIET
        )
        self.stories.click(self.pick, None, [self.choice], **QUIET)
        self.hits.click(self.pick, None, [self.choice], **QUIET)
        self.choice.change(self.open, [self.choice], everything, **QUIET)
        filters = [self.state, self.agent, self.outcome, self.low, self.high]
        for box in (self.agent, self.outcome, self.low, self.high):
            box.input(self.filter, filters, [self.status, self.episodes], **QUIET)
        shown = [self.status, self.state, self.steps, self.page, self.read]
        self.episodes.click(self.look, [self.state], shown, **QUIET)
        self.steps.click(self.look, [self.state], shown, **QUIET)
        self.other.change(self.other_agents, [self.other], [self.second, self.pairs], **QUIET)
        chosen = [self.state, self.other, self.first, self.second]
        self.compare.click(self.compare_runs, chosen, [self.pairs], **QUIET)
