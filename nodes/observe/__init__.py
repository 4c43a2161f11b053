"""The observe node's plug-ins: each world's params, and how its pages split into chunks."""
