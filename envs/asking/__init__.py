"""What an instruction asks, read without a grammar: its words, amounts, limits and negations.

``text`` reads any text into tokens, ``request`` an instruction, ``matching`` compares both. Nothing here
knows a world; ``nodes.retrieval.align`` brings it together with what a world's view shows.
"""
