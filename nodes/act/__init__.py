"""Actors: each chooses the next action from the built context alone."""
