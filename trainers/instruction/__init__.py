"""The trainers of the instruction reader: sentences of several worlds and writers, two checkpoints."""
