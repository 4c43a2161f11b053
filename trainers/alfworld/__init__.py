"""Training on ALFWorld: the searching expert's episodes."""
