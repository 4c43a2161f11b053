"""Sentences, clauses and passages of English text."""

import re

_ABBREVIATION = re.compile(
    r"\b(?:[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Rev|Sir|Jr|Sr|Gen|Col|Lt|Capt|Mt|No|Fig|vs?|ca|approx|e\.g|i\.e|"
    r"[Tt]el|Fa|Hr|Fr|Nr|Str|Abs|bzw|inkl|evtl|ggf)\.\s*$"
)
_MONTHS = r"(?:Jan|Feb|M[aä]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])"
_END = re.compile(
    rf"(?:[!?]|(?<!\d)\.|\.(?!\s+{_MONTHS}))[\"”’')]*\s+(?=[\"“‘'(]?[^\W_a-zäöüß])"
    r"|\n\s*\n|(?<=[.!?])\n"
)

#: Where a main clause with a subject of its own begins.
_CLAUSE = re.compile(
    r";\s+|,?\s+(?:and|but)\s+(?=(?:I|we|my|our|he|she|they|his|her|their|it|the)\b(?!\s+(?:and|or)\b))"
)


def clauses(sentence: str) -> list[str]:
    """Return the main clauses of ``sentence`` that have subjects of their own.

    "I moved to Oslo, and my sister is a nurse." is two.
    """
    return [part.strip() for part in _CLAUSE.split(sentence) if part.strip()]


def sentences(text: str) -> list[str]:
    """Return the sentences of ``text``, each on one line.

    A title ("Dr."), an initial or a wrapped line ends none.
    """
    ends = (
        match.end()
        for match in _END.finditer(text)
        if not _ABBREVIATION.search(text, max(0, match.end() - 12), match.end())
    )
    parts, start = [], 0
    for end in (*ends, len(text)):
        parts.append(" ".join(text[start:end].split()))
        start = end
    return [part for part in parts if part]


def passages(text: str, words: int = 80) -> list[str]:
    """Return ``text`` as runs of whole sentences of at most ``words`` words, in order.

    A sentence that is longer by itself is cut between words. A short text is one passage.
    """
    parts: list[str] = []
    run: list[str] = []
    for sentence in sentences(text):
        tokens = sentence.split()
        if run and len(run) + len(tokens) > words:
            parts.append(" ".join(run))
            run = []
        while len(tokens) > 2 * words:
            parts.append(" ".join(tokens[:words]))
            tokens = tokens[words:]
        run += tokens
    return [*parts, " ".join(run)] if run else parts
