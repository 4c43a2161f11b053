"""Where people come in: the `stategate` command (floor 5)."""
