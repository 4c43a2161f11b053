"""Makers of banks of experience."""
