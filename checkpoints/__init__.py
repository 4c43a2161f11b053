"""Trained weights that ship: safetensors, each with a JSON that says what it is."""
