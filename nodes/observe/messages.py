"""``messages``: any agent's messages, read by its middleware; nobody plays them."""

from typing import Literal

from stategate.envs.messages.view import MessagesView
from stategate.envs.protocols import View, World
from stategate.nodes.protocols import EnvParams
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError


class MessagesEnv(EnvParams):
    """The chat messages of another agent, for ``graph.middleware``; see ``docs/middleware.md``."""

    kind: Literal["messages"] = "messages"

    def build(self, resources: Resources) -> World:
        """Raise ``UserError``: the agent that has these messages plays, not this graph."""
        raise UserError(
            "env.kind=messages is read by graph.middleware: give ContextMiddleware to your agent"
        )

    def view(self) -> View:
        """Return how results are read: as what they are."""
        return MessagesView()
