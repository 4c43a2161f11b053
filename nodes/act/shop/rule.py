"""``rule``: a deterministic shopper that reads only the built context.

It makes context builders comparable over hundreds of episodes, because all that it knows is in the
prompt. Its policy:

1. *Search* for the instruction's words that matter, without the price.
2. *Results*: open the best product by its title's share of the words (rare words count more, a lower
   place costs some) that is neither too dear nor opened before; else turn the page, up to ``pages``;
   else, or from step ``patience`` on, open again the one whose title and notes fit best. Where
   all are above a surely stated limit, search for less of what is wanted, then say so.
3. *Item*, first visit: go back from what is too dear or most likely not asked for; read the features
   unless the title says all that is wanted.
4. *Features*: with the share ``threshold`` of the wanted properties go back to the item, else to the
   search. The action history thereby records the verdict.
5. *Item*, accepted: click each requested value once, and buy.

A second visit, or any visit from step ``patience`` + 3 on, takes the best values there are and buys. So
an episode ends within about ``patience`` + 8 steps, as long as products and buttons are readable. Where
no rule applies, the decision is a recorded fallback (the view's ``actions.safe``).

With ``follow`` it also reads the prompt's "Experience:" lines, nothing else, and only until its
patience ends. A line's "Suggested next: MOVE" (or the step of a "Suggested plan: A, B, C" that this
page allows) bends its own rule, where that is allowed (``Rule._bent``, ``Rule._bent_on_item``).

What the page shows to be wrong (too dear, a wanted option not offered) is left whatever the advice.
Anything else, or a move that the page does not offer, leaves its own decision alone. A decision that
was bent says so in its reason.
"""

from typing import ClassVar, Literal

from pydantic import Field

from stategate.envs.webshop.reading import FORMS
from stategate.envs.webshop.view import BACK, BUY, FEATURES, NEXT, PREV, WebShopActions
from stategate.nodes.act.page_features import WHOLE, amount_of, match_share
from stategate.nodes.act.shop import ShopPage
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stategate.nodes.resources import Resources
from stategate.stores.text import one_line

_ADVISED_PAGES = 5
_ADVISED_SEARCHES = 2
_GRACE = 3  # steps past the patience, enough to leave a wrong item and open the one to settle for
_PLACE_COST = 0.15  # of standing one place further down the list
_ASKED = 0.5  # probability from which a value is asked; when it settles, a likely one will do
_LIKELY = 0.01
_MET = 0.5  # probability of being what is asked, below which a product is left
_safe = WebShopActions().safe

#: An action and the reason for it.
Choice = tuple[str, str]


