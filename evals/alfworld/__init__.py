"""Evaluations of ALFWorld itself."""
