"""The Episode tab, for any world: choose a task, step, run, go back, act, and see the context."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from stategate.envs.protocols import World, takes_text
from stategate.evals.worlds import task_at
from stategate.graph.config import Config
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.ui.app.html import render, short
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, Updates, on_event, on_events
from stategate.ui.app.tabs.episode_view import draw, foreseen, render_pipeline
from stategate.ui.app.workspace import Workspace

#: Seconds that Auto-run lets each step stand.
PACE = 0.5
#: Tasks that the list names at most, and seconds for which it draws their instructions.
LISTED, PATIENCE = 100, 2.0
#: Kinds that the quick choice leaves out: they need a person, a script, or another actor.
_NOT_QUICK = ("human", "scripted", "noisy")
#: Kinds that the quick choice shows at once; the others stand behind the last choice.
_FIRST = {
    "context": ["full", "window", "retrieve", "compress"],
    "actor": ["rule", "search_heuristic", "policy", "chat"],
}
MORE = "more …"


def quick(slot: str, config: Config, *, is_whole: bool = False) -> dict[str, Any]:
    """Return the quick choice of a slot: what this world takes, and today's."""
    params = config.context if slot == "context" else config.actor
    now = params.kind
    kinds = set(registry().fitting(slot, config.env)).difference(_NOT_QUICK) | {now}
    first = [kind for kind in _FIRST[slot] if kind in kinds]
    others = sorted(kinds.difference(first))
    if first and not is_whole:
        others = [*(kind for kind in others if kind == now), MORE]
    return {"choices": first + others, "value": now, "info": params.hint()}


def task_choices(world: World) -> list[tuple[str, int]]:
    """Return the first tasks of a world as choices: (number and instruction, number)."""
    try:
        tasks = world.tasks()
    except UserError:  # a world without its data: opening it says so
        return []
    choices, until = [], time.monotonic() + PATIENCE
    for number, task in enumerate(tasks[:LISTED]):
        if time.monotonic() > until:
            break
        session, _ = world.reset(task)
        choices.append((f"#{number} {short(world.instruction(session), 200)}", number))
    return choices


