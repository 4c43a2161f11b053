"""Invented household games in the format of ALFWorld's, and how they are made (``make``)."""
