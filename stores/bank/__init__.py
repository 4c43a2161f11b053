"""Banks of experience: rows of advice with vectors."""