def task_of(chosen: int | str, tasks: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """Return the task that is meant by a number, ``#7``, ``#7 in other words``, or own words alone."""
    entry = str(chosen).strip()
    text, _, words = entry.removeprefix("#").partition(" ")
    if not text.isdigit() or (words and not entry.startswith("#")):
        return {"instruction": entry}
    return {**task_at(tasks, int(text)), **({"say": words} if words.strip() else {})}


class EpisodeTab(common.PlayingTab):
    """The tab's components and what they do. Build it inside ``gr.Blocks``."""

    def __init__(self, app: App, pipeline: gr.HTML) -> None:
        self.app, self.pipeline = app, pipeline
        config = app.agents.episodes
        with gr.Row(elem_classes="sg-picker"):
            worlds = [kind for kind in sorted(registry().slots["env"]) if kind != "qa"]
            self.world = common.choice("World", "world", 130, choices=worlds, scale=1)
            label = (
                "Task: choose one, give its number, write #3 and other words for it, or your own"
            )
            self.task = common.choice(label, "task", 320, allow_custom_value=True, scale=5)
        with gr.Row(elem_classes="sg-agentbar"):
            kinds = quick("context", config)
            self.context = common.radio("Context builder", "context-kind", 320, scale=4, **kinds)
            self.budget = common.budget("budget", config.context.budget)
            self.actor = common.radio("Actor", "actor-kind", 150, **quick("actor", config))
        with gr.Row(elem_classes="sg-controls"):
            self.step = common.button("Step", "step", 84, scale=None, variant="primary")
            self.run = common.button("Auto-run", "run", 96, scale=None)
            self.stop = common.button("Stop", "stop", 84, variant="stop", visible=False)
            self.back = common.button("Back", "back", 84, scale=None)
        self.status = common.status_line("status")
        self.trail = common.clickable_html("trail")
        with gr.Row(elem_classes="sg-stage"):
            with gr.Column(scale=6):
                self.page = common.clickable_html("page")
            with gr.Column(scale=5):
                self.side = gr.HTML(elem_id="sg-side")
        self.outputs = self.parts()
        title = "The state over this episode"
        with gr.Accordion(title, open=False, elem_id="sg-state", visible=False) as self.state:
            label = "Foreseen next action in %; above, the step and what was done"
            self.foresight = common.frame("foresight", label, ["step"])
        tab, outputs = app.tab, self.outputs
        how = {"outputs": outputs, **common.shown_on(self.status)}
        self.world.input(self.enter, [tab, self.world], **how)
        self.task.input(self.begin, [tab, self.task], **how)
        self.back.click(self.back_up, [tab], **how)
        self.step.click(self.take_step, [tab], **how)
        self.run.click(self.auto_run, [tab], **how)
        self.stop.click(self.halt, [tab], outputs, **QUIET)
        gr.on([self.page.click, self.page.submit], self.clicked, [tab], **how)
        self.trail.click(self.look, [tab], outputs, **QUIET)
        bar = [tab, self.context, self.budget, self.actor]
        gr.on([self.context.input, self.actor.input], self.swap, bar, **how)
        self.budget.change(self.swap, bar, trigger_mode="always_last", **how)
        shown = [self.state, self.foresight, self.status]
        self.trail.change(self.show_state, [tab], shown, **QUIET)

    def show(self, workspace: Workspace) -> Update:
        """Return the update that draws the tab as the workspace stands."""
        (page, side), config, session = draw(workspace), workspace.config, workspace.session
        limit, is_over = config.context.budget, session is None or session.done
        can_step = not is_over and config.actor.kind != "human"
        resources, world = workspace.agent.resources, ("choices", config.env.model_dump_json())
        tasks = resources.once(world, lambda: task_choices(workspace.world))
        return {
            self.pipeline: render_pipeline(workspace.shown),
            self.status: "",
            self.trail: render("episode.trail", workspace.trail, workspace.looked_at, is_over),
            self.page: page,
            self.side: side,
            self.world: config.env.kind,
            self.task: gr.update(choices=tasks, value=workspace.instruction),
            self.context: gr.update(**quick("context", config)),
            self.budget: gr.update(value=limit, maximum=max(2000, limit)),
            self.actor: gr.update(**quick("actor", config)),
            self.step: gr.update(interactive=can_step),
            self.run: gr.update(interactive=can_step),
            self.stop: gr.update(visible=False, interactive=True),
            self.back: gr.update(interactive=bool(workspace.trail)),
        }

    @on_event
    def show_state(self, workspace: Workspace) -> Update:
        """Draw what the state foresaw, beside the message that stands."""
        table = foreseen(workspace)
        drawer = gr.update(visible=table is not None)
        return {self.state: drawer, self.foresight: table, self.status: gr.skip()}

    def idle(self, *values: object) -> Update:
        """Return the tab as it stands after an error."""
        return self.show(self.app.of(str(values[0])))

    # What the buttons do.

    @on_event
    def load(self, workspace: Workspace) -> Update:
        """Draw the tab for a page that was just opened or reloaded, perhaps in the middle of a step."""
        workspace.open_first()
        workspace.is_asking = False  # a page opens with its episode
        return self.show(workspace)

    @on_event
    def back_up(self, workspace: Workspace) -> Update:
        """Undo a step."""
        workspace.back()
        return self.show(workspace)

    @on_event
    def take_step(self, workspace: Workspace) -> Update:
        """Let the actor take a step."""
        workspace.step()
        return self.show(workspace)

    @on_events
    def auto_run(self, workspace: Workspace) -> Updates:
        """Take steps until the end, a stop, an error, or another episode in the place of this one."""
        workspace.is_stopping, session = False, workspace.running
        off = gr.update(interactive=False)
        running: Update = {self.step: off, self.run: off, self.back: off}
        running[self.stop] = gr.update(visible=True)
        yield running
        while not (session.done or workspace.is_stopping):
            with workspace.turn:
                if workspace.session is not session:
                    break
                workspace.step()
            yield {**self.show(workspace), **running}
            time.sleep(PACE)
        yield self.show(workspace)

    @on_event
    def clicked(self, workspace: Workspace, event: gr.EventData) -> Update:
        """Take the action of the element that was clicked on the page."""
        action = common.chosen(event, "action")
        if not action or takes_text(action):
            return {}
        workspace.step(action)
        return self.show(workspace)

    @on_event
    def look(self, workspace: Workspace, event: gr.EventData) -> Update:
        """Show an earlier step, or now."""
        workspace.looked_at = common.number_of(event, "look", len(workspace.trail))
        return self.show(workspace)

    @on_event
    def enter(self, workspace: Workspace, world: str) -> Update:
        """Take another world, with the agent that it begins with, and begin a task there."""
        own = self.app.agents.of_world(world)
        workspace.configure(own.model_copy(update={"llm": workspace.config.llm}))
        return self.show(workspace)

    @on_event
    def swap(self, workspace: Workspace, kind: str, budget: float, actor: str) -> Update:
        """Go on with the context builder, budget and actor that the bar says, or show more of them."""
        if MORE in (kind, actor):
            slot, box = ("context", self.context) if kind == MORE else ("actor", self.actor)
            more = gr.update(**quick(slot, workspace.config, is_whole=True))
            return {**self.show(workspace), box: more}
        context = workspace.config.context
        values = context.model_dump(mode="json") if kind == context.kind else {"kind": kind}
        slots: dict[str, Any] = {"context": {**values, "budget": max(int(budget), 1)}}
        if actor != workspace.config.actor.kind:
            slots["actor"] = {"kind": actor}
        workspace.swap(slots)
        return {**self.show(workspace), self.budget: gr.skip()}  # one may be typing

    @on_event
    def begin(self, workspace: Workspace, chosen: int | str | None) -> Update:
        """Begin the task that was chosen or written; a list that one leaves tells its value again."""
        if chosen is None or chosen in ("", workspace.instruction):
            return {self.task: workspace.instruction, self.status: gr.skip()}
        workspace.start(task_of(chosen, workspace.world.tasks()))
        return self.show(workspace)
