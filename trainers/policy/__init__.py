"""Trainers of the policy actor: by imitation of an expert, then by the world's own reward."""
