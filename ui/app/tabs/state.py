"""The State tab: the recurrent state over the episode, and what the builder kept because of it."""

import threading
from collections.abc import Iterator
from typing import Any

import gradio as gr

from stategate.envs.protocols import playable
from stategate.stores.errors import UserError
from stategate.ui.app.render import charts
from stategate.ui.app.render.charts import Path
from stategate.ui.app.render.html import empty, macros, note
from stategate.ui.app.states import (
    StateTrajectory,
    play_references,
    project,
    similarity,
    trajectory_of,
)
from stategate.ui.app.tabs.common import (
    QUIET,
    App,
    Update,
    Watch,
    button,
    failed,
    progress_line,
    telling,
)
from stategate.ui.app.workspace import Workspace

#: Reference episodes at most, spread over the world's tasks.
REFERENCES = 12


class StateTab:
    """The tab's components and what they do."""

    def __init__(self, app: App, resources: Any) -> None:
        self.app = app
        self._resources = resources
        self._references: dict[str, list[StateTrajectory]] = {}
        self._stopping = threading.Event()
        with gr.Row(elem_classes="sg-controls"):
            self.again = button("Draw again", "state-draw", 120)
            self.refer = button("Play reference episodes", "state-refer", 190)
            self.stop = button("Stop", "state-stop", 84, variant="stop", visible=False)
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

    def rest(self, error: BaseException) -> Update:
        """Return what else an error changes: nothing is played."""
        return {self.stop: gr.update(visible=False)}

    def show(self, tab: str) -> Update:
        """Draw the tab's episode."""
        update: Update = {self.plane: "", self.foresight: "", self.alike: "", self.allocation: ""}
        update |= {self.stop: gr.update(visible=False), self.status: ""}
        try:
            workspace = self.app.of(tab)
            session = workspace.session
            if session is None:
                hint = "Play some steps in the Episode tab: the state has read nothing yet."
                return {**update, self.status: empty("No episode yet", hint)}
            update[self.allocation] = self._allocation(workspace)
            if workspace.config.updater.kind == "none":
                text = "This agent keeps no recurrent state: choose updater gru or ssm in Settings."
                return {**update, self.status: note(text, "info")}
            references = self._references.get(self._key(workspace), [])
            return {**update, **self._drawn(trajectory_of(session), references)}
        except Exception as error:
            return {**update, self.status: failed(error)}

    def _drawn(self, own: StateTrajectory, references: list[StateTrajectory]) -> Update:
        if not len(own.states):
            return {self.status: empty("No state yet", "Take a step first.")}
        paths = [
            Path(each.name, spots.tolist(), each.classes, bold=each is own)
            for each, spots in zip([own, *references], project([own, *references]), strict=True)
        ]
        box = macros("parts").box
        update: Update = {
            self.plane: box(charts.render_projection(paths)),
            self.alike: box(charts.render_similarity(similarity(own.states).tolist())),
        }
        if own.chances:
            update[self.foresight] = box(charts.render_foresight(own.chances, own.classes))
        return update

    def _allocation(self, workspace: Workspace) -> Any:
        contexts = [seen.result.context for seen in workspace.trail]
        if not contexts:
            hint = "Take a step: the heat map shows what was kept of each chunk."
            return empty("No steps yet", hint)
        return macros("parts").box(charts.render_allocation(contexts))

    def _key(self, workspace: Workspace) -> str:
        config = workspace.config
        return config.env.model_dump_json() + config.updater.model_dump_json()

    @telling
    def play_references(self, tab: str) -> Iterator[Update]:
        """Play reference episodes once for this world and updater, with progress."""
        workspace = self.app.of(tab)
        config, key = workspace.config, self._key(workspace)
        stopping = self._stopping = threading.Event()
        done = [0]

        def progress(count: int) -> None:
            done[0] = count
            if stopping.is_set():
                raise UserError("stopped")

        tasks = playable(workspace.world).tasks()
        if config.updater.kind == "none" or not tasks:
            raise UserError("this needs a world with tasks and an updater: see Settings")
        total = min(REFERENCES, len(tasks))
        chosen = [tasks[i * len(tasks) // total] for i in range(total)]
        models = (config.llm, config.embedder, config.updater, config.env)
        resources = self._resources.with_models(*models)
        watch = Watch(lambda: play_references(config, resources, chosen, progress), "playing")
        for _ in watch:
            label = f"reference episode {done[0] + 1} of {total}"
            line = progress_line(watch, label, done[0], total)
            yield {self.status: line, self.stop: gr.update(visible=True)}
        self._references[key] = watch.result
        yield self.show(tab)

    def halt(self, tab: str) -> Update:
        """Stop playing reference episodes."""
        self._stopping.set()
        return self.show(tab)

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        tab = self.app.tab
        opened.select(self.show, [tab], self.outputs, **QUIET)
        self.again.click(self.show, [tab], self.outputs, **QUIET)
        self.refer.click(self.play_references, [tab], self.outputs, **QUIET)
        self.stop.click(self.halt, [tab], self.outputs, **QUIET)
