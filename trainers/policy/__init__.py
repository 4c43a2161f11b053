"""Trainers of the policy actor."""
