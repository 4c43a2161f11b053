"""What RICO's model reads: documents, and the question behind them, in tokens."""

import re
from dataclasses import dataclass
from typing import Any

from stategate.stores.corpus.lexical import stop_words
from stategate.stores.errors import UserError
from stategate.stores.text import one_line

QUESTION = "\n\nQuestion:"
_CONTENT = re.compile(r"\w+(?:['’]\w+)?")


@dataclass(frozen=True)
class Document:
    """A document to be weighed; ``title`` may be empty."""

    title: str
    text: str

    def as_text(self) -> str:
        """Return the document as models read it."""
        if self.title and self.text:
            return f"{self.title}: {self.text}"
        return self.title or self.text


def question_tokens(tokenizer: Any, question: str, max_tokens: int) -> tuple[list[int], list[int]]:
    """Return the token ids of ``question`` behind its prefix, and the places that the loss is over.

    Those of content words; of all words where the question has only function words. Raises
    ``UserError`` for an empty question.
    """
    line = one_line(question)
    if not line:
        raise UserError("the question is empty: ask something")
    start = len(QUESTION)
    text = f"{QUESTION} {line}"
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, spans = encoded["input_ids"][:max_tokens], encoded["offset_mapping"][:max_tokens]
    content = [
        match.span()
        for match in _CONTENT.finditer(text, start)
        if match[0].lower() not in stop_words()
    ]
    inside = [place for place, (_, end) in enumerate(spans) if start < end and place > 0]
    chosen = [
        place
        for place in inside
        if any(spans[place][0] < stop and begin < spans[place][1] for begin, stop in content)
    ]
    if not inside:
        raise UserError(
            f"the question is cut before its first word: allow over {max_tokens} tokens"
        )
    return ids, chosen or inside
