"""Encoded pages as batches for the policy's network: padded, and grouped by size."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from nodes.act.shop.candidates import Encoded


def collate(seen: Sequence[Encoded], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Pad pages to the largest: rows (B, n, d), page (B, d), absent (B, n)."""
    most = max(len(one.actions) for one in seen)
    rows = np.zeros((len(seen), most, seen[0].rows.shape[1]), dtype=np.float32)
    absent = np.ones((len(seen), most), dtype=bool)
    for i, one in enumerate(seen):
        rows[i, : len(one.actions)] = one.rows
        absent[i, : len(one.actions)] = False
    page = np.stack([one.page for one in seen])
    return tuple(torch.from_numpy(x).to(device) for x in (rows, page, absent))  # type: ignore[return-value]


def sized_batches(
    seen: Sequence[Encoded], size: int, generator: torch.Generator
) -> Iterator[list[int]]:
    """Yield every index once, in batches of pages of like size (padding is what costs), shuffled."""
    order = torch.randperm(len(seen), generator=generator).tolist()
    span = 32 * size
    batches: list[list[int]] = []
    for at in range(0, len(order), span):
        part = sorted(order[at : at + span], key=lambda i: len(seen[i].actions))
        batches += [part[i : i + size] for i in range(0, len(part), size)]
    for place in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[place]
