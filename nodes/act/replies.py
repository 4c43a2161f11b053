"""Between legal actions and what a language model writes: a JSON schema out, an action back."""

import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage

from stategate.envs.protocols import is_legal, takes_text, target_of, verb_of
from stategate.nodes.models.calls import Ask, arun, json_in, reply_to, run, spent
from stategate.nodes.protocols import BuiltContext, Decision
from stategate.nodes.resources import Resources
from stategate.stores.text import one_line

#: Bounded, because a reply may be long and none of its brackets closed.
_ACTION = r"\b({verbs})\s{{0,9}}\[(.{{1,500}}?)\]\s{{0,9}}(?:$|[\n.,;`\"'}}])"


class TalkingActor:
    """An actor whose decision is the result of ``plan``, with what all its calls cost."""

    def __init__(
        self,
        resources: Resources,
        plan: Callable[[BuiltContext, Ask], Coroutine[Any, Any, Decision]],
    ) -> None:
        self._resources = resources
        self._plan = plan
        resources.llm_params  # noqa: B018 - a config without a model fails here, not mid-episode

    def __call__(self, context: BuiltContext, step: int) -> Decision:
        """Choose; keeps this thread meanwhile. Raises ``ModelUnavailable`` where nobody answers."""

        async def wait(call: Coroutine[Any, Any, AIMessage]) -> AIMessage:
            return run(call)

        steps = self._counted(context, wait)
        try:
            steps.send(None)  # what it awaits is done when it returns, so that no loop is needed
        except StopIteration as end:
            return cast(Decision, end.value)
        raise TypeError("a plan awaits nothing but the model")

    async def adecide(self, context: BuiltContext, step: int) -> Decision:
        """Choose without keeping a thread meanwhile."""
        return await self._counted(context, arun)

    async def _counted(
        self,
        context: BuiltContext,
        wait: Callable[[Coroutine[Any, Any, AIMessage]], Awaitable[AIMessage]],
    ) -> Decision:
        replies: list[AIMessage] = []

        async def ask(messages: Sequence[BaseMessage], **settings: Any) -> AIMessage:
            replies.append(await wait(reply_to(self._resources, messages, settings)))
            return replies[-1]

        decision = await self._plan(context, ask)
        return replace(decision, **spent(self._resources.llm, replies)) if replies else decision


@dataclass(frozen=True)
class Offer:
    """The actions that a language model may choose among, and how to ask for them.

    ``group`` names the choice that the actions ``values`` settle, ``asks`` is a closing line of the
    prompt.
    """

    actions: tuple[str, ...]
    group: str | None = None
    values: tuple[str, ...] = ()
    asks: str | None = None


def schema(offer: Offer) -> dict[str, object]:
    """Return a JSON schema that admits exactly the offered actions; free text stays free.

    ``verb[target]`` is written as ``{verb: target}``, any other command as ``{"action": command}``.
    The values of the offer's group are written as ``{group: value}``, which small models get right more
    often.
    """
    targets: dict[str, list[str]] = {}
    for action in dict.fromkeys((*offer.values, *offer.actions)):
        if not takes_text(action):
            key = offer.group if action in offer.values else None
            targets.setdefault(key or _key(action), []).append(target_of(action))
    choices = [_object(key, {"type": "string", "enum": names}) for key, names in targets.items()]
    for action in filter(takes_text, offer.actions):
        choices.append(_object(verb_of(action), {"type": "string", "minLength": 1}))
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _key(action: str) -> str:
    """Return the key of an action in JSON: its verb, if it is written with brackets."""
    return "action" if target_of(action) == action else verb_of(action)


def _object(key: str, value: dict[str, object]) -> dict[str, object]:
    shape = {"type": "object", "properties": {key: value}, "required": [key]}
    return {**shape, "additionalProperties": False}


def parse(reply: str, actions: Sequence[str], group: str | None = None) -> str | None:
    """Return the legal action that ``reply`` names, or None; ``group`` is that of an offer.

    Understands the schema's JSON (also inside prose or a code fence), ``verb[target]`` in plain text
    and a bare command; case and outer white space are forgiven, nothing else is.
    """
    legal = tuple(actions)
    exact = {action: action for action in legal if not takes_text(action)}
    folded_actions = {_folded(action): action for action in exact}
    for candidate in (*_written(reply, legal, group), reply):
        action = exact.get(candidate) or folded_actions.get(_folded(candidate))
        if action is not None:
            return action
        # Free text as worlds write it: the verb in lower case, the text folded.
        verb, bracket, words = candidate.strip().partition("[")
        folded = one_line(words.removesuffix("]"))
        text = f"{verb.strip().lower()}[{folded}]" if bracket else candidate.strip()
        if is_legal(text, legal):
            return text
    return None


def _written(reply: str, legal: Sequence[str], group: str | None) -> list[str]:
    """Return the actions that ``reply`` names in JSON, then those in plain text."""
    verbs = dict.fromkeys(verb_of(action) for action in legal if _key(action) != "action")
    value = json_in(reply)
    actions = [f"{verb}[{value[verb]}]" for verb in verbs if isinstance(value.get(verb), str)]
    if group is not None and isinstance(value.get(group), str):
        target = _folded(value[group])
        actions = [a for a in legal if _folded(target_of(a)) == target] + actions
    if isinstance(value.get("action"), str):
        actions = [value["action"]]
    if verbs:
        pattern = _ACTION.format(verbs="|".join(map(re.escape, verbs)))
        matches = re.finditer(pattern, reply, re.IGNORECASE | re.DOTALL)
        actions += [f"{match[1]}[{match[2]}]" for match in matches]
    return actions


def unanswered(resources: Resources, context: BuiltContext, reason: str) -> Decision:
    """Return the world's safe action, because there is no answer for this ``reason``."""
    return Decision(resources.profile.view.actions.safe(context.actions, ""), fallback=reason)


def _folded(action: str) -> str:
    """Return an action as it is compared: lower case, single spaces, none around the brackets."""
    verb, bracket, target = action.strip().lower().partition("[")
    if not bracket:
        return " ".join(verb.split())
    return f"{verb.strip()}[{' '.join(target.removesuffix(']').split())}]"
