"""The state in the Episode tab: what it foresaw at each step."""

from collections.abc import Mapping, Sequence

import gradio as gr
import pandas as pd
from pandas.io.formats.style import Styler

from stategate.nodes.update_state import unpacked
from stategate.nodes.update_state.learned import StateUpdater
from stategate.ui.app.tabs.common import QUIET, AgentTab, App, Update, frame, on_event
from stategate.ui.app.workspace import Workspace


def foreseen(classes: Sequence[str], chances: Sequence[Mapping[str, float]]) -> Styler:
    """Return the table of the foreseen next actions in %: a row a class, a column a step taken.

    ``classes`` are those of the actions taken, ``chances`` the probabilities before each. The larger
    a number, the darker its cell.
    """
    steps = {f"{n} {c}": p for n, (c, p) in enumerate(zip(classes, chances, strict=False), 1)}
    table = pd.DataFrame(steps).mul(100).rename_axis("step").reset_index()
    return table.style.background_gradient("Purples", axis=None, vmin=0).format(precision=0)


class StatePanel(AgentTab):
    """The drawer's components and what they do; without a state of this world there is no drawer."""

    def __init__(self, app: App) -> None:
        self.app = app
        title = "The state over this episode"
        with gr.Accordion(title, open=False, elem_id="sg-state", visible=False) as self.box:
            self.status = gr.HTML(elem_id="sg-state-status")
            label = "Foreseen next action in %; above, the step and what was done"
            self.foresight = frame("foresight", label, ["step"])
        self.outputs = [self.box, self.status, self.foresight]

    @on_event
    def show(self, workspace: Workspace) -> Update:
        """Draw the tab's episode, if steps were taken."""
        hidden: Update = {self.box: gr.update(visible=False)}
        steps = [seen.result for seen in workspace.trail]
        updater, actions = workspace.agent.resources.updater, workspace.view.actions
        if not steps or not isinstance(updater, StateUpdater):
            return hidden
        if not {*actions.classes} <= {*updater.classes}:  # a state model of another world
            return hidden
        classes = [actions.class_of(s.observation.text, s.decision.action) for s in steps]
        packed = (moment.get("recurrent") for moment in workspace.running.moments())
        states = [state for state in map(unpacked, packed) if state is not None]
        return {
            self.box: gr.update(visible=True),
            self.foresight: foreseen(classes, [updater.predict(state) for state in states]),
        }

    def wire(self, changed: gr.HTML) -> None:
        """Connect; ``changed`` is the component that every step changes."""
        changed.change(self.show, [self.app.tab], self.outputs, **QUIET)
