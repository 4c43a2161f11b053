"""Finding what matters: sources of candidates, queries, rankings and their fusion."""
