"""What RICO's model reads: documents, and the question behind them, in tokens."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stategate.stores.corpus.lexical import stop_words
from stategate.stores.errors import UserError, require_extra
from stategate.stores.text import one_line

if TYPE_CHECKING:
    from torch import Tensor

#: Named parts of one document's state; shapes are the backend's own.
State = Mapping[str, "Tensor"]
#: From the next tokens to their logits (1, n, vocabulary), after all that was read before.
Reader = Callable[[Sequence[int]], "Tensor"]

QUESTION = "\n\nQuestion:"
ANSWER = "\nAnswer:"
_SYSTEM = "Answer from the text above, in one short sentence."
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


def answer_prompt(tokenizer: Any, question: str) -> list[int]:
    """Return the tokens after the documents' states from which a model answers ``question``.

    A model that was trained to chat is asked in its own form; another one continues ``Answer:``.
    """
    line = one_line(question)
    text = f"{QUESTION} {line}{ANSWER}"
    if getattr(tokenizer, "chat_template", None):
        with require_extra("local"):
            import jinja2

        turns = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": line}]
        alone = [{"role": "user", "content": f"{_SYSTEM} {line}"}]
        try:
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except (jinja2.TemplateError, ValueError):  # a form without system turns
            text = tokenizer.apply_chat_template(alone, tokenize=False, add_generation_prompt=True)
        text = f"\n\n{text}"
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
