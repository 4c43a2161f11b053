"""The shop's goals in many wordings as examples: texts to tag, and product pages beside them.

A page's examples say which value of each choice is asked, and whether the product is right. Pages are
the goal's product and others that the shop's search finds for it, so some do not offer what is asked.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.goals import NO_LIMIT
from stategate.envs.webshop.reward import score
from stategate.envs.webshop.wordings import SPLITS, TEMPLATE, names_of, reword
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.language.instruction.choices import choice_features, columns
from stategate.language.instruction.weights import Floats
from stategate.trainers.instruction.recombined import recombined, short_texts
from stategate.trainers.settings import ReaderSettings
from stategate.trainers.webshop import load_shop, practice

#: Families drawn more often: the hardest to read, and the template, the commonest at inference.
_FREQUENT = ("negation", "amend", "correction", "bare", TEMPLATE)
_FREQUENT_SHARE = 0.3
_REDUCED = 0.35  # share of goals that ask for less: people say less than the shop's goals do
_HELD_TEXTS, _HELD_PAGES = 600, 300


@dataclass(frozen=True)
class Instance:
    """A goal in some wording, and the products whose pages stand beside it."""

    goal: Mapping[str, Any]
    pages: tuple[Product, ...]


@dataclass(frozen=True)
class ChoiceExample:
    """One choice of n values on a page: features, the asked value's index (n: none), excluded ones."""

    rows: Floats
    none: Floats
    requested: int
    excluded: tuple[int, ...]


#: The features of a product's page beside an instruction, and whether the product is right.
SubjectExample = tuple[Floats, bool]


def instances(
    shop: WebShop, goals: Iterable[Mapping[str, Any]], families: Sequence[str], seed: int
) -> list[Instance]:
    """Return each goal in a wording of ``families`` or of the template; some goals ask for less."""
    rng = random.Random(seed)
    instances: list[Instance] = []
    frequent = [name for name in _FREQUENT if name == TEMPLATE or name in families]
    for i, goal in enumerate(goals):
        product = shop.products[goal["asin"]]
        hits = [shop.products[a] for a in shop.search(f"{goal['query']} {goal['name']}", 12)]
        others = [p for p in hits if p.asin != product.asin and p.options]
        family = rng.choice(frequent if rng.random() < _FREQUENT_SHARE else families)
        worded = dict(goal)
        if family != TEMPLATE:
            reduced = _reduced(goal, rng) if rng.random() < _REDUCED else goal
            worded = reword(reduced, product, family, f"{seed} {i}")
        instances.append(Instance(worded, (product, *rng.sample(others, min(2, len(others))))))
    return instances


def _reduced(goal: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a goal with one or two of the attributes, half of the options, perhaps no limit."""
    few = min(len(goal["attributes"]), rng.randint(1, 2))
    options = {name: value for name, value in goal["goal_options"].items() if rng.random() < 0.5}
    return {
        **goal,
        "attributes": rng.sample(list(goal["attributes"]), few),
        "goal_options": options,
        "price_upper": rng.choice((goal["price_upper"], NO_LIMIT)),
    }


def choice_examples(instance: Instance) -> Iterator[ChoiceExample]:
    """Yield an example for each choice on an instance's pages."""
    goal = instance.goal
    options = {str(k): str(v) for k, v in goal["goal_options"].items()}
    for product in instance.pages:
        choices = _choices(product)
        described = choice_features(goal["instruction_text"], choices, product.name)
        for (name, values), (rows, none, _) in zip(choices, described, strict=True):
            value = options.get(name)
            requested = values.index(value) if value in values else len(values)
            excluded_value = goal.get("excluded", {}).get(name)
            excluded = tuple(i for i, value in enumerate(values) if value == excluded_value)
            (none_features,) = columns("none", [none])
            yield ChoiceExample(columns("value", rows), none_features, requested, excluded)


def subject_examples(shop: WebShop, instance: Instance) -> Iterator[SubjectExample]:
    """Yield an example for each page; a product is right if buying it can have the reward 1."""
    goal = instance.goal
    options = {str(k): str(v) for k, v in goal["goal_options"].items()}
    for product in instance.pages:
        chosen = {k: v for k, v in options.items() if v in product.options.get(k, ())}
        reward = score(product, goal, shop.prices[product.asin], chosen)[0]
        page = AlignedInstruction.of(goal["instruction_text"], _choices(product), product.name)
        yield columns("subject", [page.subject_features()])[0], reward == 1.0


def _choices(product: Product) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (name, tuple(map(str, values))) for name, values in product.options.items() if values
    )


@dataclass(frozen=True)
class ShopData:
    """A shop with its training and held-out goals, and families of wordings.

    Where no family is held out, ``held_families`` are those of training, too.
    """

    world: WebShop
    goals: Sequence[Mapping[str, Any]]
    heldout: Sequence[Mapping[str, Any]]
    families: list[str]
    held_families: list[str]

    @classmethod
    def of(cls, settings: ReaderSettings) -> "ShopData":
        """Read the shop of the settings."""
        plan = practice(load_shop(settings.shop), settings.seed)
        goals = plan.world.goals
        left_out = (*settings.held_out, *settings.tests)
        families = [n for split in SPLITS if split not in left_out for n in names_of(split)]
        return cls(
            plan.world,
            [goals[i] for i in plan.training],
            [goals[i] for i in plan.heldout],
            families,
            [n for split in settings.held_out for n in names_of(split)] or families,
        )

    def _products(self) -> list[Product]:
        asins = sorted({goal["asin"] for goal in self.goals})
        return [self.world.products[asin] for asin in asins]

    def texts(self, count: int, seed: int) -> Iterator[str]:
        """Yield 2 ``count`` marked texts to train on: recombined goals, and short ones."""
        yield from recombined(self.goals, self._products(), self.families, count, seed)
        yield from short_texts(self.goals, count, seed)

    def held_texts(self, seed: int) -> list[str]:
        """Return marked texts of held-out goals in held-out families."""
        parts = (self.heldout, self._products(), self.held_families)
        return list(recombined(*parts, _HELD_TEXTS, seed + 1))

    def instances(self, pages: int, seed: int) -> tuple[list[Instance], list[Instance]]:
        """Return goals in words beside products, to train on and held out."""
        goals, heldout = islice(cycle(self.goals), pages), islice(cycle(self.heldout), _HELD_PAGES)
        return (
            instances(self.world, goals, self.families, seed),
            instances(self.world, heldout, self.held_families, seed + 1),
        )
