"""Fork and compare: the same moment through two to four context builders; go on with any of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from nodes.registry import registry
from stores.errors import UserError
from ui.app.render.context import Lane, in_words, render_lanes
from ui.app.render.episode import render_trail
from ui.app.render.html import empty
from ui.app.render.page import title_of
from ui.app.tabs import common
from ui.app.tabs.common import EVENTS_JS, QUIET, App, Update, Watch, button, data_of, telling
from ui.app.tabs.episode_view import stops_of
from ui.app.workspace import Workspace

#: How many builders fit side by side, and at least make a comparison.
MOST, LEAST = 4, 2
#: What is compared at first.
FIRST = ("full", "query_rag", "compress")


class CompareTab:
    """The tab's components and what they do."""

    def __init__(self, app: App) -> None:
        self.app = app
        config = app.workspaces.config
        kinds = sorted(registry().kinds("context"))
        with gr.Row(elem_classes="sg-agentbar"):
            self.kinds = gr.Dropdown(
                kinds, value=[kind for kind in FIRST if kind in kinds], multiselect=True,
                max_choices=MOST, allow_custom_value=True, scale=3, min_width=260,
                label="Context builders to compare (kind, or kind@budget such as compress@120)",
                elem_id="sg-compare-kinds",
            )  # fmt: skip
            self.budget = gr.Slider(
                20, 2000, value=config.context.budget, step=10, label="Budget (tokens)",
                elem_id="sg-compare-budget", min_width=220, scale=2,
            )  # fmt: skip
        with gr.Row(elem_classes="sg-controls"):
            self.go = button("Compare", "compare", 110, variant="primary")
            self.stop = button("Stop", "compare-stop", 84, variant="stop", visible=False)
            self.trail = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-moments")
        self.status = gr.HTML(elem_id="sg-compare-status")
        self.lanes = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-lanes")

    @property
    def outputs(self) -> list[Any]:
        """What a comparison may change."""
        return [self.go, self.stop, self.trail, self.status, self.lanes]

    @telling
    def show(self, tab: str) -> Update:
        """Draw the moments to choose from, and the last comparison."""
        workspace = self.app.of(tab)
        return {
            self.trail: self._moments(workspace),
            self.lanes: self._drawn(workspace),
            self.status: "",
            **self._buttons(False),
        }

    def _buttons(self, is_busy: bool) -> Update:
        return {self.go: gr.update(interactive=not is_busy), self.stop: gr.update(visible=is_busy)}

    def _moments(self, workspace: Workspace) -> Any:
        if workspace.session is None:
            return ""
        return render_trail(stops_of(workspace), workspace.moment, workspace.session.done)

    def _drawn(self, workspace: Workspace) -> Any:
        lanes = workspace.lanes
        if not lanes:
            hint = "Choose two to four context builders and a moment of the episode, then Compare."
            return empty("The same moment, another memory", hint)
        page, view = workspace.compared_page, workspace.view
        chunks = view.chunks(page) if page is not None else ()
        titles = {a: title_of(view, c) for c in chunks if c.role == "entry" for a in c.actions}
        about = {action: title for action, title in titles.items() if title}
        return render_lanes(lanes, in_words(view, chunks), about, workspace.compared_label)

    def choose(self, tab: str, event: gr.EventData) -> Update:
        """Choose the moment to compare at; what was compared at another goes."""
        workspace = self.app.of(tab)
        at = str(data_of(event).get("look", "now"))
        workspace.compared_at = int(at) if at.isdigit() else None
        workspace.lanes, workspace.compared_page = [], None
        return {self.trail: self._moments(workspace), self.lanes: self._drawn(workspace)}

    def rest(self, error: BaseException) -> Update:
        """Return what else an error changes: one can compare again."""
        return self._buttons(False)

    @telling
    def compare(self, tab: str, kinds: list[str], budget: float) -> Iterator[Update]:
        """Build each context and ask the actor, one builder after the other, drawing as they come."""
        workspace = self.app.of(tab)
        lanes = [self._lane(workspace, name, int(budget)) for name in kinds or ()]
        if not LEAST <= len(lanes) <= MOST:
            raise UserError(f"choose {LEAST} to {MOST} context builders")
        step = self._moment(workspace)
        workspace.lanes = lanes
        is_left = common.leaving(workspace)
        for number, lane in enumerate(lanes):
            workspace.lanes[number] = replace(lane, waiting=True)
            try:
                watch = Watch(partial(workspace.look, lane.params, step), f"{lane.name} …", is_left)
                for message in watch:
                    yield {self.status: message, self.lanes: self._drawn(workspace),
                           **self._buttons(True)}  # fmt: skip
                if is_left():
                    break
                seen = watch.result
                workspace.compared_page = seen.observation
                workspace.lanes[number] = replace(
                    lane, context=seen.context, decision=seen.decision, budget=seen.budget,
                    build_seconds=seen.build_seconds, act_seconds=seen.act_seconds,
                )  # fmt: skip
            except Exception as error:  # one builder that fails must not hide the others
                workspace.lanes[number] = replace(lane, problem=common.problem_of(error))
            yield {self.lanes: self._drawn(workspace), self.status: "", **self._buttons(True)}
        yield self.show(tab)

    def _moment(self, workspace: Workspace) -> int | None:
        at = workspace.moment
        if at is not None:
            workspace.compared_label = f"Step {at + 1}, before it was taken"
            return at
        if not workspace.running.done:
            workspace.compared_label = f"Now: step {len(workspace.trail) + 1}"
            return None
        if not workspace.trail:
            raise UserError("this episode has no moment to compare: start one")
        workspace.compared_at = last = len(workspace.trail) - 1  # the episode is over
        workspace.compared_label = f"Step {last + 1}, the last"
        return last

    def _lane(self, workspace: Workspace, name: str, budget: int) -> Lane:
        kind, at, own = name.strip().partition("@")
        if at:
            if not own.strip().isdigit() or int(own) < 1:
                raise UserError(f"write {kind}@TOKENS, such as {kind}@150, not '{name}'")
            budget = int(own)
        context = workspace.config.context
        base = context.model_dump(mode="json") if kind == context.kind else {"kind": kind}
        registry().parse("context", {**base, "budget": budget})  # an unknown kind is told at once
        return Lane(name=name, kind=kind, budget=budget, params={**base, "budget": budget})

    def halt(self, tab: str) -> Update:
        """Leave the comparison; what came is kept."""
        workspace = self.app.of(tab)
        workspace.abandon()
        workspace.lanes = [
            replace(lane, waiting=False, problem="stopped") if lane.waiting else lane
            for lane in workspace.lanes
        ]
        return self.show(tab)

    def wire(
        self, opened: Any, shown: Callable[[Workspace], Mapping[Any, Any]], places: list[Any]
    ) -> None:
        """Connect: ``opened`` is the tab; going on with a builder draws ``places`` by ``shown``."""
        tab = self.app.tab

        def go_on(tab: str, event: gr.EventData) -> Update:
            workspace = self.app.of(tab)
            number = str(data_of(event).get("continue", ""))
            try:
                if not number.isdigit() or int(number) >= len(workspace.lanes):
                    raise UserError("compare first, then choose one to continue with")
                context = dict(workspace.lanes[int(number)].params)
                workspace.fork({"context": context}, workspace.moment)
            except Exception as error:
                return {self.status: common.failed(error)}
            workspace.compared_at = None
            return {**shown(workspace), **self.show(tab)}

        opened.select(self.show, [tab], self.outputs, **QUIET)
        self.app.tab.change(self.show, [tab], self.outputs, **QUIET)
        chosen = self.trail.click(self.choose, [tab], [self.trail, self.lanes], **QUIET)
        for asked in (chosen.then, self.go.click):  # a moment is compared as it is chosen
            asked(self.compare, [tab, self.kinds, self.budget], self.outputs, **QUIET)
        self.stop.click(self.halt, [tab], self.outputs, **QUIET)
        self.lanes.click(go_on, [tab], [*places, *self.outputs], **QUIET)