class Rule(ActorParams):
    """No model: shops by fixed rules over what it can read."""

    kind: Literal["rule"] = "rule"
    worlds: ClassVar[tuple[str, ...]] = ("webshop",)
    patience: int = Field(default=12, ge=0, description="the step from which it settles")
    pages: int = Field(default=2, ge=1, description="how many results pages it looks at")
    threshold: float = Field(
        default=0.35,
        ge=0,
        le=1,
        description="share of the wanted attributes that the features must name; 0: never read them",
    )
    search: Literal["search", "search_no_options", "search_kind_options", "search_kind"] = Field(
        default="search", description="what of the wish it searches for: all of it, or some"
    )
    follow: bool = Field(default=False, description='obey "Experience:" lines')

    def build(self, resources: Resources) -> Actor:
        """Return the actor, which is its parameters: equal contexts and steps, equal decisions."""
        return self

    def __call__(self, context: BuiltContext, step: int) -> Decision:
        """Choose among ``context.actions``."""
        page = ShopPage(context)
        chosen = self._own(page, step)
        if self.follow and step < self.patience:
            chosen = self._advised(chosen, suggested(context, page), page, step)
        if chosen is not None and (chosen[0] in page.actions or chosen[0].startswith("search[")):
            return Decision(chosen[0], reason=chosen[1])
        problem = f"nothing to do on this page ({page.kind})"
        if page.kind == "results" and chosen is None:
            nothing = "nothing that was found is within the price limit"
            problem = nothing if page.entries else "the search finds nothing"
        return Decision(_safe(page.actions, context.instruction), fallback=problem)

    def _own(self, page: ShopPage, step: int) -> Choice | None:
        """Return (action, reason) for a readable page; None where no rule applies."""
        if page.kind == "search":
            wanted = searches(page, self.search)[: page.given_up + 1]
            return (wanted[-1], "what is wanted without its price") if wanted else None
        if page.kind == "results":
            return self._results(page, step)
        if page.kind == "item":
            return self._item(page, step)
        return self._detail(page) if page.kind == "detail" else None

    def _results(self, page: ShopPage, step: int) -> Choice | None:
        limit = page.goal.parsed
        scores = page.goal.scores([product.says("title") for product in page.entries])
        worth = {p.actions[0]: scores[i] - _PLACE_COST * i for i, p in enumerate(page.entries)}
        fits = [p for p in page.entries if not limit.excludes(amount_of(p))]
        ranked = sorted(fits, key=lambda p: -worth[p.actions[0]])  # ties keep the shop's order
        opened = [p for p in ranked if p.actions[0] in page.visits]
        fresh = [p for p in ranked if p not in opened and not p.is_visited]
        notes = {
            p.actions[0]: f"{p.says('title')}; {page.notes.get(p.actions[0], '')}" for p in opened
        }
        opened.sort(key=lambda p: -match_share(page.goal, notes[p.actions[0]]))
        again = opened or [p for p in ranked if p.is_visited]
        if step >= self.patience and again:
            return again[0].actions[0], "time to settle for what met most of those opened"
        if fresh:
            return fresh[0].actions[0], "best match of the titles"
        if not page.entries and PREV in page.actions:
            return PREV, "no more products"
        if page.number < self.pages and NEXT in page.actions and not page.is_ended:
            return NEXT, "nothing left on this page"
        allowed = [p for p in page.entries if not limit.forbids(amount_of(p))]
        if candidates := again or allowed:
            return candidates[0].actions[0], "the best of those tried"
        is_last = not page.entries or page.searches >= len(searches(page, self.search))
        return None if is_last else (BACK, "nothing found is within the price limit")

    def _item(self, page: ShopPage, step: int, *, is_accepted: bool = False) -> Choice | None:
        late = step - self.patience - _GRACE
        settles = late >= 0 or page.visits[page.here] > 1
        blind = step > 0 and not page.done
        # A verdict that will not be remembered is not worth the reading.
        is_accepted |= bool(page.clicks)
        values = picks(page, _LIKELY if settles else _ASKED)
        stays = settles or is_accepted or PREV not in page.actions
        is_out = page.goal.parsed.forbids if stays else page.goal.parsed.excludes
        if is_out(page.price) and PREV in page.actions:
            return PREV, "beyond the price limit"
        if not stays and page.goal.meets() < _MET:
            return PREV, "not all that is wanted is offered"
        title_suffices = bool(page.title) and page.goal.share(page.title) >= WHOLE
        reads = self.threshold > 0 and FEATURES in page.actions
        if not (settles or blind or is_accepted) and reads and not title_suffices:
            return FEATURES, "the title does not say it all"
        chosen = set(page.chosen.items())
        waiting = [
            (action, f"wanted {group}")
            for group, value, action in values
            if (group, value) not in chosen and one_line(action) not in page.clicks
        ]
        if waiting and blind and not chosen:
            # Nothing says what is chosen: click the values in turn, and buy when it grows late.
            if late < len(waiting) or BUY not in page.actions:
                return waiting[step % len(waiting)]
        elif waiting:
            return waiting[0]
        done = "everything wanted is chosen" if chosen else "nothing more is to be chosen"
        if settles and (page.goal.meets() < _MET or page.goal.parsed.excludes(page.price)):
            done = "nothing seen is all that is wanted; this is the best of it"
        return (BUY, done) if BUY in page.actions else None

    def _detail(self, page: ShopPage) -> Choice:
        text = f"{page.text}; {page.notes.get(page.here, '')}"
        shares = page.goal.phrase_shares(text, "property")
        # Features seldom name the kind of product ("men's dress shirts"), so its words decide only
        # where no property is wanted, and then half of them are enough.
        share = sum(shares) / len(shares) if shares else min(1.0, 2 * page.goal.share(text))
        if page.text and share < self.threshold and BACK in page.actions:
            return BACK, f"only {share:.0%} of the wish is confirmed"
        return PREV, "confirmed" if page.text else "nothing to read"

    def _advised(
        self, own: Choice | None, move: str | None, page: ShopPage, step: int
    ) -> Choice | None:
        """Return the rule's ``own`` choice, bent by the suggested ``move`` where that is allowed."""
        # A price above the limit or a missing option is a fact, advice is a guess.
        is_left = page.kind == "item" and own is not None and own[0] == PREV
        bent = None if move is None or is_left else self._bent(page, step, move)
        if bent is None or (own is not None and bent[0] == own[0]):
            return own
        return bent[0], f"advice ({move}), not: {own[1] if own else 'nothing to do'}"

    def _bent(self, page: ShopPage, step: int, move: str) -> Choice | None:
        """Return the suggested ``move`` on this page, None where it is not allowed."""
        may_search = page.searches < _ADVISED_SEARCHES
        if page.kind == "search" and move in FORMS:
            wanted = searches(page, move) if may_search else []
            return (wanted[0], "") if wanted else None
        if page.kind == "item":
            return self._bent_on_item(page, step, move)
        is_allowed = {
            "results": {
                "next >": page.number < _ADVISED_PAGES,
                "back to search": may_search,
            },
            "detail": {"< prev": True, "back to search": True},
        }
        target = f"click[{move}]"
        allowed = is_allowed.get(page.kind, {}).get(move) and target in page.actions
        return (target, "") if allowed else None

    def _bent_on_item(self, page: ShopPage, step: int, move: str) -> Choice | None:
        """Return the ``move``: to read the features once, to take this product, or to leave it."""
        if move == "features" and not page.clicks and FEATURES in page.actions:
            return FEATURES, ""
        if move in ("option", "buy now") and not page.clicks:
            return self._item(page, step, is_accepted=True)
        again = page.visits[page.here] > 1
        # Other products were left for what they lacked: that says nothing of one that has it all.
        has_all = bool(picks(page, _ASKED)) and page.goal.meets() >= _MET
        if move == "< prev" and not (page.clicks or again or has_all) and PREV in page.actions:
            return PREV, ""
        return None


