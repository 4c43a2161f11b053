"""WebShop as a pure function from (session, action) to (session, observation).

Reproduces princeton-nlp/WebShop's text environment (Yao et al., 2022) without its server, its HTML
and its Java index. A world never changes after loading: share one among threads and episodes.

A session is a JSON value: ``goal`` (index, or None) and ``instruction`` (free text of a goalless
episode, or None); ``page`` (search, results, item, sub, done); the results page's ``keywords`` and
``number``; the product's ``asin``, ``options`` and ``sub``; ``visited`` products since the last search.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from stategate.envs.protocols import Observation, Session, World, numbered, task_sentence
from stategate.envs.webshop import pages
from stategate.envs.webshop.bm25 import Bm25
from stategate.envs.webshop.catalogue import Catalogue, Product, read_catalogue, search_text
from stategate.envs.webshop.goals import Goals, draw_prices, make_goals, training_goals
from stategate.envs.webshop.reward import outcome, score
from stategate.envs.webshop.wordings import TEMPLATE, reworded
from stategate.stores.errors import UserError

PAGES = ("search", "results", "item", "sub", "done")
HITS = 50


def start(goal: int | None, instruction: str | None) -> dict[str, Any]:
    """Return the session at the search page."""
    return {
        "goal": goal,
        "instruction": instruction,
        "page": "search",
        "keywords": None,
        "number": None,
        "asin": None,
        "options": {},
        "sub": None,
        "visited": [],
    }


_FIELDS = frozenset(start(None, None))


def checked(session: Any) -> Mapping[str, Any]:
    """Return ``session`` where it is one. Raises ``UserError``."""
    if isinstance(session, Mapping) and session.keys() == _FIELDS and session["page"] in PAGES:
        words, number = session["keywords"], session["number"]
        is_found = isinstance(words, list | tuple) and words and isinstance(number, int)
        if is_found or (session["page"] == "search" and words is None):
            return session
    raise UserError("this is not a WebShop session: take one from reset() or step()")


class WebShop(World):
    """The world. ``goals`` are dicts in the original's order; ``products`` are by ASIN."""

    name = "webshop"

    def __init__(
        self,
        catalogue: Catalogue,
        observation: Literal["text", "rich"] = "text",
        seed: int = 0,
        goals: Goals = "synthetic",
        wording: str = TEMPLATE,
    ) -> None:
        if observation not in ("text", "rich"):
            raise UserError(f"observation must be 'text' or 'rich', not '{observation}'")
        self.observation = observation
        self.seed = seed
        self.catalogue = catalogue
        self.products: dict[str, Product] = catalogue.products
        rng = random.Random(seed)
        self.prices = draw_prices(list(self.products.values()), rng)
        made = make_goals(goals, catalogue, self.prices, rng)
        templated = made if goals == "synthetic" else []  # people's own words stay
        self.goals = reworded(templated, self.products, wording, seed) or made
        #: Numbers of the goals to train on.
        self.training: Sequence[int] = training_goals(templated)
        # Equal scores come out by ASIN, as in the original's index: so index in that order.
        self._by_asin = sorted(self.products.values(), key=lambda product: product.asin)
        self._engine = Bm25(map(search_text, self._by_asin), len(self._by_asin))
        self._search = lru_cache(maxsize=1024)(self._find)

    @classmethod
    def load(
        cls,
        folder: str | Path = "sample",
        observation: Literal["text", "rich"] = "text",
        seed: int = 0,
        goals: Goals = "synthetic",
        wording: str = TEMPLATE,
    ) -> "WebShop":
        """Load the official files from ``folder``, or the catalogue that ships ("sample").

        ``seed`` drives the price draws (0 gives the published goals), ``goals`` are "synthetic" or
        "human", ``wording`` says the synthetic ones in other words.
        Raises ``UserError`` for missing or broken data.
        """
        return cls(read_catalogue(folder), observation, seed, goals, wording)

    @property
    def fingerprint(self) -> str:
        """A hash of the data that the world was loaded from."""
        return self.catalogue.fingerprint

    def tasks(self) -> Sequence[Mapping[str, Any]]:
        """Return a task for each goal."""
        return [{"goal": i} for i in range(len(self.goals))]

    def reset(self, task: Mapping[str, Any]) -> tuple[Session, Observation]:
        """Start ``{"goal": i}``, or ``{"instruction": "free text"}``.

        A free instruction has no goal: buying ends the episode with reward 0. Beside a goal, ``say``
        is another sentence for it: pages show that one, the reward stays the goal's.
        """
        forms = ({"goal"}, {"goal", "say"}, {"instruction"})
        if not isinstance(task, Mapping) or set(task) not in forms:
            raise UserError(
                'a WebShop task is {"goal": number}, with "say" if you like, '
                'or {"instruction": "free text"}'
            )
        if "instruction" in task:
            text = " ".join(str(task["instruction"]).split())
            if not text:
                raise UserError("the instruction is empty: say what to buy")
            session = start(None, text)
        else:
            words = task_sentence(task)
            session = start(self._goal_number(task["goal"]), words)
        return session, self.observe(session)

    def step(self, session: Session, action: str) -> tuple[Session, Observation]:
        """Return the next session and its observation.

        An action that the page does not offer changes nothing and has reward 0, as in the
        original; a search is accepted on any page until the purchase.
        """
        if not isinstance(action, str):
            raise UserError(f"an action is text such as search[red shoes], not {action!r}")
        here = checked(session)
        there = self._follow(here, action)
        seen = self.observe(there)
        return there, replace(seen, reward=0.0) if there is here else seen

    def observe(self, session: Session) -> Observation:
        """Draw the page of ``session``."""
        here = checked(session)
        nodes = self._nodes(here)
        info: dict[str, Any] = {}
        reward = 0.0
        if here["page"] == "done":
            reward, info["reward"] = self._reward(here)
            goal = None if here["goal"] is None else self.goals[here["goal"]]
            bought = self.products[here["asin"]]
            info["outcome"] = outcome(bought, here["options"], goal, info["reward"] or {})
        text, actions = self._draw(here, nodes), pages.affordances(nodes)
        return Observation(text, actions, reward, here["page"] == "done", info)

    def instruction(self, session: Session) -> str:
        """Return what the user asked for."""
        here = checked(session)
        if here["instruction"] is not None:
            return str(here["instruction"])
        return str(self.goals[self._goal_number(here["goal"])]["instruction_text"])

    def search(self, query: str, k: int = HITS) -> list[str]:
        """Return the ASINs of the ``k`` best products for ``query``, best first (BM25)."""
        return [self._by_asin[i].asin for i, _ in self._engine.search(query, k)]

    def group_of(self, number: int) -> str:
        """Return the product that goal ``number`` is about: goals of one product are one cluster."""
        return str(self.goals[self._goal_number(number)]["asin"])

    def _goal_number(self, goal: Any) -> int:
        if not self.goals:
            raise UserError("this catalogue has no goals: start with an instruction instead")
        return numbered(goal, len(self.goals), "goal")

    def _follow(self, here: Session, action: str) -> Session:
        """Return the session after ``action``, or ``here`` itself where it does nothing."""
        verb, target = _parts(action)
        target = target.lower()
        if not verb or here["page"] == "done":
            return here
        if verb == "search":
            return _at_results(here, target.split(" "), 1)
        node = pages.clickables(self._nodes(here)).get(target)
        if verb != "click" or node is None or target == "search":
            return here
        return _clicked(here, target, node)

    def _nodes(self, here: Session) -> list[pages.Node]:
        wish, page = self.instruction(here), here["page"]
        if page == "search":
            return list(pages.search_nodes(wish))
        if page == "results":
            hits, number = self._search(tuple(here["keywords"])), here["number"]
            listed = hits[(number - 1) * pages.PER_PAGE : number * pages.PER_PAGE]
            return list(pages.results_nodes(wish, listed, number, len(hits)))
        product = self.products.get(here["asin"])
        if product is None:
            raise UserError(f"no product {here['asin']!r}: this session is of another catalogue")
        if page == "item":
            return list(pages.item_nodes(wish, product))
        if page == "sub":
            return list(pages.sub_nodes(wish, product, here["sub"]))
        return list(pages.done_nodes(product.asin, dict(here["options"]), self._reward(here)[0]))

    def _draw(self, here: Session, nodes: Sequence[pages.Node]) -> str:
        if self.observation == "text":
            texts = (node.text.strip() for node in nodes if node.text not in ("", "\n"))
            return pages.SEPARATOR.join(texts)
        url = ""
        if here["page"] == "item":  # the part of its address in which chosen values are looked for
            words, options = "+".join(here["keywords"]), json.dumps(here["options"])
            url = f"{here['asin']}/{words}/{here['number']}/{options}"
        return pages.draw_rich(nodes, url, here["visited"])

    def _reward(self, here: Session) -> tuple[float, dict[str, Any] | None]:
        if here["goal"] is None:
            return 0.0, None
        goal = self.goals[self._goal_number(here["goal"])]
        return score(self.products[here["asin"]], goal, self.prices[here["asin"]], here["options"])

    def _find(self, keywords: tuple[str, ...]) -> tuple[Product, ...]:
        """Return the products of a results page; the first word may name a field (`<c>` …)."""
        field, query = keywords[0], " ".join(keywords[1:]).strip()
        every = list(self.products.values())
        if field == "<r>":  # random in the original; here the same for the same seed and words
            rng = random.Random(f"{self.seed} {query}".encode("utf-8", "surrogatepass"))
            return tuple(rng.sample(every, min(HITS, len(every))))
        if field == "<a>":
            return tuple(p for p in every if query in p.attributes)
        if field == "<c>":
            category = keywords[1].strip() if len(keywords) > 1 else ""
            return tuple(p for p in every if p.category == category)
        if field == "<q>":
            return tuple(p for p in every if p.query == query)
        return tuple(self._by_asin[i] for i, _ in self._engine.search(" ".join(keywords), HITS))


