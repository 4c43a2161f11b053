"""How near an answer is to the gold one, in words: the F1 of SQuAD (Rajpurkar et al., 2016)."""

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "–—‘’“”…", " "))


def normal(text: str) -> list[str]:
    """Return lower-case words without articles and punctuation."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def token_f1(given: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall over words, 0 to 1."""
    a, b = normal(given), normal(gold)
    shared = sum((Counter(a) & Counter(b)).values())
    if not shared:
        return float(a == b)
    precision, recall = shared / len(a), shared / len(b)
    return 2 * precision * recall / (precision + recall)