def searches(page: ShopPage, form: str) -> list[str]:
    """Return the searches for what is wanted: as ``form`` says, then more broadly."""
    written = dict.fromkeys(page.goal.written(*FORMS[name]) for name in (form, *FORMS))
    return [f"search[{words}]" for words in written if words]


def picks(page: ShopPage, threshold: float) -> list[tuple[str, str, str]]:
    """Return (group, value, action) of each value requested with at least this probability."""
    picked: list[tuple[str, str, str]] = []
    for piece, choice in zip(page.choices, page.goal.choices, strict=True):
        best = choice.best
        is_named = choice.requested[best] >= choice.none or bool(choice.spans[best].places)
        if is_named and choice.requested[best] >= min(threshold, max(choice.none, _LIKELY)):
            picked.append((choice.name, choice.values[best], piece.actions[best]))
    return picked


def suggested(context: BuiltContext, page: ShopPage) -> str | None:
    """Return the move that the first advice suggests for ``page``, None without one.

    One move is a suggestion of what comes next, several are the plan of an episode.
    """
    moves = (
        [f.text for f in p.fragments if f.role == "move"] for p in context.visible("experience")
    )
    plan = next(filter(None, moves), [])
    if len(plan) < 2:
        return plan[0] if plan else None
    if page.kind == "search":
        return next((move for move in plan if move in FORMS), None)
    if page.kind == "results":
        opens = plan.index("open") if "open" in plan else len(plan)
        return "next >" if "next >" in plan[:opens] and page.number == 1 else None
    if page.kind == "item":
        return "features" if "features" in plan else "buy now" if "buy now" in plan else None
    return None
