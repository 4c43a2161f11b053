"""What to put before a small language model on a WebShop page: a planner, for ``guided_chat``."""

from collections.abc import Sequence

from stategate.envs.protocols import target_of
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.view import BACK, BUY, DETAILS, NEXT, OPENED, PREV
from stategate.nodes.act.replies import Offer
from stategate.nodes.act.shop.page import ShopPage, read_page
from stategate.nodes.protocols import BuiltContext
from stategate.stores.text import one_line

_PRODUCTS = 2  # products after which a small model may no longer go back
_BUTTONS = ("< prev", "buy now", "back to search", "next >")
_ELSEWHERE = {BACK, *DETAILS}
_LENGTHS = {"search": (3, 120)}


def guide(context: BuiltContext, actions: Sequence[str]) -> Offer:
    """Withhold what the prompt itself shows to be pointless.

    Small models buy before they choose options, wander back to the search, and turn pages for ever. On
    an item with a choice to make: its first group's values, or going back (until two products were
    opened: a small model rejects for ever); else buying or going back, no sub-pages, since what they
    say has left the prompt by the time of buying. On results: products not opened before, the next
    page only when all were.
    """
    page = read_page(context)
    offered = set(actions)
    group = asks = None
    if BUY in actions:
        offered, group = _on_item(page, actions)
        if group is not None:
            asks = f'Choose the {group}: {{"{group}": "value that the instruction asks for"}}'
    elif any(OPENED.fullmatch(action) for action in actions):
        products = {a for a in actions if OPENED.fullmatch(a)} - set(page.trail.history)
        offered = products or {NEXT} & set(actions)
    listed = tuple(action for action in actions if action in offered)
    if not listed:
        return Offer(tuple(actions), lengths=_LENGTHS)
    values = tuple(a for a in listed if a != SEARCH and target_of(a) not in _BUTTONS)
    return Offer(listed, group, values if group is not None else (), asks, _LENGTHS)


def _on_item(page: ShopPage, actions: Sequence[str]) -> tuple[set[str], str | None]:
    """Return what to offer of a product's page, and the group that waits for a choice, if any.

    The page's marks alone do not say so: WebShop never marks a value with a quote in it.
    """
    groups = {name: {action for _, action in values} for name, values in page.options}
    waiting = [
        name
        for name, values in groups.items()
        if name not in page.chosen and not {one_line(v) for v in values} & set(page.trail.since)
    ]
    offered = set(actions).difference(_ELSEWHERE, *groups.values())
    if page.chosen or len(set(page.trail.opened)) >= _PRODUCTS:
        offered.discard(PREV)  # a wrong product shows before any choice is made
    if not waiting:
        return offered, None
    return (offered - {BUY}) | groups[waiting[0]], waiting[0]
