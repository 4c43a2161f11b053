"""What is kept: traces, assets, token counts, embeddings (floor 1)."""
