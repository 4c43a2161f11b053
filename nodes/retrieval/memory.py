"""Which long-term memory, and whose part of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from stategate.stores.home import this_user
from stategate.stores.http import from_environment
from stategate.stores.text import storable

if TYPE_CHECKING:
    from stategate.stores.memory.long_term import LongTerm


class MemoryPlace(BaseModel):
    """One memory: where it is, and the part of one user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = Field(
        default=None, description="file, sqlite:/// or postgresql:// URL; by default this machine's"
    )
    user: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="whose; by default the call's user_id, else the conversation's own",
    )

    def open(self) -> "LongTerm":
        """Open the memory. Raises ``UserError`` where that fails."""
        from stategate.stores.memory.long_term import open_long_term

        return open_long_term(None if self.url is None else from_environment(self.url))

    @property
    def owner(self) -> str:
        """Whose part of the memory is read and written."""
        return storable(self.user or _OWNER.get() or this_user())


_OWNER: ContextVar[str] = ContextVar("owner", default="")


@contextmanager
def owned_by(owner: str) -> Iterator[None]:
    """Let memories that name no user be ``owner``'s; without one they are this system's user's."""
    token = _OWNER.set(owner)
    try:
        yield
    finally:
        _OWNER.reset(token)
