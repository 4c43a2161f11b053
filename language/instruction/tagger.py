"""The token tagger: what each word of an instruction is, as probabilities.

A low-rank adapter on the sentence model (LoRA, Hu et al. 2021) reads each word in its whole sentence:
"spare me the ones above 35" is an upper end, "from 35 upwards" a lower one. Trained on several writers'
sentences for several worlds (``stategate train tagger``).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from stategate.language.amounts import LETTER_SIZES, Token, tokens, with_plain_marks
from stategate.language.instruction.weights import Floats, softmax
from stategate.language.sentence_model import adapted_model

#: The thing itself, a property of it, a value to choose, the place it goes to, what is not wanted, an
#: amount's upper and lower end, the words that make it one, and talk.
TAGS = ("thing", "property", "value", "place", "excluded", "high", "low", "limit", "talk")
_AT_ONCE = 100  # words of a long text that are read together
_READ = 2000  # words that are read; all after them is talk


def token_places(words: Sequence[Token], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each word piece the place of the token that it belongs to, -1 for none."""
    ends, places = [word.end for word in words], []
    for start, end in offsets:
        at = bisect_right(ends, start)
        is_within = at < len(words) and end > start and words[at].start < end
        places.append(at if is_within else -1)
    return places


#: What another reader gave, by text: the tags, and the kind of task ("" where it said none).
ADOPTED: dict[str, tuple[Floats, str]] = {}


def tag(text: str) -> Floats:
    """Return (tokens, TAGS): the probability of each tag for each token of ``text``."""
    return ADOPTED[text][0] if text in ADOPTED else _tagged(text)


@lru_cache(maxsize=4096)
def _tagged(text: str) -> Floats:
    words = tokens(text)
    tags = np.zeros((len(words), len(TAGS)), dtype=np.float32)
    tags[_READ:, TAGS.index("talk")] = 1
    for first in range(0, min(len(words), _READ), _AT_ONCE):
        part = words[first : min(first + _AT_ONCE, _READ)]
        tags[first : first + len(part)] = _tagged_part(with_plain_marks(text), part)
    return tags


def _tagged_part(text: str, words: Sequence[Token]) -> Floats:
    """Return (words, TAGS) of a stretch of ``text``; a word's state is the mean of its pieces'."""
    model, weight, bias = adapted_model("tagger")
    read, spans, at = "", list[Token](), words[0].start
    for word in words:  # "nine dollars and fifty cents" is read as $9.5, "size M" as "size medium"
        read += text[at : word.start]
        read += "$" * (word.is_joined and not read.endswith(("$", "€", "£")))
        is_letter = word.word in LETTER_SIZES.values()
        plain = word.word if is_letter else text[word.start : word.end]
        own, at = word.key if word.is_joined else plain, word.end
        spans.append(replace(word, start=len(read), end=len(read) + len(own)))
        read += own
    states, offsets = model.states(read)
    places = np.array(token_places(spans, offsets))
    own = (places == np.arange(len(words))[:, None]).astype(np.float32)
    mean = own @ states / np.maximum(own.sum(axis=1, keepdims=True), 1)
    return softmax(mean @ weight.T + bias)
