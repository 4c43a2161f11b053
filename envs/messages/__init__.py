"""Chat messages of any agent, read as data: calls and results, values they share, parts of results."""
