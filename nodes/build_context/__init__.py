"""Context builders: each file is a kind that decides what the model gets to read."""
