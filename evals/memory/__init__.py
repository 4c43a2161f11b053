"""What memory is worth over several sessions."""
