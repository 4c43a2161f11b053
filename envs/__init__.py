"""Worlds, as pure functions (floor 1)."""
