"""Running networks that are far too small for several threads."""

from collections.abc import Iterator
from contextlib import contextmanager

_threads: int | None = None


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
