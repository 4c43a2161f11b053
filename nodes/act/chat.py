"""``chat`` and ``guided_chat``: a language model chooses by structured output over legal actions.

The prompt is a fixed system message (so that the server's prompt cache holds it) and the built
context as it is; the legal actions are only in the schema, never listed twice. A reply that cannot
be read gets one repair turn, then a safe fallback that is recorded as such.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import ClassVar, Literal, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import Field

from stategate.envs.protocols import takes_text, verb_of
from stategate.nodes.act.replies import Offer, TalkingActor, parse, schema, thought_of
from stategate.nodes.act.simple import vain_actions
from stategate.nodes.models.asking import Ask, cached_of, cost_of, response_format, usage_of
from stategate.nodes.models.calls import RequestRefused
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stategate.nodes.resources import Resources
from stategate.stores.text import one_line

#: From a built context and the actions that are worth trying to what the model may choose.
Guide = Callable[[BuiltContext, Sequence[str]], Offer]
GUIDES = "stategate.guides"
#: Words by which servers say that it is the response format that they refuse.
_FORM = ("response_format", "json_schema", "schema", "grammar", "structured")


class _Chatting(ActorParams):
    """The parameters of actors that ask a chat model."""

    asks_model: ClassVar[bool] = True
    thought: int = Field(
        default=0, ge=0, description="characters of reasoning before a choice (0: none)"
    )


class Chat(_Chatting):
    """Ask the configured chat model; a server with structured output is held to the legal actions."""

    hint: ClassVar[str] = "a language model chooses what to do"
    kind: Literal["chat"] = "chat"

    def build(self, resources: Resources) -> Actor:
        """Return the actor; the model's server starts on the first step."""
        return ChatActor(self.thought, resources)


class GuidedChat(_Chatting):
    """Ask the chat model; a planner withholds actions that the prompt shows to be pointless.

    The planner and the model play together, so its figures are compared with those of ``chat`` and of a
    random pick among the same offers (``evals.controls``).
    """

    hint: ClassVar[str] = "a language model chooses among what a planner leaves of the actions"
    kind: Literal["guided_chat"] = "guided_chat"

    def build(self, resources: Resources) -> Actor:
        """Return the actor; the model's server starts on the first step."""
        return GuidedChatActor(self.thought, resources)


class ChatActor(TalkingActor):
    """One chat model behind the actor protocol."""

    def __init__(self, thought: int, resources: Resources) -> None:
        super().__init__(resources, self._choose)
        self._thought = thought
        self._view = resources.view
        self._structured = True

    def offer(self, context: BuiltContext) -> Offer:
        """Return what the model chooses among: every action that the prompt shows."""
        return Offer(context.actions)

    async def _choose(self, context: BuiltContext, ask: Ask) -> Decision:
        offer = self.offer(context)
        legal = offer.actions
        if not legal:
            action = self._view.actions.safe((), context.instruction)
            return Decision(action, fallback="the context holds no action")
        messages: list[BaseMessage] = [
            SystemMessage(self._view.brief),
            *_with_question(context, offer),
        ]
        usage = [0, 0, 0, 0]  # read, written, read from a cache, put into one
        reply = ""
        for attempt in (1, 2):
            answer = await self._ask(messages, offer, ask)
            reply = str(answer.text)
            usage = [
                a + b for a, b in zip(usage, (*usage_of(answer), *cached_of(answer)), strict=True)
            ]
            chosen = parse(reply, legal, offer)
            if chosen is not None:
                return self._decision(chosen, usage, attempt, thought_of(reply))
            repair = (
                f"That is not a legal action. Answer with exactly one of: {', '.join(legal[:20])}"
            )
            messages = [*messages, AIMessage(reply or "(nothing)"), HumanMessage(repair)]
        fallback = f"unreadable reply: {' '.join(reply.split())[:80] or 'empty'}"
        action = self._view.actions.safe(legal, context.instruction)
        return self._decision(action, usage, 2, "", fallback)

    def _decision(
        self,
        action: str,
        usage: Sequence[int],
        attempts: int,
        reason: str,
        fallback: str | None = None,
    ) -> Decision:
        cost = cost_of(self._resources.llm, *usage)
        return Decision(
            action, fallback, reason, usage[0], usage[1], cost, attempts, cached=usage[2]
        )

    async def _ask(self, messages: list[BaseMessage], offer: Offer, ask: Ask) -> AIMessage:
        if self._structured:
            try:
                form = response_format("action", schema(offer, self._thought))
                return await ask(messages, **form)
            except RequestRefused as e:
                reason = str(e).lower()
                if not any(word in reason for word in _FORM):
                    raise
                self._structured = False  # this server has no structured output
        plain = [SystemMessage(f"{messages[0].content}\n{_forms(offer.actions)}"), *messages[1:]]
        return await ask(plain)


class GuidedChatActor(ChatActor):
    """A chat model that is offered what the guide leaves."""

    def offer(self, context: BuiltContext) -> Offer:
        """Return the guide's offer."""
        return guided_offer(context, self._resources)


def guided_offer(context: BuiltContext, resources: Resources) -> Offer:
    """Return the offer of the configured world's guide for the context's actions.

    A guide is registered under the world's ``env.kind`` in the entry-point group ``stategate.guides``.
    Actions that were repeated without effect are removed first; without a guide all others stay.
    """
    vain = vain_actions(context)
    fresh = tuple(a for a in context.actions if one_line(a) not in vain) or context.actions
    guide = guide_of(resources.env_kind)
    return Offer(fresh) if guide is None else guide(context, fresh)


@lru_cache(maxsize=16)
def guide_of(env_kind: str) -> Guide | None:
    """Return the guide that is registered for worlds of this kind, None if there is none."""
    guides = entry_points(group=GUIDES, name=env_kind)
    return cast(Guide, next(iter(guides)).load()) if guides else None


def _forms(actions: Sequence[str]) -> str:
    """Say how actions are written, for servers that hold no reply to a schema."""
    verbs = dict.fromkeys(verb_of(a) for a in actions if takes_text(a) or a.endswith("]"))
    forms = [f"{verb}[...]" for verb in verbs]
    return f"Write the action alone, {'as ' + ' or '.join(forms) if forms else 'word for word'}."


def _with_question(context: BuiltContext, offer: Offer) -> list[BaseMessage]:
    """Return the context's messages, with the guide's closing question where it has one."""
    if offer.asks is None or not context.messages:
        return list(context.messages)
    *first, last = context.messages
    return [*first, HumanMessage(f"{last.content}{offer.asks}")]
