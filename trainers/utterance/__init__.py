"""What utterances are for, learned from made sentences."""
