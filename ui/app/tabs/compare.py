"""Compare: the same moment through two to four context builders; play all on, or go on with one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gradio as gr
from markupsafe import Markup

from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.ui.actions import titles_of, who_plays
from stategate.ui.app.context import in_words, render_lanes
from stategate.ui.app.html import render
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, Updates, on_event, on_events
from stategate.ui.app.tabs.episode import EpisodeTab
from stategate.ui.app.tabs.episode_view import reading_of
from stategate.ui.app.workspace import Lane, Workspace

#: How many builders fit side by side, and at least make a comparison.
MOST, LEAST = 4, 2
#: What is compared at first; True is for worlds whose pages hide what was seen before.
FIRST = {False: ["full", "query_rag", "compress"], True: ["full", "window", "compress"]}
_HINT = "Choose two to four context builders and a moment of the episode, then Compare."


class CompareTab(common.PlayingTab):
    """The tab's components and what they do."""

    def __init__(self, app: App) -> None:
        self.app = app
        config = app.agents.episodes
        kinds = registry().fitting("context", config.env)
        with gr.Row(elem_classes="sg-agentbar"):
            self.kinds = common.choice(
                "Context builders to compare (kind, or kind@budget such as compress@120)",
                "compare-kinds",
                260,
                choices=kinds,
                value=FIRST[config.env.partially_observed],
                multiselect=True,
                max_choices=MOST,
                allow_custom_value=True,
                scale=3,
            )
            self.budget = common.budget("compare-budget", config.context.budget)
        with gr.Row(elem_classes="sg-controls"):
            self.go = common.button("Compare", "compare", 110, variant="primary")
            self.play = common.button("Play all to the end", "play-all", 160)
            self.stop = common.button("Stop", "compare-stop", 84, variant="stop", visible=False)
            self.trail = common.clickable_html("moments")
        self.status = common.status_line("compare-status")
        self.lanes = common.clickable_html("lanes")
        self.outputs = self.parts()

    def show(self, workspace: Workspace) -> Update:
        """Draw the moments to choose from, and the last comparison."""
        return {
            self.trail: self._moments(workspace),
            self.lanes: self._lanes_html(workspace),
            self.status: "",
            **self.idle(),
        }

    @on_events
    def begin(self, workspace: Workspace, kinds: list[str], budget: float) -> Updates:
        """Draw the tab for a page that was just opened; what can be compared at once is."""
        env = workspace.config.env
        now = (env.kind, workspace.config.context.budget)
        world, limit = workspace.boxes
        boxes: Update = {}
        if world != env.kind:
            kinds = FIRST[env.partially_observed]
            fitting = registry().fitting("context", env)
            boxes[self.kinds] = gr.update(choices=fitting, value=kinds)
        if (world, limit) != now:
            boxes[self.budget] = budget = now[1]
        workspace.boxes = now
        yield {**self.show(workspace), **boxes}
        # What was compared stays as it is when the tab is chosen again.
        if workspace.trail and workspace.acts_at_once and not workspace.comparison.lanes:
            yield from self._compare(workspace, kinds, budget)

    def idle(self, *values: object) -> Update:
        """Return what the end of a long move changes: there is nothing to stop."""
        return {self.stop: gr.update(visible=False, interactive=True)}

    def _moments(self, workspace: Workspace) -> Markup:
        session, at = workspace.session, workspace.comparison.step
        return render("episode.trail", workspace.trail, at, session is None or session.done)

    def _lanes_html(self, workspace: Workspace) -> Markup:
        seen = workspace.comparison
        if not seen.lanes:
            return render("parts.empty", "The same moment, another memory", _HINT)
        looks = [lane.seen for lane in seen.lanes if lane.seen is not None]
        chunks = workspace.view.chunks(looks[0].observation) if looks else ()
        number = len(workspace.trail) if seen.step is None else seen.step
        player = who_plays(workspace.config.actor)
        about = (f"Before step {number + 1}", workspace.instruction, player)
        whole = in_words([*chunks, *workspace.past])
        return reading_of(workspace) + render_lanes(seen.lanes, whole, titles_of(chunks), about)

    @on_event
    def choose(self, workspace: Workspace, event: gr.EventData) -> Update:
        """Choose the moment to compare at; what was compared at another goes."""
        comparison = workspace.comparison
        comparison.lanes = []
        comparison.step = common.number_of(event, "look", len(workspace.trail))
        return {self.trail: self._moments(workspace), self.lanes: self._lanes_html(workspace)}

    def _compare(self, workspace: Workspace, kinds: list[str], budget: float) -> Updates:
        """Build each context and ask the actor, one builder after the other, drawing as they come."""
        lanes = [lane_of(workspace, name, int(budget)) for name in kinds or ()]
        if not LEAST <= len(lanes) <= MOST:
            raise UserError(f"choose {LEAST} to {MOST} context builders")
        comparison = workspace.comparison
        step = self._moment(workspace)
        comparison.lanes = lanes
        return self._each(
            workspace, lambda lane: replace(lane, seen=workspace.look(lane.params, step))
        )

    compare = on_events(_compare)

    @on_events
    def play_all(self, workspace: Workspace, kinds: list[str], budget: float) -> Updates:
        """Play a copy of the moment to its end with each builder; rewards stand side by side."""
        workspace.is_stopping = False
        params = [lane_of(workspace, name, int(budget)).params for name in kinds or ()]
        if [lane.params for lane in workspace.comparison.lanes] != params:
            yield from self._compare(workspace, kinds, budget)
        lanes = workspace.comparison.lanes
        if not lanes or any(lane.seen is None for lane in lanes) or workspace.is_stopping:
            return  # the comparison did not work, or was stopped
        step = self._moment(workspace)

        def play(lane: Lane) -> Lane:
            ending = workspace.play_out(lane.params, step)
            if workspace.is_stopping:  # an episode cut short has no reward to compare
                raise UserError("stopped")
            return replace(lane, ending=ending)

        yield from self._each(workspace, play)

    def _each(self, workspace: Workspace, move: Callable[[Lane], Lane]) -> Updates:
        """Make a long move for each lane in its turn, drawing as they come; a fault stays its own.

        Where another comparison takes this one's place it draws nothing more.
        """
        comparison = workspace.comparison
        lanes = comparison.lanes
        workspace.is_stopping = False
        for number, lane in enumerate(lanes):
            lanes[number] = replace(lane, waiting=True)
            yield {self.stop: gr.update(visible=True), self.lanes: self._lanes_html(workspace)}
            lane = replace(lane, waiting=False, problem="")
            try:
                lanes[number] = move(lane)
            except Exception as error:  # one builder that fails must not hide the others
                lanes[number] = replace(lane, problem=common.problem_of(error))
            if comparison.lanes is not lanes:
                return
            if workspace.is_stopping:
                break
        yield self.show(workspace)

    def _moment(self, workspace: Workspace) -> int | None:
        """Return the step that is compared at (None: now)."""
        comparison = workspace.comparison
        if comparison.step is None and workspace.running.done:  # the last step is compared
            if not workspace.trail:
                raise UserError("this episode has no moment to compare: start one")
            comparison.step = len(workspace.trail) - 1
        return comparison.step

    @on_event
    def go_on(self, workspace: Workspace, event: gr.EventData) -> Update:
        """Go on with the builder that was chosen, from the moment that is compared, on a copy."""
        comparison = workspace.comparison
        number = common.number_of(event, "continue", len(comparison.lanes))
        if number is None:
            raise UserError("compare first, then choose one to continue with")
        context = dict(comparison.lanes[number].params)
        workspace.fork(context, comparison.step)
        episode = {**self._episode.show(workspace), **self.show(workspace)}
        return {self._places: gr.Tabs(selected="episode"), **episode}

    def wire(self, opened: gr.Tab, episode: EpisodeTab, places: gr.Tabs) -> None:
        """Connect; ``opened`` is the tab. Going on with a builder turns ``places`` to the episode."""
        self._episode, self._places, tab = episode, places, self.app.tab
        inputs = [tab, self.kinds, self.budget]

        def select(name: str, kinds: list[str], budget: float) -> Updates:
            if not name:  # the page is loading, and what follows the loading draws
                yield {self.status: gr.skip()}
                return
            yield from self.begin(name, kinds, budget)

        long: dict[str, Any] = {"outputs": self.outputs, **common.shown_on(self.status)}
        opened.select(select, inputs, **long)
        moment = self.trail.click(self.choose, [tab], self.outputs, **QUIET)
        moment.then(self.compare, inputs, **long)
        self.go.click(self.compare, inputs, **long)
        self.play.click(self.play_all, inputs, **long)
        self.stop.click(self.halt, [tab], self.outputs, **QUIET)
        moved = [places, *episode.outputs, *self.outputs]
        self.lanes.click(self.go_on, [tab], moved, **QUIET)


def lane_of(workspace: Workspace, name: str, budget: int) -> Lane:
    """Return the lane of ``kind`` or ``kind@budget``. Raises ``UserError`` for what is neither."""
    kind, at, own = name.strip().partition("@")
    if at:
        if not own.strip().isdigit() or int(own) < 1:
            raise UserError(f"write {kind}@TOKENS, such as {kind}@150, not '{name}'")
        budget = int(own)
    context = workspace.config.context
    base = context.model_dump(mode="json") if kind == context.kind else {"kind": kind}
    params = {**base, "budget": budget}
    registry().parse("context", params)  # an unknown kind is told at once
    return Lane(params)
