"""WebShop (Yao et al., 2022) as a pure-Python world: no server, no HTML, no Java."""

from stategate.envs.webshop.world import WebShop

__all__ = ["WebShop"]
