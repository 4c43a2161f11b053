"""The state in the Episode tab: its course over the episode, and what the builder kept at each step."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr
import numpy as np
import pandas as pd
from pandas.io.formats.style import Styler

from stategate.nodes.protocols import BuiltContext, Vector
from stategate.nodes.update_state import unpacked
from stategate.nodes.update_state.learned import StateUpdater
from stategate.ui.app.context import shown_pieces
from stategate.ui.app.html import note
from stategate.ui.app.tabs.common import QUIET, AgentTab, App, Update, column, frame, on_event
from stategate.ui.app.workspace import Workspace


@dataclass(frozen=True)
class StateTrajectory:
    """The states of one episode (steps, d_state), and the class of the action taken from each.

    ``chances`` are the foreseen classes' probabilities at each step (() where nothing foresees).
    """

    states: Vector
    classes: tuple[str, ...]
    chances: tuple[dict[str, float], ...] = ()


def trajectory_of(workspace: Workspace) -> StateTrajectory | None:
    """Return the states of an episode so far from its checkpoints, None without an updater."""
    updater, class_of = workspace.agent.resources.updater, workspace.view.actions.class_of
    if updater is None:
        return None
    steps = [seen.result for seen in workspace.trail]
    classes = [class_of(step.observation.text, step.decision.action) for step in steps]
    packed = (moment.get("recurrent") for moment in workspace.running.moments())
    rows = [vector for vector in map(unpacked, packed) if vector is not None]
    chances: tuple[dict[str, float], ...] = ()
    if isinstance(updater, StateUpdater):
        chances = tuple(updater.predict(row) for row in rows) if updater.classes else ()
        rows = [row[-updater.model.d_state :] for row in rows]
    states = np.stack(rows) if rows else np.zeros((0, 1), dtype=np.float32)
    return StateTrajectory(states, tuple(classes[: len(rows)]), chances)


def project(states: Vector) -> Vector:
    """Return states (steps, d_state) as points (steps, 2) on their two main axes (PCA)."""
    if len(states) < 2:
        return np.zeros((len(states), 2), dtype=np.float32)
    centred = states - states.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    # An axis has no sign of its own: let its largest weight be positive, so that pictures agree.
    signs = np.sign(axes[np.arange(2), np.abs(axes[:2]).argmax(axis=1)])
    points: Vector = (centred @ (axes[:2] * signs[:, None]).T).astype(np.float32)
    return points


def plane(own: StateTrajectory) -> pd.DataFrame:
    """Return the states' path as points, each with its step and the action that was taken there."""
    points = project(own.states)
    steps = range(1, len(points) + 1)
    actions = [f"{step} {name}" for step, name in zip(steps, own.classes, strict=False)]
    actions += [f"{step} next" for step in steps[len(actions) :]]
    return pd.DataFrame({"first axis": points[:, 0], "second axis": points[:, 1], "step": actions})


def foreseen(own: StateTrajectory) -> Styler:
    """Return the table of the foreseen next actions in %: a row a class, a column a step taken."""
    columns = [f"{step + 1} {name}" for step, name in enumerate(own.classes)]
    chances = own.chances[: len(columns)]
    names = list(chances[0]) if chances else []
    rows = [[round(100 * step[name]) for step in chances] for name in names]
    return shaded(pd.DataFrame(rows, names, columns[: len(chances)]))


def allocation(contexts: Sequence[BuiltContext]) -> Styler:
    """Return the table of the tokens kept of each chunk: a row a chunk, a column a step."""
    steps = [{s.name: s.piece.tokens_after for s in shown_pieces(one)} for one in contexts]
    names = dict.fromkeys(name for step in steps for name in step)
    rows = [[step.get(name) for step in steps] for name in names]
    return shaded(pd.DataFrame(rows, list(names), [str(step + 1) for step in range(len(steps))]))


def shaded(table: pd.DataFrame) -> Styler:
    """Return a table whose cells are the darker the larger their number."""
    named = table.rename_axis("step").reset_index()
    styled = named.style.background_gradient("Purples", axis=None, vmin=0)
    return styled.highlight_null(color="transparent").format(precision=0, na_rep="")


class StatePanel(AgentTab):
    """The panel's components and what they do."""

    def __init__(self, app: App) -> None:
        self.app = app
        title = "The state over this episode"
        with gr.Accordion(title, open=False, elem_id="sg-state") as self.box:
            self.status = gr.HTML(elem_id="sg-state-status")
            with gr.Row(elem_classes="sg-stage"):
                with column():
                    label = "Recurrent state in the plane of its two main axes"
                    self.plane = gr.ScatterPlot(
                        x="first axis",
                        y="second axis",
                        color="step",
                        title=label,
                        elem_id="sg-plane",
                    )
                    label = "Foreseen next action in %; above, the step and what was done"
                    self.foresight = frame("foresight", label, ["step"])
                with column():
                    label = "Tokens kept of each chunk, step by step"
                    self.allocation = frame("allocation", label, ["step"], max_height=760)
            self.is_open = gr.State(False)
        self.outputs = [self.status, self.plane, self.foresight, self.allocation]

    @on_event
    def show(self, workspace: Workspace, is_open: bool = True) -> Update:
        """Draw the tab's episode, if the panel is open."""
        if not is_open:
            return {}
        contexts = [seen.result.context for seen in workspace.trail]
        update: Update = {self.plane: None, self.foresight: None}
        update[self.allocation] = allocation(contexts)
        if not contexts:
            return {**update, self.status: note("Take a step: the state has read nothing yet.")}
        own = trajectory_of(workspace)
        if own is None:
            text = "This agent keeps no recurrent state: choose updater gru or ssm in Settings."
            return {**update, self.status: note(text)}
        return {**update, self.plane: plane(own), self.foresight: foreseen(own)}

    def wire(self, changed: gr.HTML) -> None:
        """Connect; ``changed`` is the component that every step changes."""
        tab, outputs = self.app.tab, self.outputs
        opened = self.box.expand(lambda: True, None, [self.is_open], **QUIET)
        opened.then(self.show, [tab], outputs, **QUIET)
        self.box.collapse(lambda: False, None, [self.is_open], **QUIET)
        changed.change(self.show, [tab, self.is_open], outputs, **QUIET)
