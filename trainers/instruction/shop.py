"""The shop's goals and wordings: those to train the reader of instructions on, and those held out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.wordings import SPLITS, names_of
from stategate.trainers.instruction.pages import Instance, instances
from stategate.trainers.instruction.recombined import recombined, short_texts
from stategate.trainers.settings import ReaderSettings
from stategate.trainers.webshop import load_shop, practice

_EXAMINED, _HELD_PAGES = 600, 300  # texts and pages that are held out


@dataclass(frozen=True)
class ShopData:
    """A shop with its goals and the families of wordings; ``held`` ones are left out of training."""

    world: WebShop
    goals: Sequence[Mapping[str, Any]]
    held: Sequence[Mapping[str, Any]]
    families: list[str]
    held_families: list[str]

    @classmethod
    def of(cls, settings: ReaderSettings) -> "ShopData":
        """Read the shop of the settings."""
        plan = practice(load_shop(settings.shop, "rich"), settings.seed)
        goals = plan.world.goals
        left_out = (*settings.held_out, *settings.tests)
        return cls(
            plan.world,
            [goals[i] for i in plan.training],
            [goals[i] for i in (*plan.heldout, *plan.made_heldout)],
            [n for split in SPLITS if split not in left_out for n in names_of(split)],
            [n for split in settings.held_out for n in names_of(split)],
        )

    def _products(self) -> list[Product]:
        asins = sorted({goal["asin"] for goal in self.goals})
        return [self.world.products[asin] for asin in asins]

    def texts(self, count: int, seed: int) -> Iterator[str]:
        """Yield 2 ``count`` marked texts to train on: recombined goals, and short ones."""
        yield from recombined(self.goals, self._products(), self.families, count, seed)
        yield from short_texts(self.goals, count, seed)

    def held_texts(self, seed: int) -> list[str]:
        """Return marked texts of the families that are left out."""
        parts = (self.held, self._products(), self.held_families or self.families)
        return list(recombined(*parts, _EXAMINED, seed + 1))

    def instances(self, pages: int, seed: int) -> tuple[list[Instance], list[Instance]]:
        """Return goals in words beside products, to train on and held out."""
        fitted = instances(self.world, _times(self.goals, pages), self.families, seed)
        families = self.held_families or self.families
        held = instances(self.world, _times(self.held, _HELD_PAGES), families, seed + 1)
        return fitted, held


def _times(goals: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    return [goals[i % len(goals)] for i in range(count)]
