"""RICO on transformers (the paper's appendix A): log-weights on the attention to each document.

Each document is read alone, after a start token of its own, at positions that end where the
question begins; its keys and values are its state. With weights ``w`` the question attends to all
documents at once, with ``log w_i`` added to the attention scores of document ``i``'s keys in every
layer. A one-hot ``w`` is therefore the plain concatenation of that document and the question, and
``-∂L/∂log w_i`` says how much more attention to document ``i`` would help.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from nodes.build_context.rico.attention import Documents, install
from nodes.build_context.rico.backend import Document, Gradient, Query, State, Target
from nodes.build_context.rico.layers import kept_layers, subset_name
from nodes.build_context.rico.prompts import Loss, answer_prompt, make_prompt, prompt_loss
from stores.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

#: A document of weight zero gets this weight, whose logarithm no attention score outweighs.
_NOTHING = 1e-30
#: Tokens read at once: more is no faster on a processor, and takes memory.
_BATCH = 512


class TransformerBackend:
    """A Hugging Face decoder with rotary or no positions and a key-value cache, of most families.

    A state is ``{"kv": (layers, 2, heads, tokens, head size)}``. ``max_tokens`` bounds a document.
    ``layers`` keeps only some layers' keys and values (in the others the question sees no document),
    which makes the index that much smaller. Safe for threads; calls wait for each other.
    """

    parameterisation: Literal["linear", "log"] = "log"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        fingerprint: str,
        max_tokens: int = 300,
        loss: Loss = "content",
        layers: Sequence[int] | None = None,
    ) -> None:
        config = model.config
        context = int(getattr(config, "max_position_embeddings", 0) or 1 << 20)
        self.max_tokens = min(max_tokens, max(context // 2, 1))
        self._room = min(context - self.max_tokens, 512)
        self.name = name
        self.layers = int(config.num_hidden_layers)
        self._kept = kept_layers(layers, self.layers, name)
        self.fingerprint = f"{fingerprint}/{self.max_tokens}{subset_name(self._kept, self.layers)}"
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._loss = loss
        self._lock = threading.RLock()
        self._reading: tuple[Tensor, dict[int, Documents]] | None = None
        attentions = [
            m
            for m in model.modules()
            if hasattr(m, "layer_idx") and type(m).__name__.endswith("Attention")
        ]
        if len(attentions) != self.layers:
            raise UserError(
                f"{name}: its attention layers are unknown here: use a Llama-like decoder"
            )
        install(model, name)
        for module in attentions:
            module.register_forward_pre_hook(self._show_documents, with_kwargs=True)

    def encode(self, documents: Sequence[Document]) -> list[State]:
        """Return one state a document, read in batches of at most :data:`_BATCH` tokens.

        Shorter documents are padded at the end, where no token that counts can see it.
        """
        import torch

        ids = [self._document_ids(document) for document in documents]
        states: dict[int, State] = {}
        for batch in _batches([len(row) for row in ids]):
            longest = max(len(ids[i]) for i in batch)
            rows = [[*ids[i], *[0] * (longest - len(ids[i]))] for i in batch]
            starts = torch.tensor([[self.max_tokens - len(ids[i])] for i in batch])
            with self._lock, torch.no_grad():
                self._reading = None
                made = self._model.base_model(
                    torch.tensor(rows),
                    position_ids=starts + torch.arange(longest),
                    use_cache=True,
                ).past_key_values
            for row, i in enumerate(batch):
                kept = [made.layers[number] for number in self._kept]
                parts = [torch.stack([layer.keys[row], layer.values[row]]) for layer in kept]
                states[i] = {"kv": torch.stack(parts)[:, :, :, : len(ids[i])].float()}
        return [states[i] for i in range(len(ids))]

    def loss(
        self, states: Sequence[State], weights: "Tensor", query: Query, target: Target = "question"
    ) -> "Tensor":
        """Return L(w); see :class:`~nodes.build_context.rico.backend.Backend`."""
        bias = weights.clamp_min(_NOTHING).log()
        return self._biased_loss(states, bias[None].expand(self.layers, -1), query, target)

    def gradient(
        self, states: Sequence[State], weights: "Tensor", query: Query, target: Target = "question"
    ) -> Gradient:
        """Return L(w) and ∂L/∂w by layer."""
        import torch

        weights = weights.detach().clamp_min(_NOTHING)
        bias = weights.log()[None].repeat(self.layers, 1).requires_grad_()
        with torch.enable_grad():
            loss = self._biased_loss(states, bias, query, target)
            (slope,) = torch.autograd.grad(loss, bias)
        return Gradient(float(loss.detach()), slope / weights)

    def summary(self, state: State) -> "Tensor":
        """Return the mean value vector of every layer."""
        return state["kv"][:, 1].float().mean(-2).flatten()

    def generate(
        self, states: Sequence[State], weights: "Tensor", question: str, max_tokens: int = 32
    ) -> str:
        """Answer greedily, one token at a time, attending to all documents as weighed."""
        import torch
        from transformers import DynamicCache

        ids = answer_prompt(self._tokenizer, question)[-self._room :]
        bias = weights.detach().clamp_min(_NOTHING).log()[None].expand(self.layers, -1)
        ends = _ids_of(self._model.generation_config.eos_token_id)
        answer: list[int] = []
        with self._lock, torch.no_grad():
            documents, cache = self._documents(states, bias), DynamicCache()
            new = ids
            for _ in range(max_tokens):
                logits = self._run(documents, cache, new, len(ids) + len(answer) - len(new))
                token = int(logits[0, -1].argmax())
                if token in ends or "\n" in self._tokenizer.decode([token]).strip(" "):
                    break
                answer.append(token)
                new = [token]
        return str(self._tokenizer.decode(answer)).strip()

    def _biased_loss(
        self, states: Sequence[State], bias: "Tensor", query: Query, target: Target
    ) -> "Tensor":
        from transformers import DynamicCache

        prompt = make_prompt(self._tokenizer, query, target, self._loss, self._room)
        with self._lock:
            documents = self._documents(states, bias)
            logits = self._run(documents, DynamicCache(), prompt.ids[0].tolist(), 0)
        return prompt_loss(logits, prompt)

    def _documents(self, states: Sequence[State], bias: "Tensor") -> dict[int, Documents]:
        """Lay the documents' keys and values side by side in every kept layer, with their biases."""
        import torch

        lengths = torch.tensor([state["kv"].shape[-2] for state in states])
        together = torch.cat([state["kv"].to(self._model.dtype) for state in states], dim=-2)
        return {
            layer: Documents(keys, values, bias[layer].repeat_interleave(lengths).to(keys.dtype))
            for layer, (keys, values) in zip(self._kept, together, strict=True)
        }

    def _run(
        self, documents: dict[int, Documents], cache: Any, ids: Sequence[int], seen: int
    ) -> "Tensor":
        """Read ``ids`` after the documents and ``seen`` earlier tokens; return their logits."""
        import torch

        count = len(ids)
        causal = torch.full((count, seen + count), float("-inf")).triu(seen + 1)[None, None]
        self._reading = (causal.to(self._model.dtype), documents)
        start = self.max_tokens + seen
        try:
            logits = self._model(
                torch.tensor([list(ids)]),
                position_ids=torch.arange(start, start + count)[None],
                past_key_values=cache,
                attention_mask=self._reading[0],
                use_cache=True,
            ).logits
        finally:
            self._reading = None
        return logits  # type: ignore[no-any-return]

    def _show_documents(self, module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Give each attention layer the documents, with biases of its own: gradients by layer."""
        if self._reading is None:
            return None
        mask, documents = self._reading
        own = documents.get(module.layer_idx)
        return args, {**kwargs, "attention_mask": mask, "documents": own}

    def _document_ids(self, document: Document) -> list[int]:
        start = self._tokenizer.bos_token_id
        if start is None:
            start = self._tokenizer.eos_token_id
        ids = self._tokenizer(document.shown(), add_special_tokens=False)["input_ids"]
        return [int(start or 0), *ids][: self.max_tokens]


def _ids_of(value: Any) -> set[int]:
    if value is None:
        return set()
    return {int(v) for v in value} if isinstance(value, list | tuple) else {int(value)}


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield indices of similar lengths, together at most :data:`_BATCH` tokens with the padding."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[i] * (len(batch) + 1) > _BATCH:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
