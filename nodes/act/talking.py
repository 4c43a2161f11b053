"""What an actor that asks a model looks like to the graph: one plan, played with threads or without."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from stategate.nodes.models.asking import Ask, atalk, talk
from stategate.nodes.protocols import BuiltContext, Decision
from stategate.nodes.resources import Resources


class TalkingActor:
    """An actor whose decision is what ``plan`` comes to; see :data:`nodes.models.asking.Talk`."""

    def __init__(
        self,
        resources: Resources,
        plan: Callable[[BuiltContext, Ask], Coroutine[Any, Any, Decision]],
    ) -> None:
        self._resources = resources
        self._plan = plan
        resources.llm_params  # noqa: B018 - a config without a model fails here, not mid-episode

    def __call__(self, context: BuiltContext, step: int) -> Decision:
        """Choose; raises ``ModelUnavailable`` when the server does not answer."""
        return talk(self._resources, partial(self._plan, context))

    async def adecide(self, context: BuiltContext, step: int) -> Decision:
        """Choose without keeping a thread meanwhile."""
        return await atalk(self._resources, partial(self._plan, context))
