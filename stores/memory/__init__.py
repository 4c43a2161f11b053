"""Long-term memory: facts that outlive a conversation."""
