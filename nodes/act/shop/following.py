"""The rule actor taught to follow advice: ``actor.follow=true``.

It reads the prompt's "Experience:" lines, nothing else, and only until its patience ends. A line's
"Suggested next: MOVE" (or the step of a "Suggested plan: A, B, C" that this page allows) bends
its own rule so:

    search, search_...      searches for all of the wish or a part of it, in the first two searches
    next >                  turns the page instead of opening a product, up to page 5
    back to search          from the results, once the second search is still to come
    features                reads the features before deciding, once a product
    option, buy now         takes this product without reading its features
    < prev                  on an item: leaves it, unless it was opened before, an option is chosen,
                            or it offers every wanted option
    < prev, back to search  on the features: back to the item (accepted), or to the search (rejected)

What the page shows to be wrong (too dear, a wanted option not offered) is left whatever the advice.
Anything else, or a move that the page does not offer, leaves its own decision alone. A decision that
was bent says so in its reason.
"""

import re
from dataclasses import replace

from envs.webshop.actions import BACK, FEATURES, NEXT, PREV
from nodes.act.shop.reading import Reading
from nodes.act.shop.rule import Rule, RuleActor, Trail, picks, search_for
from nodes.protocols import BuiltContext

_LINE = re.compile(r"^Experience: .*?Suggested (next|plan): (.+)$", re.MULTILINE)
_PAGES = 5
_SEARCHES = 2


class Follower(RuleActor):
    """The policy of ``nodes.act.shop.rule``, bent by advice where there is some."""

    def __init__(self, params: Rule) -> None:
        super().__init__(params)
        self._patience = params.patience

    def choose(
        self, context: BuiltContext, page: Reading, trail: Trail, step: int
    ) -> tuple[str, str] | None:
        """Choose as the rule does, unless advice says otherwise."""
        own = super().choose(context, page, trail, step)
        move = suggested(context.text, page)
        if move is None or step >= self._patience:
            return own
        if page.page == "item" and own is not None and own[0] == PREV:
            return own  # a price above the limit or a missing option is a fact, advice is a guess
        bent = self._bent(page, trail, step, move)
        if bent is None or (own is not None and bent[0] == own[0]):
            return own
        return bent[0], f"advice ({move}), not: {own[1] if own else 'nothing to do'}"

    def _bent(self, page: Reading, trail: Trail, step: int, move: str) -> tuple[str, str] | None:
        if page.page == "search" and move.startswith("search"):
            return search_for(page, move) if trail.searches < _SEARCHES else None
        if page.page == "results":
            if move == "next >" and NEXT in page.actions and page.number < _PAGES:
                return NEXT, ""
            if move == "back to search" and trail.searches < _SEARCHES:
                return (BACK, "") if BACK in page.actions else None
        if page.page == "item":
            return self._on_item(page, trail, step, move)
        if page.page == "detail" and move in ("< prev", "back to search"):
            target = f"click[{move}]"
            return (target, "") if target in page.actions else None
        return None

    def _on_item(self, page: Reading, trail: Trail, step: int, move: str) -> tuple[str, str] | None:
        if move == "features" and not trail.since and FEATURES in page.actions:
            return FEATURES, ""
        if move in ("option", "buy now") and not trail.since:
            return self._item(page, replace(trail, since=["advice"]), step)
        again = trail.opened.count(trail.item or "") > 1
        # Other products were left for what they lacked: that says nothing of one that has it all.
        has_all = bool(page.wish.options) and None not in picks(page, exact=True)
        if move == "< prev" and not (trail.since or again or has_all) and PREV in page.actions:
            return PREV, ""
        return None


def suggested(prompt: str, page: Reading) -> str | None:
    """Return the move that the first "Experience:" line suggests for ``page``, None without one."""
    found = _LINE.search(prompt)
    if found is None:
        return None
    if found[1] == "next":
        return found[2].strip()
    plan = [move.strip() for move in found[2].split(", ")]
    if page.page == "search":
        return next((move for move in plan if move.startswith("search")), None)
    if page.page == "results":
        opens = plan.index("open") if "open" in plan else len(plan)
        return "next >" if "next >" in plan[:opens] and page.number == 1 else None
    if page.page == "item":
        return "features" if "features" in plan else "buy now" if "buy now" in plan else None
    return None
