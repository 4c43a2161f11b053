"""The state in the Episode tab: what it foresaw at each step."""

import pandas as pd
from pandas.io.formats.style import Styler

from stategate.nodes.update_state import unpacked
from stategate.nodes.update_state.learned import StateUpdater
from stategate.ui.app.workspace import Workspace


def foreseen(workspace: Workspace) -> Styler | None:
    """Return the table of the foreseen next actions in %: a row a class, a column a step taken.

    The larger a number, the darker its cell. None where no step was taken, or without a state model of
    this world.
    """
    steps = [seen.result for seen in workspace.trail]
    updater, actions = workspace.agent.resources.updater, workspace.view.actions
    if not steps or not isinstance(updater, StateUpdater):
        return None
    if not {*actions.classes} <= {*updater.classes}:  # a state model of another world
        return None
    packed = (moment.get("recurrent") for moment in workspace.running.moments())
    states = [state for state in map(unpacked, packed) if state is not None]
    columns = {
        f"{n} {actions.class_of(step.observation.text, step.decision.action)}": updater.predict(
            state
        )
        for n, (step, state) in enumerate(zip(steps, states, strict=False), 1)
    }
    table = pd.DataFrame(columns).mul(100).rename_axis("step").reset_index()
    return table.style.background_gradient("Purples", axis=None, vmin=0).format(precision=0)
