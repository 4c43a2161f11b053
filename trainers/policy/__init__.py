"""Train the policy actor on its own play, by a teacher's word (DAgger)."""