def _clicked(here: Session, target: str, node: pages.Node) -> Session:
    """Return the session after a click on ``node``; a button's label counts first."""
    label = next((label for label in pages.LABELS if label.lower() == target), "")
    if label == pages.BUY:
        return {**here, "page": "done"}
    if label == pages.BACK:
        return start(here["goal"], here["instruction"])
    if label in pages.SUB_PAGES:
        return {**here, "page": "sub", "sub": label}
    if label == pages.PREV and here["page"] == "sub":
        return {**here, "page": "item", "sub": None}
    if label in (pages.PREV, pages.NEXT):
        turn = 0 if here["page"] == "item" else 1 if label == pages.NEXT else -1
        return _at_results(here, here["keywords"], here["number"] + turn)
    if node.role == "link":
        visited = [*dict.fromkeys((*here["visited"], node.text))]
        return {**here, "page": "item", "asin": node.text, "visited": visited}
    return {**here, "options": {**here["options"], node.group: target}}


def _at_results(here: Session, keywords: Sequence[str], number: int) -> Session:
    fresh = start(here["goal"], here["instruction"])
    at = {"page": "results", "keywords": list(keywords), "number": number}
    return {**fresh, **at, "visited": here["visited"]}


def _parts(action: str) -> tuple[str, str]:
    """Return verb and target as the original's greedy pattern finds them, both "" for no action.

    The pattern itself takes squares of time where brackets are opened and never closed.
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    opening = line.rfind("[", 1, max(end - 1, 0))
    return (line[:opening], line[opening + 1 : end]) if opening > 0 else ("", "")
