"""The trainer of the instruction reader: sentences of several worlds and writers, one checkpoint."""
