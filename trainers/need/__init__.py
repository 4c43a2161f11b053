"""What later turns will need of earlier results, learned from recorded threads."""
