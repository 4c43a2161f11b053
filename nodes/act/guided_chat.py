"""``guided_chat``: a language model chooses among what a planner of the world leaves of the actions.

What plays here is the planner and the model together, so its figures stand beside those of ``chat`` and
of a random pick among the same offers (``evals.worlds.controls``). A guide is a function from the built
context and its readable actions to an :class:`Offer`, registered under the world's ``env.kind`` in the
entry-point group ``stategate.guides``.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import ClassVar, Literal, cast

from pydantic import Field

from stategate.nodes.act.chat import ChatActor
from stategate.nodes.act.replies import Offer
from stategate.nodes.act.simple import vain_actions
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext
from stategate.nodes.resources import Resources
from stategate.stores.text import one_line

GROUP = "stategate.guides"
#: From a built context and the actions that are worth trying to what the model may choose.
Guide = Callable[[BuiltContext, Sequence[str]], Offer]


class GuidedChat(ActorParams):
    """Ask the chat model; a planner withholds what the prompt itself shows to be pointless."""

    asks_model: ClassVar[bool] = True
    hint: ClassVar[str] = "a language model chooses among what a planner leaves of the actions"
    kind: Literal["guided_chat"] = "guided_chat"
    thought: int = Field(
        default=0, ge=0, description="characters of reasoning before a choice (0: none)"
    )

    def build(self, resources: Resources) -> Actor:
        """Return the actor; the model's server starts on the first step."""
        return GuidedChatActor(self.thought, resources)


class GuidedChatActor(ChatActor):
    """A chat model that is offered what the guide leaves."""

    def __init__(self, thought: int, resources: Resources) -> None:
        super().__init__(thought, resources)
        self._resources = resources

    def offer(self, context: BuiltContext) -> Offer:
        """Return the guide's offer."""
        return guided_offer(context, self._resources)


def guided_offer(context: BuiltContext, resources: Resources) -> Offer:
    """Return what the configured world's guide leaves of the context's actions.

    Actions that brought nothing when they were taken again go first; a world without a guide keeps the
    others.
    """
    vain = vain_actions(context)
    fresh = tuple(a for a in context.actions if one_line(a) not in vain) or context.actions
    guide = guide_of(resources.env_kind)
    return Offer(fresh) if guide is None else guide(context, fresh)


@lru_cache(maxsize=16)
def guide_of(env_kind: str) -> Guide | None:
    """Return the guide that is registered for worlds of this kind, None if there is none."""
    found = entry_points(group=GROUP, name=env_kind)
    return cast(Guide, next(iter(found)).load()) if found else None
