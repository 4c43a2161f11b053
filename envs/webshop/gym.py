"""Registers ``stategate/WebShop-v0``, the same world for other people's loops."""

ENV_ID = "stategate/WebShop-v0"


def register() -> None:
    """Register the environment by name; it is imported only when someone makes one."""
    import gymnasium

    if ENV_ID not in gymnasium.registry:
        gymnasium.register(id=ENV_ID, entry_point="envs.webshop.gym_env:WebShopGym")
