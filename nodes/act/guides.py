"""Which actions a small model is offered at each stage, judged from the built context alone.

Small models buy before they choose options, wander back to the search, and turn pages for ever. Each
rule below reads lines of the prompt; nothing else is known here, and nothing about the goal:

- Item page with a "Not chosen yet:" line: only values of the first group it names, or going back
  (until ``PRODUCTS`` products were opened: the 1.5B model rejects for ever).
  With everything chosen (or nothing to choose): buy, or go back. Sub-pages are not offered, since
  what they say has left the context by the time of buying.
- Results page: the products not opened before; the next page only once all of them were opened.
  (Offered freely, the 1.5B model turned pages for ever.)
- Anything else: what the context holds.

Where a rule would leave nothing, the context's own actions stand.
"""

import re
from dataclasses import dataclass

from nodes.act.shop.rule import OPENED
from nodes.protocols import BuiltContext

PRODUCTS = 2
_WAITING = re.compile(r"^Not chosen yet: (.+)$", re.MULTILINE)
_OPTION = re.compile(r"^Option (.+?):(.*)$", re.MULTILINE)
_CHOSEN = re.compile(r"^Chosen: (.+?) = .+$", re.MULTILINE)
_ACTED = re.compile(r"^\d+\. (.+)$", re.MULTILINE)
_PREV, _NEXT, _BUY = "click[< prev]", "click[next >]", "click[buy now]"
_ELSEWHERE = {"click[back to search]", "click[description]", "click[features]"}
_ELSEWHERE |= {"click[reviews]", "click[attributes]"}


@dataclass(frozen=True)
class Offer:
    """What to put before the model: actions, their option group (if one), a closing question."""

    actions: tuple[str, ...]
    group: str | None = None
    asks: str | None = None


def guided(context: BuiltContext) -> Offer:
    """Return the actions worth offering, in the context's order."""
    actions = context.actions
    done = _ACTED.findall(context.text.partition("Actions so far:\n")[2])
    group = asks = None
    offered: set[str] = set(actions)
    if _BUY in actions:
        offered, group = _on_item(context, done)
        if group is not None:
            asks = f'Choose the {group}: {{"{group}": "value that the instruction asks for"}}'
    elif any(OPENED.fullmatch(action) for action in actions):
        offered = _on_results(actions, done)
    kept = tuple(action for action in actions if action in offered)
    return Offer(kept, group, asks) if kept else Offer(actions)


def _on_item(context: BuiltContext, done: list[str]) -> tuple[set[str], str | None]:
    groups = dict(_OPTION.findall(context.text))
    group = next((name for name in _waiting(context, groups, done) if name in groups), None)
    values = {name: _values(listed) for name, listed in groups.items()}
    offered = set(context.actions).difference(_ELSEWHERE, *values.values())
    opened = {action for action in done if OPENED.fullmatch(action)}
    if _CHOSEN.search(context.text) or len(opened) >= PRODUCTS:
        offered.discard(_PREV)  # a wrong product shows before any choice is made
    if group is not None:
        offered = (offered - {_BUY}) | values[group]
    return offered, group


def _values(listed: str) -> set[str]:
    return {f"click[{value.strip()}]" for value in listed.split(" | ")}


def _waiting(context: BuiltContext, groups: dict[str, str], done: list[str]) -> list[str]:
    """Return the option groups without a choice, by the page's marks and by the latest actions.

    The page's marks alone will not do: WebShop never marks a value with a quote in it.
    """
    line = _WAITING.search(context.text)
    since: set[str] = set()
    for action in reversed(done):
        if OPENED.fullmatch(action):
            break
        since.add(action)
    marked = set(_CHOSEN.findall(context.text))
    names = line[1].split(", ") if line is not None else [n for n in groups if n not in marked]
    return [name for name in names if not _values(groups.get(name, "")) & since]


def _on_results(actions: tuple[str, ...], done: list[str]) -> set[str]:
    products = {a for a in actions if OPENED.fullmatch(a)} - set(done)
    return products or {_NEXT} & set(actions)
