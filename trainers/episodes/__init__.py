"""Episodes to learn from: played, collected, converted, read."""
