"""Ranking the documents of multi-hop questions."""
