"""Evaluations: run directories in, tables out (floor 4)."""
