"""What is killed at every write: one file a scenario (see ``tests.faults.killing``)."""
