"""What an instruction asks, read without a grammar: its words, amounts, limits and negations.

``text`` reads any text into tokens, ``request`` an instruction; ``words``, ``values`` and ``subject``
score them by what was learned (``weights``). Nothing here knows a world; ``nodes.retrieval.align``
brings it together with what a world's view shows.
"""
