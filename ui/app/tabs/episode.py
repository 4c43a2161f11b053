"""The Episode tab, for any world: choose a task, step, run, go back, act, and see the context."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import gradio as gr

from stategate.envs.protocols import takes_text
from stategate.graph.config import Config
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.ui.actions import typed_action
from stategate.ui.app.render.html import note
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, Watch, button, data_of, telling
from stategate.ui.app.tabs.episode_view import Drawn, draw
from stategate.ui.app.tabs.state import StatePanel
from stategate.ui.app.tabs.tasks import TaskPicker
from stategate.ui.app.workspace import Workspace
from stategate.ui.downloads import needed, to_fetch

#: Seconds that Auto-run lets each step stand.
PACE = 0.5
_PAUSING = ("pausing after this step", "info")
#: The task that a tab opens with, so that there is something to see.
FIRST_TASK = 3
#: Kinds that the quick choice leaves out: they need a person, a script, or questions to answer.
_NOT_QUICK = ("human", "scripted", "slips")


def quick(slot: str, config: Config) -> dict[str, Any]:
    """Return the quick choice of a slot: what this world takes without more settings, and today's."""
    now = (config.context if slot == "context" else config.actor).kind
    kinds = {*registry().fitting(slot, config.env)}.difference(_NOT_QUICK) | {now}
    return {"choices": sorted(kinds), "value": now, "info": registry().hint(slot, now)}


