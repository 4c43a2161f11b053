"""Trainers of the recurrent state and of what reads it."""
