"""ALFWorld (Shridhar et al., 2021) as a pure-Python world: no planner, no TextWorld."""

import gymnasium

from stategate.envs.alfworld.world import AlfWorld

__all__ = ["AlfWorld"]

#: The same world for other people's loops, imported only when someone makes one.
ENV_ID = "stategate/ALFWorld-v0"
if ENV_ID not in gymnasium.registry:
    gymnasium.register(
        id=ENV_ID,
        entry_point="stategate.envs.gym_env:WorldGym",
        kwargs={"world": "stategate.envs.alfworld:AlfWorld", "max_steps": 50},
    )