class EpisodeTab(common.Tab):
    """The tab's components and what they do. Build it inside ``gr.Blocks``."""

    def __init__(self, app: App, pipeline: Any) -> None:
        self.app, self.pipeline = app, pipeline
        self.picker = TaskPicker(app)
        self.own = self.picker.own
        config = app.workspaces.config
        with gr.Row(elem_classes="sg-agentbar"):
            kinds = quick("context", config)
            self.context = common.radio("Context builder", "context-kind", 320, scale=4, **kinds)
            self.budget = common.budget("budget", config.context.budget)
            self.actor = common.radio("Actor", "actor-kind", 150, **quick("actor", config))
        with gr.Row(elem_classes="sg-controls"):
            off: dict[str, Any] = {"scale": None, "visible": False}
            self.step = button("Step", "step", 84, scale=None, variant="primary")
            self.run = button("Auto-run", "run", 96, scale=None)
            self.pause = button("Pause", "pause", 84, **off)
            self.stop = button("Stop", "stop", 84, variant="stop", **off)
            self.back = button("Back", "back", 84, scale=None)
            self.back_here = button("Back to this step", "back-here", 140, **off)
            self.fork_here = button("Fork here", "fork-here", 100, **off)
            bare: dict[str, Any] = {"show_label": False, "container": False, "scale": 4}
            hint = "act yourself: click on the page, or type an action"
            self.typed = common.box("your action", "typed", 200, placeholder=hint, **bare)
            self.act = button("Act", "act", 64, scale=None)
        self.status = gr.HTML(elem_id="sg-status")
        self.trail = common.drawn("trail")
        with gr.Row(elem_classes="sg-stage"):
            with common.beside(6):
                self.page = common.drawn("page")
            with common.beside():
                self.side = gr.HTML(elem_id="sg-side")
                label = "What is asked of this page"
                with gr.Accordion(label, elem_id="sg-asked") as self.asked_box:
                    self.asked = gr.HighlightedText(
                        container=False,
                        show_label=False,
                        show_legend=True,
                        show_inline_category=False,
                    )
        self.outputs = self.parts()
        self.state = StatePanel(app)
        self._wire()

    def show(self, workspace: Workspace, error: BaseException | None = None) -> Update:
        """Return the update that draws the tab as the workspace stands."""
        view, config = draw(workspace), workspace.config
        budget = config.context.budget
        problem = error or view.problem
        return {
            self.pipeline: view.pipeline,
            self.status: common.failed(problem) if problem is not None else "",
            self.trail: view.trail,
            self.page: view.page,
            self.side: view.side,
            self.asked: view.asked,
            self.asked_box: gr.update(visible=bool(view.asked)),
            self.typed: "" if error is None else gr.update(),
            self.context: gr.update(**quick("context", config)),
            self.budget: gr.update(value=budget, maximum=max(2000, budget)),
            self.actor: gr.update(**quick("actor", config)),
            self.own: gr.update(visible=self.picker.tasks_in(workspace).takes_instruction),
            **self._buttons(view, "busy" if view.busy else "idle"),
        }

    def _buttons(self, view: Drawn, mode: str) -> Update:
        """Return which buttons there are: ``mode`` is idle, busy (a step) or running (auto-run)."""
        is_idle = mode == "idle"
        is_open = is_idle and view.has_session and not view.over
        can_step = is_open and not view.by_hand
        return {
            self.step: gr.update(interactive=can_step),
            self.run: gr.update(visible=mode != "running", interactive=can_step),
            self.pause: gr.update(visible=mode == "running"),
            self.stop: gr.update(visible=not is_idle),
            self.back: gr.update(interactive=is_idle and view.steps > 0),
            self.back_here: gr.update(visible=is_idle and view.looks_back),
            self.fork_here: gr.update(visible=is_idle and view.looks_back),
            self.act: gr.update(interactive=is_open and not view.looks_back),
        }

    def _busy(self, workspace: Workspace, mode: str) -> Update:
        return self._buttons(Drawn(has_session=True, steps=len(workspace.trail)), mode)

    # What the buttons do.

    @telling
    def load(self, tab: str) -> Iterator[Update]:
        """Draw the tab for a page that was just opened or reloaded, perhaps in the middle of a step."""
        workspace = self.app.of(tab)
        workspace.pausing = True  # a run that the old page watched ends
        problem: BaseException | None = None
        tasks = self.picker.tasks_in(workspace).tasks if workspace.is_new else ()
        try:
            with suppress(UserError):  # a world that must be asked: one starts by hand
                if tasks:
                    workspace.start(tasks[min(FIRST_TASK, len(tasks) - 1)])
                    if workspace.acts_at_once:
                        workspace.step()  # one step in, memories have something to choose from
        except Exception as raised:
            problem = raised
        since = time.monotonic()
        update = self.show(workspace, problem)
        while update[self.stop].get("visible"):  # in the middle of a move
            yield {**update, self.status: common.working("a step is being taken", since)}
            time.sleep(common.BEAT)
            update = self.show(workspace)
        yield update

    def move(
        self, tab: str, what: Callable[[Workspace], Any], label: str, is_run: bool = False
    ) -> Iterator[Update]:
        """Make a move of the workspace under watch; an error becomes a message.

        A run (``is_run``) makes it again until the end, a pause, or an error. Who left a move has drawn
        the tab since: then nothing changes.
        """
        workspace = self.app.of(tab)
        is_left = common.leaving(workspace)
        busy = partial(self._busy, workspace, "running" if is_run else "busy")
        error: BaseException | None = None
        try:
            while not (is_run and (workspace.running.done or workspace.pausing)):
                for message in Watch(lambda: what(workspace), label, is_left):
                    is_last = is_run and workspace.pausing
                    yield {self.status: note(*_PAUSING) if is_last else message, **busy()}
                if not is_run or is_left():
                    break
                yield {**self.show(workspace), **busy()}
                time.sleep(PACE)
        except Exception as raised:  # whatever a node raises must not end the page
            error = raised
        if not is_left():
            yield self.show(workspace, error)
        yield common.nothing(self)

    def take_step(self, tab: str, is_run: bool = False) -> Iterator[Update]:
        """Let the actor take a step, or steps."""
        config = self.app.of(tab).config
        fetched = to_fetch(needed(config))
        first = f" (first it fetches {fetched})" if fetched else ""
        label = f"{config.actor.kind} is choosing …{first}"
        yield from self.move(tab, lambda w: w.step(), label, is_run)

    def auto_run(self, tab: str) -> Iterator[Update]:
        """Take steps until the end, a pause, or an error."""
        self.app.of(tab).pausing = False
        yield from self.take_step(tab, is_run=True)

    def ask_to_pause(self, tab: str) -> Update:
        """Let the run end after the step that is being taken."""
        self.app.of(tab).pausing = True
        return {self.status: note(*_PAUSING)}

    def halt(self, tab: str) -> Update:
        """Leave the step that is being taken, and the run."""
        workspace = self.app.of(tab)
        workspace.pausing = True
        workspace.abandon()
        return self.show(workspace)

    def by_hand(self, tab: str, typed: str) -> Iterator[Update]:
        """Take a person's own action."""

        def act(workspace: Workspace) -> Any:
            page = workspace.running.observation
            return workspace.act(typed_action(typed or "", page, workspace.view.actions))

        yield from self.move(tab, act, "acting …")

    def clicked(self, tab: str, event: gr.EventData) -> Iterator[Update]:
        """Take the action of the element that was clicked on the page."""
        action = str(data_of(event).get("action", ""))
        if action and not takes_text(action):
            yield from self.move(tab, lambda w: w.act(action), "acting …")

    def look(self, tab: str, event: gr.EventData) -> Update:
        """Show an earlier step, or now."""
        workspace = self.app.of(tab)
        at = str(data_of(event).get("look", "now"))
        known = at.isdigit() and int(at) < len(workspace.trail)
        workspace.looked_at = int(at) if known else None
        return self.show(workspace)

    def swap(self, tab: str, kind: str, budget: float, actor: str) -> Iterator[Update]:
        """Go on with the context builder, budget and actor that the bar says."""

        def change(workspace: Workspace) -> None:
            context, acting = workspace.config.context, workspace.config.actor
            same = kind == context.kind
            values = context.model_dump(mode="json") if same else {"kind": kind}
            slots: dict[str, Any] = {"context": {**values, "budget": int(budget)}}
            if actor != acting.kind:
                slots["actor"] = {"kind": actor}
            workspace.swap(slots)

        yield from self.move(tab, change, "swapping …")
        config = self.app.of(tab).config
        if fetched := to_fetch(needed(config)):
            yield {self.status: note(f"The next step first fetches {fetched}, once.", "info")}
            yield common.nothing(self)

    def _wire(self) -> None:
        tab, outputs = self.app.tab, self.outputs
        how = {"outputs": outputs, **QUIET}

        def moving(what: Callable[[Workspace], Any], label: str) -> Callable[[str], Any]:
            def moved(tab: str) -> Iterator[Update]:
                yield from self.move(tab, what, label)

            return moved

        def begin(tab: str, task: dict[str, Any]) -> Iterator[Update]:
            yield from self.move(tab, lambda w: w.start(task), "opening the world …")

        def back_here(workspace: Workspace) -> None:
            workspace.back(len(workspace.trail) - (workspace.looked_at or 0))

        back = "going back …"
        self.back.click(moving(lambda w: w.back(), back), [tab], **how)
        self.back_here.click(moving(back_here, back), [tab], **how)
        fork_here = moving(lambda w: w.fork(step=w.looked_at), "forking …")
        self.fork_here.click(fork_here, [tab], **how)
        self.step.click(self.take_step, [tab], **how)
        self.run.click(self.auto_run, [tab], **how)
        self.pause.click(self.ask_to_pause, [tab], **how)
        self.stop.click(self.halt, [tab], **how)
        for acts in (self.act.click, self.typed.submit):
            acts(self.by_hand, [tab, self.typed], **how)
        for clicks in (self.page.click, self.page.submit):
            clicks(self.clicked, [tab], **how)
        self.trail.click(self.look, [tab], **how)
        bar = [tab, self.context, self.budget, self.actor]
        for swaps in (self.context.input, self.actor.input):
            swaps(self.swap, bar, **how)
        self.budget.input(self.swap, bar, trigger_mode="always_last", **how)
        self.picker.wire(begin, outputs)
        self.state.wire(self.trail)
