"""Other people's agents with our middleware and with others': success, tokens, billed cost, latency."""
