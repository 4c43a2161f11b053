"""State updaters: a summary of constant size, updated with each event."""
