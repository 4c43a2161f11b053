"""Questions over a corpus as a world of pure functions."""

from stategate.envs.qa.world import QA

__all__ = ["QA"]
