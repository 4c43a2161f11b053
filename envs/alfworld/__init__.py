"""ALFWorld (Shridhar et al., 2021) as a pure-Python world: no planner, no TextWorld."""

from stategate.envs.alfworld.world import AlfWorld

__all__ = ["AlfWorld"]
