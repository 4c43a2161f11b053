"""Long-term memory: facts that outlive a conversation."""

from stategate.stores.errors import require_extra

with require_extra("qa"):
    import sqlalchemy as _  # noqa: F401 - all below is built on it: told here, in one line
