"""Checkpoints: tensors as safetensors, everything else in a JSON file beside them.

``NAME`` is looked up in ``checkpoints/`` of this package, then in ``$STATEGATE_HOME/checkpoints``; a
path is taken as it is. The JSON names the architecture, the embedder, what the weights were trained on
and how well they did; it also holds the tensors' SHA-256, so a damaged or mixed-up pair is refused.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stategate.stores.errors import UNREADABLE, UserError, user_error_context
from stategate.stores.files import parse_json, write_bytes, write_json
from stategate.stores.home import home

if TYPE_CHECKING:
    from torch import Tensor, nn

SHIPPED = Path(__file__).resolve().parents[2] / "checkpoints"

_threads: int | None = None


def save_weights(
    path: str | Path, tensors: "Mapping[str, Tensor]", meta: Mapping[str, object], half: bool = True
) -> str:
    """Write ``path``.safetensors and ``path``.json; return the tensors' SHA-256.

    ``meta`` must hold ``kind`` and ``architecture``. ``half`` stores fp16 (half of the bytes).
    """
    from safetensors.torch import save

    target = Path(path).with_suffix("")
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = save({k: t.half() if half and t.is_floating_point() else t for k, t in stored.items()})
    digest = hashlib.sha256(data).hexdigest()
    write_bytes(target.with_name(f"{target.name}.safetensors"), data)
    write_json(target.with_name(f"{target.name}.json"), {**meta, "sha256": digest}, indent=1)
    return digest


def find_weights(name: str) -> Path:
    """Return the path (without suffix) of checkpoint ``name``. Raises ``UserError``."""
    bare = name.removesuffix(".safetensors").removesuffix(".json")
    if os.sep in bare or bare.startswith((".", "~")):
        places = [Path(bare).expanduser()]
    else:
        places = [SHIPPED / bare, home() / "checkpoints" / bare]
    for place in places:
        if place.with_name(place.name + ".safetensors").is_file():
            return place
    names = ", ".join(sorted(path.stem for path in SHIPPED.glob("*.safetensors"))) or "none"
    raise UserError(f"no checkpoint '{name}': name a file, or one of those that ship ({names})")


def read_meta(name: str) -> dict[str, Any]:
    """Return what the JSON of checkpoint ``name`` says. Raises ``UserError``."""
    path = find_weights(name)
    meta_path = path.with_name(path.name + ".json")
    try:
        meta: dict[str, Any] = parse_json(meta_path.read_text("utf-8"))
        if isinstance(meta, dict) and {"kind", "architecture", "sha256"} <= set(meta):
            return meta
    except (OSError, ValueError):
        pass
    raise UserError(
        f"checkpoint '{name}' has no readable {meta_path.name}: copy both files, or train it again"
    )


def load_arrays(name: str, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (NumPy arrays, meta) of checkpoint ``name``, which must be of ``kind``.

    Raises ``UserError`` for a missing, damaged or different checkpoint.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    meta = read_meta(name)
    if meta["kind"] != kind:
        raise UserError(f"checkpoint '{name}' is a '{meta['kind']}', but a '{kind}' is needed here")
    path = find_weights(name)
    data = path.with_name(path.name + ".safetensors").read_bytes()
    if hashlib.sha256(data).hexdigest() != meta["sha256"]:
        raise UserError(
            f"checkpoint '{name}' is damaged or not the one its JSON describes: fetch or train it again"
        )
    with user_error_context(
        f"checkpoint '{name}' holds no tensors", "fetch or train it again", SafetensorError
    ):
        return load(data), meta


def require_match(name: str, meta: Mapping[str, object], key: str, have: object, fix: str) -> None:
    """Raise ``UserError`` unless ``meta[key]`` equals ``have``; ``fix`` says what to do."""
    if meta.get(key) != have:
        raise UserError(
            f"checkpoint '{name}' was made for {key} '{meta.get(key)}', not '{have}': {fix}"
        )


def load_trained(
    name: str, role: str, make: "Callable[..., nn.Module]", **checks: tuple[Any, str]
) -> "tuple[nn.Module, dict[str, Any]]":
    """Return the network that ``make`` shapes with the weights of checkpoint ``name``, and its meta.

    ``checks`` map a fact of the checkpoint to what it must be and what to do where it is not. Raises
    ``UserError`` for a checkpoint of another role, or one that does not fit.
    """
    import torch

    arrays, meta = load_arrays(name, role)
    for fact, (expected, fix) in checks.items():
        require_match(name, meta, fact, expected, fix)
    with fitting(name):
        network = make(**meta["architecture"])
        network.load_state_dict({key: torch.tensor(array) for key, array in arrays.items()})
    return network.eval(), meta


@contextmanager
def fitting(name: str) -> Iterator[None]:
    """Turn errors of making something from a checkpoint's JSON into a ``UserError``."""
    try:
        yield
    except (RuntimeError, *UNREADABLE) as error:  # what they say is about our code, or torch's
        what = f"the JSON of checkpoint '{name}' is damaged or does not fit its tensors"
        raise UserError(f"{what}: copy both files, or train it again") from error


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
