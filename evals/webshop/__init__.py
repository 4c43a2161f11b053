"""Benchmarks that play WebShop: the world itself, a step in it, its checkpoints."""
