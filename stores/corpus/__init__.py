"""Documents ingested under a name, cut into passages and indexed."""
