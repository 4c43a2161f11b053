"""What the tiny state space model learns from: documents and questions that copy from them.

``pairs``: a document is a list of keys and values, a question repeats some of its pairs. The value
can only be known from the document, so the question's gradient must find the document that has it.
``text``: documents are a user's own; a question repeats a span of one.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nodes.models.decoders.backend import QUESTION, Document
from stores.errors import UserError


@dataclass(frozen=True)
class Example:
    """Candidate documents, a question about one of them, and which one (an index)."""

    documents: tuple[Document, ...]
    question: str
    relevant: int


class Task(Protocol):
    """A stream of examples over one vocabulary of words."""

    def words(self) -> list[str]:
        """Return the vocabulary."""
        ...

    def draw(self, rng: np.random.Generator, documents: int) -> Example:
        """Return a new example with so many candidates."""
        ...


@dataclass(frozen=True)
class Pairs:
    """Keys and values: ``documents`` share no keys, so exactly one explains the question."""

    keys: int = 48
    values: int = 24
    pairs: int = 4
    asked: int = 2

    def words(self) -> list[str]:
        """Return the vocabulary."""
        return [*(f"k{i}" for i in range(self.keys)), *(f"v{i}" for i in range(self.values))]

    def draw(self, rng: np.random.Generator, documents: int) -> Example:
        """Return an example. Raises ``UserError`` if there are too few keys."""
        need = documents * self.pairs
        if need > self.keys:
            raise UserError(f"{documents} documents need {need} keys, there are {self.keys}")
        keys = rng.permutation(self.keys)[:need].reshape(documents, self.pairs)
        values = rng.integers(0, self.values, (documents, self.pairs))
        texts = [
            " ".join(f"k{k} v{v}" for k, v in zip(ks, vs, strict=True))
            for ks, vs in zip(keys, values, strict=True)
        ]
        relevant = int(rng.integers(documents))
        chosen = rng.permutation(self.pairs)[: self.asked]
        asked = " ".join(f"k{keys[relevant, i]} v{values[relevant, i]}" for i in chosen)
        return Example(tuple(Document("", text) for text in texts), asked, relevant)


class Spans:
    """Real documents, cut to ``length`` words; a question repeats ``span`` of them."""

    def __init__(
        self,
        documents: Sequence[Document],
        vocabulary: int = 8000,
        length: int = 96,
        span: int = 12,
    ) -> None:
        split = [re.findall(r"\w+|[^\w\s]", document.shown()) for document in documents]
        self._texts = [words for words in split if len(words) >= length]
        self._length, self._span = length, span
        if len(self._texts) < 2:
            raise UserError(f"need two documents of {length} words or more: give longer ones")
        counted = Counter(word for words in self._texts for word in words)
        self._words = [word for word, _ in counted.most_common(vocabulary)]

    def words(self) -> list[str]:
        """Return the most frequent words."""
        return self._words

    def draw(self, rng: np.random.Generator, documents: int) -> Example:
        """Return an example of different documents."""
        chosen = rng.permutation(len(self._texts))[:documents]
        cuts = []
        for i in chosen:
            start = int(rng.integers(len(self._texts[i]) - self._length + 1))
            cuts.append(self._texts[i][start : start + self._length])
        relevant = int(rng.integers(len(cuts)))
        at = int(rng.integers(self._length - self._span + 1))
        asked = " ".join(cuts[relevant][at : at + self._span])
        return Example(tuple(Document("", " ".join(c)) for c in cuts), asked, relevant)


def make_tokenizer(words: Sequence[str]) -> Any:
    """Return a tokenizer of whole words, in Hugging Face form."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = ["<s>", "</s>", "<unk>", *re.findall(r"\w+|[^\w\s]", QUESTION), "Answer"]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys([*known, *words]))}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106 - a token, no secret
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token="<s>",  # noqa: S106
        eos_token="</s>",  # noqa: S106
        unk_token="<unk>",  # noqa: S106
    )
