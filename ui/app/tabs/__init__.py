"""One file a tab: components and their wiring; what they do is a method of a session or a store."""
