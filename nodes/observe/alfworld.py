"""ALFWorld as an environment kind."""

from typing import ClassVar, Literal

from pydantic import Field

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.view import AlfWorldView
from stategate.envs.protocols import View
from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.alfworld import AlfWorldExperience
from stategate.nodes.protocols import EnvParams
from stategate.nodes.resources import Resources
from stategate.stores.assets.fetch import data_folder


class AlfWorldEnv(EnvParams):
    """Rooms in text: find things, clean, heat or cool them, put them somewhere."""

    kind: Literal["alfworld"] = "alfworld"
    partially_observed: ClassVar[bool] = True
    data: str = Field(
        default="sample",
        description="'sample', 'official' (fetched at the first use) or a folder of games",
    )
    split: str | None = Field(
        default="valid_seen", description="train, valid_seen, valid_unseen; null for all games"
    )

    def build(self, resources: Resources) -> AlfWorld:
        """Open the games. Raises ``UserError`` where they are missing or broken."""
        folder = data_folder(self.data, "alfworld")
        return AlfWorld.load(folder, self.split)

    def view(self) -> View:
        """Return the reader of ALFWorld's pages."""
        return AlfWorldView()

    def experience(self) -> ExperienceAdapter:
        """Return the wording of ALFWorld's past steps."""
        return AlfWorldExperience()
