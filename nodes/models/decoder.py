"""RICO on transformers (the paper's appendix A): log-weights on the attention to each document.

Each document is read alone, after a start token of its own, at positions that end where the
question begins; its keys and values are its state. With weights ``w`` the question attends to all
documents at once, with ``log w_i`` added to the attention scores of document ``i``'s keys in every
layer (an additive attention mask). A one-hot ``w`` is therefore the plain concatenation of that
document and the question, and ``-∂L/∂log w_i`` says how much more attention to document ``i`` would
help.

``L(w)`` of the paper is the mean negative log-likelihood of the question's tokens after the mixture, in
nats.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from stategate.stores.corpus.lexical import stop_words
from stategate.stores.errors import UserError
from stategate.stores.text import one_line

#: In place of weight zero: its logarithm is finite, and no attention score outweighs it.
_MIN_WEIGHT = 1e-30
_QUESTION_TOKENS = 512
_QUESTION = "\n\nQuestion:"
_CONTENT = re.compile(r"\w+(?:['’]\w+)?")


class Backend:
    """A Hugging Face decoder with rotary or no positions and a key-value cache, of most families.

    A document's state is its keys and values (layers, 2, heads, tokens, head size). ``fingerprint``
    names weights and text format; states of another fingerprint are useless. Documents are cut at
    ``max_tokens``. Safe for threads.
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
        self.max_tokens = min(max_tokens, max(context // 2, 1))
        self.fingerprint = f"{fingerprint}/{self.max_tokens}"
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._room = min(context - self.max_tokens, _QUESTION_TOKENS)
        try:  # it adds any mask, and caps scores as the model does
            model.set_attn_implementation("eager")
        except (ValueError, AttributeError, NotImplementedError):
            raise UserError(
                f"{name}: its attention cannot be weighed: use a Llama-like decoder"
            ) from None

    def encode(self, document: str) -> Tensor:
        """Return the state of a document."""
        start = self._tokenizer.bos_token_id
        if start is None:
            start = self._tokenizer.eos_token_id
        ids = self._tokenizer(document, add_special_tokens=False)["input_ids"]
        ids = [int(start or 0), *ids][: self.max_tokens]
        positions = torch.arange(self.max_tokens - len(ids), self.max_tokens)
        with torch.no_grad():
            cache = self._model.base_model(
                torch.tensor([ids]), position_ids=positions[None], use_cache=True
            ).past_key_values
        layers = [torch.stack([layer.keys[0], layer.values[0]]) for layer in cache.layers]
        return torch.stack(layers).float()

    def loss(self, states: Sequence[Tensor], weights: Tensor, question: str) -> Tensor:
        """Return L(w), a scalar differentiable in ``weights`` (float32, ``(len(states),)``, ≥ 0).

        It is over the question's content words, read once, attending to all documents as weighed and to
        itself; prompt prefix and separators are outside. Raises ``UserError`` for an empty question.
        """
        ids, counted = question_tokens(self._tokenizer, question, self._room)
        lengths = torch.tensor([state.shape[-2] for state in states])
        layers = torch.cat([state.to(self._model.dtype) for state in states], dim=-2).unsqueeze(2)
        # A document's tokens share its bias; the question's own are masked causally.
        bias = weights.clamp_min(_MIN_WEIGHT).log().repeat_interleave(lengths).expand(len(ids), -1)
        causal = torch.full((len(ids), len(ids)), float("-inf")).triu(1)
        logits: Tensor = self._model(
            torch.tensor([ids]),
            position_ids=torch.arange(self.max_tokens, self.max_tokens + len(ids))[None],
            past_key_values=DynamicCache([(keys, values) for keys, values in layers]),
            attention_mask=torch.cat([bias, causal], dim=-1)[None, None].to(self._model.dtype),
        ).logits
        before = torch.tensor(counted) - 1
        log_probabilities = logits[0, before].float().log_softmax(-1)
        return -log_probabilities.gather(1, torch.tensor(ids)[before + 1, None]).mean()

    def slope(self, states: Sequence[Tensor], weights: Tensor, question: str) -> Tensor:
        """Return ∂L/∂w, float32 (len(states),): one forward and one backward pass."""
        weights = weights.detach().clone().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self.loss(states, weights, question), weights)
        return slope


def question_tokens(tokenizer: Any, question: str, max_tokens: int) -> tuple[list[int], list[int]]:
    """Return the token ids of ``question`` behind its prefix, and the positions that the loss is over.

    Those are the content words', or all words' of a question of function words alone. Raises
    ``UserError`` for an empty question.
    """
    line = one_line(question)
    if not line:
        raise UserError("the question is empty: ask something")
    start = len(_QUESTION)
    text = f"{_QUESTION} {line}"
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, spans = encoded["input_ids"][:max_tokens], encoded["offset_mapping"][:max_tokens]
    content = [
        match.span()
        for match in _CONTENT.finditer(text, start)
        if match[0].lower() not in stop_words()
    ]
    inside = [i for i, (_, end) in enumerate(spans) if start < end and i > 0]
    chosen = [
        i
        for i in inside
        if any(spans[i][0] < stop and begin < spans[i][1] for begin, stop in content)
    ]
    if not inside:
        raise UserError(
            f"the question is cut before its first word: allow over {max_tokens} tokens"
        )
    return ids, chosen or inside
