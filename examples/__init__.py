"""Runnable examples; each fits on a page."""
