"""The planner of ``guided_chat`` for WebShop: the actions that a page leaves worth offering."""

from collections.abc import Sequence

from stategate.envs.webshop.view import BACK, BUY, DETAILS, NEXT, OPENED, PREV
from stategate.nodes.act.replies import Offer
from stategate.nodes.act.shop import ShopPage
from stategate.nodes.protocols import BuiltContext
from stategate.stores.text import one_line

_PRODUCTS = 2  # products after which a small model may no longer go back
_ELSEWHERE = {BACK, *DETAILS}
_LENGTHS = {"search": (3, 120)}


def guide(context: BuiltContext, actions: Sequence[str]) -> Offer:
    """Return the actions that are not pointless by what the prompt shows.

    Small models buy before they choose options, wander back to the search, and turn pages for ever. An
    item with an open choice offers its first group's values, or going back (until two products were
    opened: a small model rejects for ever). Any other item offers buying or going back, and no
    sub-pages, since their text has left the prompt by the time of buying. Results offer the products
    that were not opened before, and the next page only when all were.
    """
    page = ShopPage(context)
    allowed = set(actions)
    group = asks = None
    values: list[str] = []
    if BUY in actions:
        groups = {name: {action for _, action in values} for name, values in page.options.items()}
        # The page's marks alone do not say what is chosen: WebShop never marks a value with a quote.
        waiting = [
            name
            for name, values in page.options.items()
            if name not in page.chosen
            and not {one_line(a) for _, a in values} & set(page.trail.since)
        ]
        allowed = allowed.difference(_ELSEWHERE, *groups.values())
        if page.chosen or len(set(page.trail.opened)) >= _PRODUCTS:
            allowed.discard(PREV)  # a wrong product shows before any choice is made
        if waiting:
            group = waiting[0]
            allowed = (allowed - {BUY}) | groups[group]
            values = [action for _, action in page.options[group]]
            asks = f'Choose the {group}: {{"{group}": "value that the instruction asks for"}}'
    elif any(OPENED.fullmatch(action) for action in actions):
        products = {a for a in actions if OPENED.fullmatch(a)} - set(page.trail.history)
        allowed = products or {NEXT} & set(actions)
    listed = tuple(action for action in actions if action in allowed)
    if not listed:
        return Offer(tuple(actions), lengths=_LENGTHS)
    return Offer(listed, group, tuple(a for a in listed if a in values), asks, _LENGTHS)
