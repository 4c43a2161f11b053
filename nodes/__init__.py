"""The plug-in slots and the kinds that fill them (floor 2)."""
