"""Small trained networks: loading them from checkpoints, running them on one thread."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

_threads: int | None = None


def load_network(
    name: str, role: str, make: "Callable[..., nn.Module]", **checks: tuple[str, str]
) -> "nn.Module":
    """Return the network that ``make`` shapes with the weights of checkpoint ``name``.

    ``checks`` map a fact of the checkpoint to what it must be and what to do where it is not. Raises
    ``UserError`` for a checkpoint of another role, or one that does not fit.
    """
    from stores.assets.weights import load_weights, require_match

    tensors, meta = load_weights(name, role)
    for fact, (expected, fix) in checks.items():
        require_match(name, meta, fact, expected, fix)
    architecture: dict[str, Any] = meta["architecture"]
    network = make(**architecture)
    network.load_state_dict(tensors)
    return network.eval()


@contextmanager
def small_inference() -> Iterator[None]:
    """Infer on one thread: with more, networks of a few milliseconds mostly wait for each other.

    The count of threads is the process's; what comes after gets the count back that was there
    before the first use.
    """
    global _threads
    import torch

    if _threads is None:
        _threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(_threads)
