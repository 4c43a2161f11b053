"""A view of any text world that lists its legal actions: where a world of your own starts."""

from stategate.envs.protocols import View as PlainView

__all__ = ["PlainView"]
