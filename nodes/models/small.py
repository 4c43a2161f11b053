"""Small trained networks: loading them from checkpoints, running them on one thread."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stategate.stores.errors import UserError, describe_error

if TYPE_CHECKING:
    from torch import nn

_threads: int | None = None


def load_trained(
    name: str, role: str, make: "Callable[..., nn.Module]", **checks: tuple[Any, str]
) -> "tuple[nn.Module, dict[str, Any]]":
    """Return the network that ``make`` shapes with the weights of checkpoint ``name``, and its meta.

    ``checks`` map a fact of the checkpoint to what it must be and what to do where it is not. Raises
    ``UserError`` for a checkpoint of another role, or one that does not fit.
    """
    from stategate.stores.assets.weights import load_weights, require_match

    tensors, meta = load_weights(name, role)
    for fact, (expected, fix) in checks.items():
        require_match(name, meta, fact, expected, fix)
    network = make(**meta["architecture"])
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        problem = f"does not fit its architecture ({describe_error(error)})"
        raise UserError(f"checkpoint '{name}' {problem}") from None
    return network.eval(), meta


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
