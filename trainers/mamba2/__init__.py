"""A small Mamba-2 language model, trained for RICO."""
