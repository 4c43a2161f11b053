"""Compare: the same moment through two to four context builders; play all on, or go on with one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.ui.app.render.compare import Lane, render_hints, render_lanes
from stategate.ui.app.render.context import in_words
from stategate.ui.app.render.episode import render_trail
from stategate.ui.app.render.html import empty, macros
from stategate.ui.app.render.page import title_of
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import (
    EVENTS_JS,
    QUIET,
    App,
    Update,
    Watch,
    button,
    data_of,
    telling,
)
from stategate.ui.app.tabs.episode_view import stops_of
from stategate.ui.app.workspace import Workspace
from stategate.ui.downloads import needed, to_fetch

#: How many builders fit side by side, and at least make a comparison.
MOST, LEAST = 4, 2
#: What is compared at first.
FIRST = ("full", "query_rag", "compress")
#: Seconds that a comparison waits for the one that it replaces to leave what it looks at.
PATIENCE = 20.0
_HINT = "Choose two to four context builders and a moment of the episode, then Compare."


class CompareTab:
    """The tab's components and what they do."""

    def __init__(self, app: App) -> None:
        self.app = app
        config = app.workspaces.config
        kinds = registry().fitting("context", config.env)
        with gr.Row(elem_classes="sg-agentbar"):
            self.kinds = gr.Dropdown(
                kinds,
                value=[kind for kind in FIRST if kind in kinds],
                multiselect=True,
                max_choices=MOST,
                allow_custom_value=True,
                scale=3,
                min_width=260,
                label="Context builders to compare (kind, or kind@budget such as compress@120)",
                elem_id="sg-compare-kinds",
            )
            self.budget = gr.Slider(
                20,
                2000,
                value=config.context.budget,
                step=10,
                label="Budget (tokens)",
                elem_id="sg-compare-budget",
                min_width=220,
                scale=2,
            )
        gr.HTML(render_hints(config.env), elem_id="sg-hints")
        with gr.Row(elem_classes="sg-controls"):
            self.go = button("Compare", "compare", 110, variant="primary")
            self.play = button("Play all to the end", "play-all", 160)
            self.stop = button("Stop", "compare-stop", 84, variant="stop", visible=False)
            self.trail = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-moments")
        self.status = gr.HTML(elem_id="sg-compare-status")
        self.lanes = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-lanes")
        self.branches = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-branches")

    @property
    def outputs(self) -> list[Any]:
        """What a comparison may change."""
        return [self.stop, self.trail, self.status, self.lanes, self.branches]

    @telling
    def show(self, tab: str) -> Update:
        """Draw the moments to choose from, and the last comparison."""
        workspace = self.app.of(tab)
        if workspace.lanes and workspace.compared_of != workspace.stands_at:
            workspace.forget_comparison()  # the episode has gone on since
        return {
            self.trail: self._moments(workspace),
            self.lanes: self._drawn(workspace),
            self.branches: self._kept(workspace),
            self.status: "",
            **self._buttons(False),
        }

    @telling
    def begin(self, tab: str, kinds: list[str], budget: float) -> Iterator[Update]:
        """Draw the tab for a page that was just opened; what can be compared at once is."""
        workspace = self.app.of(tab)
        yield self.show(tab)
        # A page that opens asks twice: as it is drawn, and as its first tab is chosen.
        if workspace.trail and workspace.acts_at_once and workspace.claims_comparison():
            yield from self.compare(tab, kinds, budget)

    def _buttons(self, is_busy: bool) -> Update:
        # The others stay as they are: a button that is drawn anew swallows a click, and a comparison
        # that is asked for meanwhile takes the running one's place.
        return {self.stop: gr.update(visible=is_busy)}

    def _moments(self, workspace: Workspace) -> Any:
        if workspace.session is None:
            return ""
        return render_trail(stops_of(workspace), workspace.moment, workspace.session.done)

    def _kept(self, workspace: Workspace) -> Any:
        here, branches = workspace.stands_at, [*workspace.branches.values()][::-1]
        return macros("compare").branches(branches, here[0] if here else "") if branches else ""

    def _drawn(self, workspace: Workspace) -> Any:
        lanes = workspace.lanes
        if not lanes:
            return empty("The same moment, another memory", _HINT)
        page, view = workspace.compared_page, workspace.view
        chunks = view.chunks(page) if page is not None else ()
        titles = {a: title_of(c) for c in chunks if c.role == "entry" for a in c.actions}
        about = {action: title for action, title in titles.items() if title}
        task = ""
        if workspace.session is not None:
            task = workspace.world.instruction(workspace.running.values["session"])
        return render_lanes(lanes, in_words(view, chunks), about, workspace.compared_label, task)

    def choose(self, tab: str, event: gr.EventData) -> Update:
        """Choose the moment to compare at; what was compared at another goes."""
        workspace = self.app.of(tab)
        at = str(data_of(event).get("look", "now"))
        workspace.forget_comparison()
        workspace.compared_at = int(at) if at.isdigit() else None
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
        workspace.lanes, workspace.compared_page = lanes, None
        workspace.compared_of = workspace.stands_at
        yield {self.trail: self._moments(workspace), **self._buttons(True)}

        def look(lane: Lane) -> Callable[[], Lane]:
            def looked() -> Lane:
                seen = workspace.look(lane.params, step, PATIENCE)
                workspace.compared_page = seen.observation
                return replace(
                    lane,
                    context=seen.context,
                    decision=seen.decision,
                    budget=seen.budget,
                    build_seconds=seen.build_seconds,
                    act_seconds=seen.act_seconds,
                    problem="",
                )

            return looked

        yield from self._each(tab, workspace, look)

    @telling
    def play_all(self, tab: str, kinds: list[str], budget: float) -> Iterator[Update]:
        """Play a copy of the moment to its end with each builder; rewards stand side by side."""
        workspace = self.app.of(tab)
        wanted = [self._lane(workspace, name, int(budget)).params for name in kinds or ()]
        is_old = workspace.compared_of != workspace.stands_at
        if is_old or [lane.params for lane in workspace.lanes] != wanted:
            yield from self.compare(tab, kinds, budget)
        if not workspace.lanes or any(lane.context is None for lane in workspace.lanes):
            return  # it was left
        step = self._moment(workspace)

        def play(lane: Lane) -> Callable[[], Lane]:
            return lambda: replace(
                lane, ending=workspace.play_out(lane.params, step), waiting=False, problem=""
            )

        yield from self._each(tab, workspace, play, "plays on")

    def _each(
        self,
        tab: str,
        workspace: Workspace,
        move: Callable[[Lane], Callable[[], Lane]],
        doing: str = "",
    ) -> Iterator[Update]:
        """Make a long move for each lane in its turn, drawing as they come; a fault stays its own.

        Where another comparison takes this one's place, or somebody stops it, it draws nothing more.
        """
        lanes, is_stopped = workspace.lanes, common.leaving(workspace)

        def is_left() -> bool:
            return is_stopped() or workspace.lanes is not lanes

        for number, lane in enumerate(lanes):
            lanes[number] = replace(lane, waiting=True)
            label = f"{lane.name} {doing} …".replace("  ", " ")
            context = registry().parse("context", dict(lane.params))
            if fetched := to_fetch(needed(workspace.config, context)):
                label = f"{label} (first it fetches {fetched})"
            try:
                watch = Watch(move(lane), label, is_left)
                for message in watch:
                    yield {
                        self.status: message,
                        self.lanes: self._drawn(workspace),
                        **self._buttons(True),
                    }
                if is_left():
                    break
                lanes[number] = watch.result
            except Exception as error:  # one builder that fails must not hide the others
                lanes[number] = replace(lane, waiting=False, problem=common.problem_of(error))
            yield {self.lanes: self._drawn(workspace), self.status: "", **self._buttons(True)}
        if not is_left():
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
        workspace.compared_of = workspace.stands_at
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

        def moved(tab: str, move: Callable[[Workspace], None]) -> Update:
            workspace = self.app.of(tab)
            try:
                move(workspace)
            except Exception as error:
                return {self.status: common.failed(error)}
            workspace.compared_at = None
            return {**shown(workspace), **self.show(tab)}

        def go_on(tab: str, event: gr.EventData) -> Update:
            def fork(workspace: Workspace) -> None:
                number = str(data_of(event).get("continue", ""))
                if not number.isdigit() or int(number) >= len(workspace.lanes):
                    raise UserError("compare first, then choose one to continue with")
                context = dict(workspace.lanes[int(number)].params)
                workspace.fork({"context": context}, workspace.moment)

            return moved(tab, fork)

        def go_back(tab: str, event: gr.EventData) -> Update:
            thread = str(data_of(event).get("pick", ""))
            back = moved(tab, lambda workspace: workspace.go_to(thread))
            if places[-1] in back:
                del back[places[-1]]  # one stays on this tab
            return back

        asked = [tab, self.kinds, self.budget]
        opened.select(self.begin, asked, self.outputs, **QUIET)
        chosen = self.trail.click(self.choose, [tab], [self.trail, self.lanes], **QUIET)
        for begin in (chosen.then, self.go.click):  # a moment is compared as it is chosen
            begin(self.compare, asked, self.outputs, **QUIET)
        self.play.click(self.play_all, asked, self.outputs, **QUIET)
        self.stop.click(self.halt, [tab], self.outputs, **QUIET)
        self.lanes.click(go_on, [tab], [*places, *self.outputs], **QUIET)
        went = self.branches.click(go_back, [tab], [*places, *self.outputs], **QUIET)
        went.then(self.begin, asked, self.outputs, **QUIET)
