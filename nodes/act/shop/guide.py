"""The planner of ``guided_chat`` for WebShop: the actions that a page leaves worth offering."""

from collections.abc import Sequence

from stategate.envs.webshop.view import BACK, BUY, DETAILS, NEXT, OPENED, PREV
from stategate.nodes.act.replies import Offer
from stategate.nodes.act.shop import ShopPage
from stategate.nodes.protocols import BuiltContext
from stategate.stores.text import one_line

_PRODUCTS = 2  # products after which a small model may no longer go back
_ELSEWHERE = {BACK, *DETAILS}


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
        groups = {one_line(piece.choice): piece.actions for piece in page.choices}
        # The page's marks alone do not say what is chosen: WebShop never marks a value with a quote.
        waiting = [
            name
            for name, clicks in groups.items()
            if name not in page.chosen and not {*map(one_line, clicks)} & {*page.clicks}
        ]
        allowed = allowed.difference(_ELSEWHERE, *groups.values())
        if page.chosen or len(page.visits) >= _PRODUCTS:
            allowed.discard(PREV)  # a wrong product shows before any choice is made
        if waiting:
            group = waiting[0]
            values = [*groups[group]]
            allowed = (allowed - {BUY}).union(values)
            asks = f'Choose the {group}: {{"{group}": "value that the instruction asks for"}}'
    elif any(OPENED.fullmatch(action) for action in actions):
        products = {a for a in actions if OPENED.fullmatch(a)} - set(page.done)
        allowed = products or {NEXT} & set(actions)
    listed = tuple(action for action in actions if action in allowed)
    if not listed:
        return Offer(tuple(actions))
    return Offer(listed, group, tuple(a for a in listed if a in values), asks)
