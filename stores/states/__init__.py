"""What a model remembers of each document, on disk."""
