"""Attention to many documents with one bias each, whose keys and values are constants.

The general kernels copy the documents' keys and values beside the question's, repeat them for every
group of heads, and differentiate by them. Here they stay where they are: what is differentiable are
the question and the biases, so time and memory grow as little as they can with the documents.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stores.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

NAME = "stategate_rico"


@dataclass(frozen=True)
class Documents:
    """One layer's ``keys`` and ``values`` ``(heads, tokens, size)`` and a ``bias`` a token."""

    keys: "Tensor"
    values: "Tensor"
    bias: "Tensor"


def attend(
    module: Any,
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    attention_mask: "Tensor | None",
    scaling: float | None = None,
    dropout: float = 0.0,
    documents: Documents | None = None,
    **kwargs: Any,
) -> "tuple[Tensor, None]":
    """Attend to ``documents`` and to the question's own ``key`` and ``value``.

    ``query`` is ``(1, heads, n, size)``, the mask covers own keys only. Without documents this is
    transformers' ordinary attention.
    """
    import torch

    cap = kwargs.get("softcap")
    if documents is None and cap is not None:
        return _capped(query, key, value, attention_mask, scaling, cap), None
    if documents is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    _, heads, count, size = query.shape
    groups = documents.keys.shape[0]
    scale = size**-0.5 if scaling is None else scaling
    asked = query.reshape(groups, heads // groups * count, size) * scale
    far = asked @ documents.keys.transpose(1, 2)
    near = asked @ key[0].transpose(1, 2)
    if cap is not None:
        far, near = cap * torch.tanh(far / cap), cap * torch.tanh(near / cap)
    far = far + documents.bias
    if attention_mask is not None:
        rows = attention_mask[0].expand(groups * (heads // groups), -1, -1)
        near = near + rows.reshape(groups, -1, near.shape[-1])
    shares = torch.cat([far, near], dim=-1).softmax(-1)
    split = far.shape[-1]
    out = shares[..., :split] @ documents.values + shares[..., split:] @ value[0]
    return out.reshape(1, heads, count, size).transpose(1, 2).contiguous(), None


def _capped(
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    mask: "Tensor | None",
    scaling: float | None,
    cap: float,
) -> "Tensor":
    """Attend with capped scores, which the general kernel does not know; causal without a mask."""
    import torch

    groups, count, length = query.shape[1] // key.shape[1], query.shape[2], key.shape[2]
    keys, values = (part.repeat_interleave(groups, 1) for part in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = cap * torch.tanh(query @ keys.transpose(2, 3) * scale / cap)
    if mask is None:
        mask = torch.ones(count, length, dtype=torch.bool).tril(length - count)
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, float("-inf"))
    scores = scores + mask
    return (scores.softmax(-1) @ values).transpose(1, 2).contiguous()


def install(model: Any, name: str) -> None:
    """Make ``model`` attend through :func:`attend`. Raises ``UserError`` if it has its own way."""
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    try:
        model.set_attn_implementation(NAME)
    except (ValueError, AttributeError, NotImplementedError):
        raise UserError(
            f"{name}: its attention cannot be weighed: use a Llama-like decoder"
        ) from None
