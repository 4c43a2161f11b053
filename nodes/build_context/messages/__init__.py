"""Context builders around another agent's messages: what one call reads, within hard guarantees."""
