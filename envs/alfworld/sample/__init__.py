"""Invented household games in the format of ALFWorld's."""
