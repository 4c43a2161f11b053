"""The learned updaters as kinds (torch is imported only when one is built)."""

from typing import Literal

from nodes.update_state.updater import LearnedUpdater


class Gru(LearnedUpdater):
    """A two-layer GRU over the events, trained to foresee the next action."""

    kind: Literal["gru"] = "gru"


class Ssm(LearnedUpdater):
    """A selective state-space block over the events; the same training, another core."""

    kind: Literal["ssm"] = "ssm"
