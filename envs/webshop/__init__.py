"""WebShop (Yao et al., 2022) as a pure-Python world: no server, no HTML, no Java."""

import gymnasium

from stategate.envs.webshop.world import Frozen, WebShop

__all__ = ["Frozen", "WebShop"]

#: The same world for other people's loops, imported only when someone makes one.
ENV_ID = "stategate/WebShop-v0"
if ENV_ID not in gymnasium.registry:
    gymnasium.register(
        id=ENV_ID,
        entry_point="stategate.envs.gym_env:WorldGym",
        kwargs={"world": "stategate.envs.webshop:WebShop"},
    )
