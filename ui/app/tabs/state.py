"""The State tab: the recurrent state over the episode, and what the builder kept because of it."""

import threading
from collections.abc import Iterator
from typing import Any

import gradio as gr

from evals.worlds.states import Course, course_of, project, reference_courses, similarity
from stores.errors import UserError
from ui.app.render.html import el, empty, note
from ui.app.render.state import (
    render_allocation,
    render_foresight,
    render_projection,
    render_similarity,
)
from ui.app.tabs.common import App, Watch, failed, working
from ui.app.workspace import Workspace

#: Goals of the reference episodes, spread over the catalogue's goals.
REFERENCES = 12

Update = dict[Any, Any]


class StateTab:
    """The tab's components and what they do."""

    def __init__(self, app: App, resources: Any) -> None:
        self.app = app
        self._resources = resources
        self._references: dict[str, list[Course]] = {}
        self._stopping = threading.Event()
        with gr.Row(elem_classes="sg-controls"):
            self.again = gr.Button("Draw again", size="md", elem_id="sg-state-draw", scale=0,
                                   min_width=120)  # fmt: skip
            self.refer = gr.Button("Play reference episodes", size="md", elem_id="sg-state-refer",
                                   scale=0, min_width=190)  # fmt: skip
            self.stop = gr.Button("Stop", variant="stop", visible=False, size="md", scale=0,
                                  min_width=84)  # fmt: skip
        self.status = gr.HTML(elem_id="sg-state-status")
        with gr.Row(elem_classes="sg-stage"):
            with gr.Column(min_width=320):
                self.plane = gr.HTML()
                self.foresight = gr.HTML()
            with gr.Column(min_width=320):
                self.alike = gr.HTML()
                self.allocation = gr.HTML(elem_id="sg-allocation")

    @property
    def outputs(self) -> list[Any]:
        """What drawing may change."""
        return [self.stop, self.status, self.plane, self.foresight, self.alike, self.allocation]

    def show(self, tab: str) -> Update:
        """Draw the tab's episode."""
        blank: Update = {self.plane: "", self.foresight: "", self.alike: "", self.allocation: ""}
        blank |= {self.stop: gr.update(visible=False)}
        try:
            workspace = self.app.of(tab)
            session = workspace.session
            if session is None:
                hint = "Play some steps in the WebShop tab: the state has read nothing yet."
                return {**blank, self.status: empty("No episode yet", hint)}
            drawn = {**blank, self.status: "", self.allocation: self._allocation(workspace)}
            if workspace.config.updater.kind == "none":
                told = "This agent keeps no recurrent state: choose updater gru or ssm in Settings."
                return {**drawn, self.status: note(told, "info")}
            course = course_of(session)
        except Exception as error:
            return {**blank, self.status: failed(error)}
        return {**drawn, **self._drawn(course, self._references.get(self._key(workspace), []))}

    def _drawn(self, course: Course, references: list[Course]) -> Update:
        if not len(course.states):
            return {self.status: empty("No state yet", "Take a step first.")}
        own, *others = project([course, *references])
        behind = [
            (other.name, [(float(x), float(y)) for x, y in points], other.classes)
            for other, points in zip(references, others, strict=True)
        ]
        update: Update = {
            self.plane: _card(
                render_projection([(float(x), float(y)) for x, y in own], course.classes, behind)
            ),
            self.alike: _card(render_similarity(similarity(course.states).tolist())),
        }
        if course.chances:
            update[self.foresight] = _card(render_foresight(course.chances, course.classes))
        return update

    def _allocation(self, workspace: Workspace) -> Any:
        contexts = [seen.result.context for seen in workspace.trail]
        if not contexts:
            return empty(
                "No steps yet", "Take a step: the heat map shows what was kept of each chunk."
            )
        return _card(render_allocation(contexts))

    def _key(self, workspace: Workspace) -> str:
        config = workspace.config
        return config.env.model_dump_json() + config.updater.model_dump_json()

    def play_references(self, tab: str) -> Iterator[Update]:
        """Play reference episodes once for this world and updater, telling how far it is."""
        workspace = self.app.of(tab)
        key = self._key(workspace)
        stopping = self._stopping = threading.Event()
        done = [0]

        def tell(count: int, total: int) -> None:
            done[0] = count
            if stopping.is_set():
                raise UserError("stopped")

        try:
            world = workspace.graph.agent.bound(None).world  # type: ignore[attr-defined]
            count = len(getattr(world, "goals", ()))
            if workspace.config.updater.kind == "none" or not count:
                raise UserError(
                    "reference episodes need a world with goals and an updater: see Settings"
                )
            goals = [i * count // REFERENCES for i in range(REFERENCES)]
            resources = self._resources.with_models(
                workspace.config.llm, workspace.config.embedder, workspace.config.updater
            )
            watch = Watch(
                lambda: reference_courses(workspace.config, resources, goals, tell), "playing"
            )
            for _ in watch:
                told = working(f"reference episode {done[0] + 1} of {REFERENCES}", watch.since)
                bar = el("progress", value=str(done[0]), max=str(REFERENCES), cls="sg-progress")
                yield {self.status: told + bar, self.stop: gr.update(visible=True)}
            self._references[key] = watch.result
        except Exception as error:
            yield {self.status: failed(error), self.stop: gr.update(visible=False)}
            return
        yield self.show(tab)

    def halt(self, tab: str) -> Update:
        """Stop playing reference episodes."""
        self._stopping.set()
        return self.show(tab)

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        tab = self.app.tab
        how: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        opened.select(self.show, [tab], self.outputs, **how)
        self.again.click(self.show, [tab], self.outputs, **how)
        self.refer.click(self.play_references, [tab], self.outputs, **how)
        self.stop.click(self.halt, [tab], self.outputs, **how)


def _card(inside: Any) -> Any:
    return el("div", inside, cls="sg-box")
