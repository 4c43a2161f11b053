"""WebShop as an environment kind."""

from typing import Literal

from pydantic import Field

from stategate.envs.protocols import View
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.goals import Goals
from stategate.envs.webshop.view import WebShopView
from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.webshop import WebShopExperience
from stategate.nodes.protocols import EnvParams
from stategate.nodes.resources import Resources
from stategate.stores.assets.fetch import data_folder


class WebShopEnv(EnvParams):
    """A shop: search, open a product, choose options, buy."""

    kind: Literal["webshop"] = "webshop"
    data: str = Field(
        default="sample",
        description="'sample', 'official' (fetched at the first use) or a folder",
    )
    observation: Literal["text", "rich"] = Field(
        default="rich", description="'text' hides which options are chosen; 'rich' marks them"
    )
    seed: int = Field(default=0, description="of the price draws; 0 is the published one")
    goals: Goals = Field(
        default="synthetic", description="made by the shop's template, or asked by people"
    )
    wording: str = Field(
        default="template",
        description="of synthetic goals: template, a family, or a split (train, develop, held-out)",
    )

    def build(self, resources: Resources) -> WebShop:
        """Load the catalogue. Raises ``UserError`` where the data is missing or broken."""
        folder = data_folder(self.data, "webshop")
        return WebShop.load(folder, self.observation, self.seed, self.goals, self.wording)

    def view(self) -> View:
        """Return the reader of WebShop's pages."""
        return WebShopView()

    def experience(self) -> ExperienceAdapter:
        """Return the wording of WebShop's past steps."""
        return WebShopExperience()
