"""From a query to tokens and loss weights: what is inside the loss and what is not."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from nodes.build_context.rico.backend import Query, Target
from stores.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

QUESTION = "\n\nQuestion:"
ANSWER = "\nAnswer:"
_SYSTEM = "Answer from the text above, in one short sentence."
Loss = Literal["content", "mean"]


@dataclass(frozen=True)
class Prompt:
    """Token ids ``(1, n)`` and the weight of each token in the loss ``(n,)``, summing to one.

    Token ``t`` is predicted from the tokens before it; the first token never counts.
    """

    ids: "Tensor"
    weights: "Tensor"


def make_prompt(
    tokenizer: Any, query: Query, target: Target, loss: Loss, max_tokens: int
) -> Prompt:
    """Return the tokens of ``query`` and which of them the loss is over.

    ``content`` leaves function words and punctuation out (all tokens count if nothing is left).
    Raises ``UserError`` for an empty question, or for target ``answer`` without an answer.
    """
    import torch

    question = " ".join(query.question.split())
    if not question:
        raise UserError("the question is empty: ask something")
    before = " ".join([QUESTION, *query.lead.split()])
    text = f"{before} {question}"
    start, end = len(before), len(text)
    if target == "answer":
        if not (query.answer or "").strip():
            raise UserError("the answer's loss needs an answer: use target=question")
        text += f"{ANSWER} {' '.join(str(query.answer).split())}"
        start, end = end + len(ANSWER), len(text)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, spans = encoded["input_ids"][:max_tokens], encoded["offset_mapping"][:max_tokens]
    inside = [start < b and b <= end and number > 0 for number, (_, b) in enumerate(spans)]
    if loss == "content" and target == "question":
        kept = _content(text, start, end)
        chosen = [
            ok and any(a < stop and begin < b for begin, stop in kept)
            for ok, (a, b) in zip(inside, spans, strict=True)
        ]
        inside = chosen if any(chosen) else inside
    weights = torch.tensor(inside, dtype=torch.float32)
    if not weights.any():
        raise UserError(
            f"the question is cut before its first word: allow over {max_tokens} tokens"
        )
    return Prompt(torch.tensor([ids]), weights / weights.sum())


def answer_prompt(tokenizer: Any, question: str) -> list[int]:
    """Return the tokens after the documents' states from which a model answers ``question``.

    A model that was trained to chat is asked in its own form; another one continues ``Answer:``.
    """
    asked = " ".join(question.split())
    if getattr(tokenizer, "chat_template", None):
        import jinja2

        turns = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": asked}]
        alone = [{"role": "user", "content": f"{_SYSTEM} {asked}"}]
        try:
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except (jinja2.TemplateError, ValueError):  # a form without system turns
            text = tokenizer.apply_chat_template(alone, tokenize=False, add_generation_prompt=True)
        return list(tokenizer(f"\n\n{text}", add_special_tokens=False)["input_ids"])
    text = f"{QUESTION} {asked}{ANSWER}"
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def prompt_loss(logits: "Tensor", prompt: Prompt) -> "Tensor":
    """Return the weighted negative log-likelihood; ``logits`` are ``(1, n, vocabulary)``."""
    counted = prompt.weights[1:].nonzero().flatten()
    log_probabilities = logits[0, counted].float().log_softmax(-1)
    chosen = log_probabilities.gather(1, prompt.ids[0, counted + 1][:, None]).flatten()
    return -(chosen * prompt.weights[counted + 1]).sum()


def words(text: str) -> Sequence[str]:
    """Return the content words of ``text``, in lower case."""
    return [text[a:b].lower() for a, b in _content(text, 0, len(text))]


def _content(text: str, start: int, end: int) -> list[tuple[int, int]]:
    found = re.finditer(r"\w+(?:['’]\w+)?", text[start:end])
    spans = [(match[0].lower(), match.start() + start, match.end() + start) for match in found]
    return [(a, b) for word, a, b in spans if word not in _stop_words()]


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)
