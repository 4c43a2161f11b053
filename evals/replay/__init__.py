"""Recorded threads of other agents, read again through our context builders and LangChain's own."""
