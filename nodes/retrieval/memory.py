"""Which long-term memory, and whose part of it; shared by its writer and its reader."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from stores.loopback import from_environment

if TYPE_CHECKING:
    from stores.memory.long_term import LongTerm
    from stores.memory.records import Namespace


#: Facts of one user and agent that are kept unless told otherwise: some 75 MB with MiniLM's vectors.
MOST = 20_000


class MemoryPlace(BaseModel):
    """One memory: where it is, and the part of one user and agent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = Field(
        default=None, description="file, sqlite:/// or postgresql:// URL; by default this machine's"
    )
    user: str = Field(default="default", min_length=1, max_length=200)
    agent: str = Field(default="stategate", min_length=1, max_length=200)

    def open(self) -> "LongTerm":
        """Open the memory. Raises ``UserError`` where that fails."""
        from stores.memory.long_term import open_long_term

        return open_long_term(None if self.url is None else from_environment(self.url))

    @property
    def namespace(self) -> "Namespace":
        """The part of the memory that is read and written."""
        from stores.memory.records import Namespace

        return Namespace(self.user, self.agent)
