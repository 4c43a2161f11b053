"""Benchmarks: how long things take, and how many bytes."""
