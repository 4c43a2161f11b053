"""Models behind the nodes: chat models, the embedded server, embedders."""
