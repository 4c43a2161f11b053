"""Between legal actions and what a language model writes: a JSON schema out, an action back."""

import json
import re
from collections.abc import Sequence
from typing import Any

from envs.protocols import ANSWER, FREE, SEARCH, is_legal

_BUTTONS = ("< prev", "buy now", "back to search", "next >")
_ACTION = re.compile(
    r"\b(search|click|answer)\s*\[(.+?)\]\s*(?:$|[\n.,;`\"'}])", re.IGNORECASE | re.DOTALL
)


def schema(actions: Sequence[str], thought: int = 0, group: str | None = None) -> dict[str, Any]:
    """Return a JSON schema that admits exactly ``actions``; a search's words stay free text.

    ``thought`` > 0 lets the model first write that many characters of reasoning. With ``group``,
    option values are written as ``{group: value}``, which small models get right more often.
    """
    targets = [a.removeprefix("click[").removesuffix("]") for a in actions if a not in FREE]
    choices: list[dict[str, Any]] = []
    if group is not None:
        values = [target for target in targets if target not in _BUTTONS]
        targets = [target for target in targets if target in _BUTTONS]
        choices.append(_object(group, {"type": "string", "enum": values}, thought))
    if targets:
        choices.append(_object("click", {"type": "string", "enum": targets}, thought))
    if SEARCH in actions:
        words = {"type": "string", "minLength": 3, "maxLength": 120}
        choices.append(_object("search", words, thought))
    if ANSWER in actions:
        choices.append(_object("answer", {"type": "string", "minLength": 1}, thought))
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _object(key: str, value: dict[str, Any], thought: int) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if thought:
        properties["thought"] = {"type": "string", "maxLength": thought}
    properties[key] = value
    required = list(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def parse(reply: str, actions: Sequence[str], group: str | None = None) -> str | None:
    """Return the legal action that ``reply`` names, or None.

    Understands the schema's JSON (also inside prose or a code fence) and ``click[...]`` /
    ``search[...]`` in plain text; case and outer white space are forgiven, nothing else is.
    """
    legal = tuple(actions)
    for candidate in (*_from_json(reply, group), *_from_text(reply)):
        action = _normal(candidate)
        if is_legal(action, legal):
            return action
    return None


def thought_of(reply: str) -> str:
    """Return the reasoning that came with ``reply`` ("" if none)."""
    value = _loads(reply)
    return str(value.get("thought", "")).strip() if isinstance(value, dict) else ""


def _from_json(reply: str, group: str | None) -> list[str]:
    value = _loads(reply)
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("action"), str):
        return [value["action"]]
    found = [
        f"{k}[{value[k]}]" for k in ("click", "search", "answer") if isinstance(value.get(k), str)
    ]
    if group is not None and isinstance(value.get(group), str):
        found.insert(0, f"click[{value[group]}]")
    return found


def _loads(reply: str) -> Any:
    start, end = reply.find("{"), reply.rfind("}")
    try:
        return json.loads(reply[start : end + 1]) if 0 <= start < end else None
    except ValueError:
        return None


def _from_text(reply: str) -> list[str]:
    return [f"{match[1]}[{match[2]}]" for match in _ACTION.finditer(reply)]


def _normal(action: str) -> str:
    verb, _, rest = action.strip().partition("[")
    target = " ".join(rest.removesuffix("]").split())
    verb = verb.strip().lower()
    return f"{verb}[{target.lower() if verb == 'click' else target}]"
