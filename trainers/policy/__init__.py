"""Trainers of the policy actor: imitation of recorded experts, and of a teacher on its own play."""
