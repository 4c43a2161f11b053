"""Trainers: each makes one checkpoint or bank that a node loads (floor 4)."""
