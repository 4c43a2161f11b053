"""Memory writers: what is kept of a finished step, and where."""
