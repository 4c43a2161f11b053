"""Messages of any agent as a world: what was said and what tools returned is what there is to read."""
