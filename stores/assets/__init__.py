"""Files from outside, each with a SHA-256, fetched once and kept."""
