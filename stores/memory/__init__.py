"""Long-term memory: facts, entities and relations that outlive a conversation."""
