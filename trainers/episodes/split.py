"""Splitting episodes for training: never the same product on both sides."""

import random
from collections.abc import Sequence

from stores.traces.trajectories import Trajectory


def group_of(trajectory: Trajectory) -> str:
    """Return what must never be on both sides of a split: the product, else the episode."""
    return str(trajectory.agent.get("asin") or trajectory.episode_id)


def split_by_group(
    trajectories: Sequence[Trajectory], share: float, seed: int
) -> tuple[list[Trajectory], list[Trajectory]]:
    """Split into (training, validation) by product: about ``share`` of the groups validate."""
    groups = sorted({group_of(t) for t in trajectories})
    random.Random(seed).shuffle(groups)
    held = set(groups[: max(1, round(share * len(groups)))]) if len(groups) > 1 else set()
    return (
        [t for t in trajectories if group_of(t) not in held],
        [t for t in trajectories if group_of(t) in held],
    )
