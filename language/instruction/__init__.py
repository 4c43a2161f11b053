"""The one reader of instructions: what is asked, for any world, with probabilities.

``parse`` tags the words of an instruction; ``choices`` says which of a page's exclusive values are
asked; ``aligned`` scores titles and texts; ``goals`` names what is asked in a closed vocabulary.
"""
