"""Benchmarks: how long things take, each measured into a run directory, none asserted."""
