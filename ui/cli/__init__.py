"""The `stategate` command: one file a command."""
