"""What a model must offer for RICO: states of documents, and the loss of a question after a mixture.

A *state* is what a model remembers of one document read alone: the recurrent and convolution states
of a state space model, or the keys and values of a transformer. Backends mix the states of many
documents with one weight a document and say how well the mixture predicts the question
(``L(w)`` of the paper: the mean negative log-likelihood of the question's tokens, in nats).
"""

import re
import threading
from abc import ABC, abstractmethod
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
_QUESTION_TOKENS = 512
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


class Backend(ABC):
    """A language model whose memory of several documents can be mixed with weights.

    ``fingerprint`` names weights and text format; states of another fingerprint are useless.
    Documents are cut at ``max_tokens``. Safe for threads; calls wait for each other.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        fingerprint: str,
        max_tokens: int = 300,
    ) -> None:
        context = int(getattr(model.config, "max_position_embeddings", 0) or 1 << 20)
        self.name = name
        self.max_tokens = min(max_tokens, max(context // 2, 1))
        self.layers = int(model.config.num_hidden_layers)
        self.fingerprint = f"{fingerprint}/{self.max_tokens}"
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._room = min(context - self.max_tokens, _QUESTION_TOKENS)
        self._lock = threading.RLock()

    @abstractmethod
    def encode(self, documents: Sequence[Document]) -> list[State]:
        """Read each document alone; one state each, in order. Long documents are cut."""

    @abstractmethod
    def _reader(self, states: Sequence[State], weights: "Tensor") -> Reader:
        """Return what reads on from the mixture; its logits are differentiable in ``weights``."""

    def loss(self, states: Sequence[State], weights: "Tensor", question: str) -> "Tensor":
        """Return L(w), a scalar differentiable in ``weights`` (float32, ``(len(states),)``, ≥ 0).

        Raises ``UserError`` for an empty question.
        """
        return self.question_loss(self._reader(states, weights), question)

    def slope(self, states: Sequence[State], weights: "Tensor", question: str) -> "Tensor":
        """Return ∂L/∂w, float32 (len(states),): one forward and one backward pass."""
        import torch

        weights = weights.detach().clone().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self.loss(states, weights, question), weights)
        return slope

    def question_loss(self, read: Reader, question: str) -> "Tensor":
        """Return the mean negative log-likelihood of the question's content words, read by ``read``.

        Prompt prefix and separators are outside the loss.
        """
        import torch

        ids, counted = question_tokens(self._tokenizer, question, self._room)
        with self._lock:
            logits = read(ids)
        before = torch.tensor(counted) - 1
        log_probabilities = logits[0, before].float().log_softmax(-1)
        return -log_probabilities.gather(1, torch.tensor(ids)[before + 1, None]).mean()

    def generate(
        self, states: Sequence[State], weights: "Tensor", question: str, max_tokens: int = 32
    ) -> str:
        """Answer greedily from the mixed state, up to the first line break (``learned_state``)."""
        import torch

        new = answer_prompt(self._tokenizer, question)[-self._room :]
        ends = self._model.generation_config.eos_token_id
        ends = {self._tokenizer.eos_token_id, *(ends if isinstance(ends, list | tuple) else [ends])}
        answer: list[int] = []
        with self._lock, torch.no_grad():
            read = self._reader(states, weights.detach())
            for _ in range(max_tokens):
                token = int(read(new)[0, -1].argmax())
                if token in ends or "\n" in self._tokenizer.decode([token]).strip(" "):
                    break
                answer.append(token)
                new = [token]
        return str(self._tokenizer.decode(answer)).strip()

    def _document_ids(self, document: Document) -> list[int]:
        start = self._tokenizer.bos_token_id
        if start is None:
            start = self._tokenizer.eos_token_id
        ids = self._tokenizer(document.as_text(), add_special_tokens=False)["input_ids"]
        return [int(start or 0), *ids][: self.max_tokens]


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
