"""An expert that knows the goal and still shops like a person: it looks, errs, reads and corrects.

What it does, in order. It searches with what is asked for (if those do not find the product,
with words of the product's title); in some episodes the first search is only the kind of product. It
opens the product it wants if the page shows it, else turns the page (after the short search: goes
back and searches better). In some episodes it first opens the best-looking other product; unless
that one's price already rules it out, it reads its features before it returns. Once bitten, it
reads the features of the next product too. It chooses the wanted options in page order; in some
episodes a wrong value first, corrected at once. Then it buys.

Which episodes hold a detour is drawn from ``Rates`` by the episode's own seed; everything else follows
from what the expert has seen, so that a learner of its behaviour can in principle know it.
"""

import random
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from stategate.envs.protocols import Observation, Session, target_of
from stategate.envs.recorder import record_episode
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.pages import PER_PAGE
from stategate.envs.webshop.view import BACK, BUY, FEATURES, NEXT, PREV
from stategate.stores.text import overlap, words_of
from stategate.stores.traces.trajectories import Trajectory

MAX_STEPS = 30
_LAST_PAGE = 5


@dataclass(frozen=True)
class Rates:
    """How often (share of episodes) a detour is tried; some pages offer no occasion for it.

    A *careful* episode reads the features wherever a title does not say all that is wished, and leaves
    a wrong product for a new search straight from there: the page that shows why is the one on which
    to decide, and the actions so far then tell the verdict.
    """

    short_search: float = 0.3
    wrong_product: float = 0.3
    wrong_option: float = 0.3
    careful: float = 0.0


def play(world: WebShop, goal: int, seed: int, rates: Rates | None = None) -> Trajectory:
    """Play ``goal`` to the purchase (or :data:`MAX_STEPS`); the same seed gives the same episode.

    The agent's ``detours`` name those that were really made.
    """
    goal_record = world.goals[goal]
    detours: list[str] = []
    rng = random.Random(f"{seed} {goal}")
    moves = _Expert(world, goal_record, rng, rates or Rates(), detours).moves()
    next(moves)
    played = record_episode(
        world, {"goal": goal}, lambda session, page: moves.send((session, page)), MAX_STEPS
    )
    agent = {
        "kind": "expert",
        "detours": detours,
        "asin": goal_record["asin"],
        "mode": world.observation,
    }
    return played.trajectory(f"expert/{goal}", {"env": "webshop", "goal": goal}, agent)


_Seen = tuple[Session, Observation]
_Moves = Generator[str, _Seen, None]  # yields actions and is sent the page on which to act next


class _Expert:
    def __init__(
        self,
        world: WebShop,
        goal: Mapping[str, Any],
        rng: random.Random,
        rates: Rates,
        detours: list[str],
    ) -> None:
        self._world, self._goal, self._detours = world, goal, detours
        options = goal["goal_options"]  # people's are values without names
        self._phrases = (*goal["attributes"], goal["query"])
        self._values = list(options.values() if isinstance(options, Mapping) else options)
        self._words = tuple(dict.fromkeys(w for phrase in self._phrases for w in words_of(phrase)))
        self._short = rng.random() < rates.short_search
        self._wrong_product = rng.random() < rates.wrong_product
        self._wrong_option = rng.random() < rates.wrong_option
        self._careful = rates.careful > 0 and rng.random() < rates.careful
        self._rng = rng

    def moves(self) -> _Moves:
        """Yield actions; is sent (session, observation) before each."""
        yield ""  # the first page says nothing that is not known
        asin = self._goal["asin"].lower()
        query = _plain(self._goal["query"]) if self._short else self._query()
        seen = yield f"search[{query}]"
        if self._short and f"click[{asin}]" not in seen[1].actions:
            self._detours.append("short search")
            yield BACK
            query = self._query()
            seen = yield f"search[{query}]"
        page, careful = 1, False
        while f"click[{asin}]" not in seen[1].actions and page < _LAST_PAGE:
            self._detours.append("next page")
            seen = yield NEXT
            page += 1
        other = self._lookalike(seen[1]) if self._wrong_product else None
        if other is not None:
            self._detours.append("wrong product")
            careful = not self._careful
            seen = yield f"click[{other.lower()}]"
            too_dear = self._world.prices[other] > float(self._goal["price_upper"])
            reads = not too_dear and not (self._careful and self._title_suffices(other))
            if reads:
                self._detours.append("details read")
                yield FEATURES
            if reads and self._careful:
                yield BACK
                seen = yield f"search[{query}]"
                for _ in range(page - 1):
                    seen = yield NEXT
            else:
                if reads:
                    yield PREV
                seen = yield PREV
        choice = f"click[{asin}]"
        if choice not in seen[1].actions:  # not to be found: the best that the page shows
            choice = f"click[{(self._lookalike(seen[1]) or asin).lower()}]"
        seen = yield choice
        if careful or (self._careful and not self._title_suffices(self._goal["asin"])):
            self._detours.append("details read")
            yield FEATURES
            seen = yield PREV
        yield from self._choose(seen)
        while True:  # where buying was refused, nothing sensible is left
            yield BUY

    def _choose(self, seen: _Seen) -> _Moves:
        product = self._world.products[seen[0]["asin"]]
        target_values = {
            k.lower(): str(v).lower() for k, v in dict(self._goal["goal_options"]).items()
        }
        for group, values in product.options.items():
            value = target_values.get(group.lower())
            lowered = [str(v).lower() for v in values]
            if value is None or value not in lowered:
                continue
            others = [v for v in lowered if v != value]
            if self._wrong_option and others:
                self._wrong_option = False
                self._detours.append("option changed")
                seen = yield f"click[{self._rng.choice(others)}]"
            seen = yield f"click[{value}]"

    def _query(self) -> str:
        """Return the first query of a few that finds the product, the earliest page first."""
        words = " ".join(self._phrases)
        title = " ".join(self._goal["name"].split()[:8])
        with_options = " ".join([words, *map(str, self._values)])
        places: list[tuple[int, int, str]] = []
        for i, text in enumerate((words, with_options, f"{words} {title}", title)):
            query = _plain(text)
            hits = self._world.search(query) if query else []
            if self._goal["asin"] in hits:
                places.append((hits.index(self._goal["asin"]) // PER_PAGE, i, query))
        early = [place for place in places if place[0] < 2]
        if early:
            return min(early, key=lambda place: place[1])[2]
        return min(places)[2] if places else _plain(words) or "product"

    def _lookalike(self, page: Observation) -> str | None:
        """Return the listed product, not the target, whose title shares most words with the goal."""
        listed = [target_of(action).upper() for action in page.actions]
        others = [
            a for a in listed if a in self._world.products and a != self._goal["asin"].upper()
        ]
        return max(
            others, key=lambda a: overlap(self._words, self._world.products[a].name), default=None
        )

    def _title_suffices(self, asin: str) -> bool:
        """Say whether the title of ``asin`` holds every word that the goal asks of the product."""
        return overlap(self._words, self._world.products[asin].name) == 1.0


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[\[\]<>]", " ", text).split())
