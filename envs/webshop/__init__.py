"""WebShop (Yao et al., 2022) as a pure-Python world: no server, no HTML, no Java."""

from envs.webshop.gym import register
from envs.webshop.session import Frozen
from envs.webshop.world import WebShop

__all__ = ["Frozen", "WebShop"]

register()
