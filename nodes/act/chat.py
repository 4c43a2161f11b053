"""``chat`` and ``guided_chat``: a language model chooses by structured output over legal actions.

The prompt is a fixed system message (so that the server's prompt cache holds it) and the built
context as it is; the legal actions are only in the schema, never listed twice. A reply that cannot
be read gets one repair turn, then a safe fallback that is recorded as such.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from typing import ClassVar, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from stategate.envs.protocols import takes_text, verb_of
from stategate.nodes.act.replies import Offer, TalkingActor, parse, schema
from stategate.nodes.act.simple import vain_actions
from stategate.nodes.models.calls import Ask, RequestRefused, response_format
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stategate.nodes.resources import Resources
from stategate.stores.text import one_line

_ATTEMPTS = 2  # with the repair turn


class Chat(ActorParams):
    """A language model chooses what to do."""

    asks_model: ClassVar[bool] = True
    kind: Literal["chat"] = "chat"

    def build(self, resources: Resources) -> Actor:
        """Return the actor; the model's server starts on the first step."""
        return _choosing(resources, lambda context: Offer(context.actions))


class GuidedChat(ActorParams):
    """A language model chooses among the actions that a planner proposes.

    The planner and the model play together, so its figures are compared with those of ``chat`` and of a
    random pick among the same offers (``evals.controls``).
    """

    asks_model: ClassVar[bool] = True
    kind: Literal["guided_chat"] = "guided_chat"

    def build(self, resources: Resources) -> Actor:
        """Return the actor; the model's server starts on the first step."""
        return _choosing(resources, lambda context: guided_offer(context, resources))


def _choosing(resources: Resources, offer_of: Callable[[BuiltContext], Offer]) -> Actor:
    """Return the chat model as an actor; ``offer_of`` says what it chooses among."""
    view = resources.profile.view

    async def choose(context: BuiltContext, ask: Ask) -> Decision:
        offer = offer_of(context)
        safe = view.actions.safe(offer.actions, context.instruction)
        if not offer.actions:
            return Decision(safe, fallback="the context holds no action")
        messages: list[BaseMessage] = [SystemMessage(view.brief), *context.messages]
        if offer.asks is not None and context.messages:
            messages[-1] = HumanMessage(f"{messages[-1].content}{offer.asks}")
        chosen, reply, attempts = None, "", 0
        while chosen is None and attempts < _ATTEMPTS:
            reply = str((await _ask(messages, offer, ask)).text)
            attempts += 1
            chosen = parse(reply, offer.actions, offer.group)
            legal = ", ".join(offer.actions[:20])
            repair = f"That is not a legal action. Answer with exactly one of: {legal}"
            messages = [*messages, AIMessage(reply or "(nothing)"), HumanMessage(repair)]
        return Decision(
            chosen or safe,
            None if chosen else f"unreadable reply: {one_line(reply)[:80] or 'empty'}",
            attempts=attempts,
        )

    return TalkingActor(resources, choose)


async def _ask(messages: list[BaseMessage], offer: Offer, ask: Ask) -> AIMessage:
    with suppress(RequestRefused):
        return await ask(messages, **response_format(schema(offer)))
    plain = [SystemMessage(f"{messages[0].content}\n{_forms(offer.actions)}"), *messages[1:]]
    return await ask(plain)


def guided_offer(context: BuiltContext, resources: Resources) -> Offer:
    """Return the offer of the configured world's guide for the context's actions.

    A guide is registered under the world's ``env.kind`` in the entry-point group ``stategate.guides``:
    from a built context and the actions that are worth trying to what the model may choose.
    Actions that were repeated without effect are removed first; without a guide all others stay.
    """
    vain = vain_actions(context)
    fresh = tuple(a for a in context.actions if one_line(a) not in vain) or context.actions
    guide = next(iter(entry_points(group="stategate.guides", name=resources.env_kind)), None)
    offer: Offer = Offer(fresh) if guide is None else guide.load()(context, fresh)
    return offer


def _forms(actions: Sequence[str]) -> str:
    """Say how actions are written, for servers that hold no reply to a schema."""
    verbs = dict.fromkeys(verb_of(a) for a in actions if takes_text(a) or a.endswith("]"))
    forms = [f"{verb}[...]" for verb in verbs]
    return f"Write the action alone, {'as ' + ' or '.join(forms) if forms else 'word for word'}."
