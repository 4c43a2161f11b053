"""RICO's documents and models (asset, folder, hub repository, GGUF file), and states kept on disk."""

import hashlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stategate.nodes.protocols import Vector
from stategate.stores.assets.downloads import sha256
from stategate.stores.assets.fetch import ASSETS, asset_path
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import atomic_path, user_path, write_bytes
from stategate.stores.home import cache
from stategate.stores.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor

    from stategate.nodes.models.decoder import Backend

DEFAULT = "smollm2-135m"


@dataclass(frozen=True)
class Document:
    """A document to be weighed; ``title`` may be empty."""

    title: str
    text: str

    def as_text(self) -> str:
        """Return the document as models read it."""
        return ": ".join(filter(None, (self.title, self.text)))


@lru_cache(maxsize=4)
def shared_backend(model: str = DEFAULT, max_tokens: int = 300) -> "Backend":
    """Return this process's backend for ``model``, a decoder like Llama. Raises ``UserError``.

    ``model`` is an asset such as ``smollm2-135m`` or ``qwen2.5-coder-0.5b``, a folder, a .gguf file,
    or a hub repository such as ``HuggingFaceTB/SmolLM2-360M``.
    """
    import torch
    import transformers

    from stategate.nodes.models.decoder import Backend

    found, fingerprint = model_folder(model)
    folder = str(found)
    _silence()
    problem = f"cannot load model '{model}'"
    fix = f"give a folder in Hugging Face form, a .gguf file, a reachable hub repository, or {DEFAULT}"
    damages = (OSError, ValueError, KeyError, ImportError)
    with Progress(what=f"loading {model}"), user_error_context(problem, fix, damages):
        is_here = Path(folder).is_dir() or not _answers(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=is_here)
        network = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=is_here
        )
    return Backend(network, tokenizer, model, fingerprint, max_tokens)


def model_folder(model: str) -> tuple[Path | str, str]:
    """Return where ``model`` lies in Hugging Face form, and its fingerprint."""
    is_asset = model in ASSETS and not ASSETS[model].is_folder
    path = asset_path(model) if is_asset else user_path(model)
    if path.suffix == ".gguf" and path.is_file():
        digest = next(iter(ASSETS[model].files.values())) if is_asset else sha256(path)
        return _converted(path, digest), digest[:16]
    if path.is_dir():
        return path, _hash_folder(path)
    is_hub_name = "/" in model and not path.is_absolute() and not model.startswith((".", "~"))
    if not is_hub_name or path.suffix == ".gguf":
        kinds = "a folder, a .gguf file, or a hub's OWNER/NAME"
        raise UserError(f"no model '{model}': give {DEFAULT}, {kinds}")
    return model, hashlib.sha256(model.encode()).hexdigest()[:16]


def _hash_folder(folder: Path) -> str:
    names = sorted(p for p in folder.iterdir() if p.suffix in (".safetensors", ".json"))
    total = hashlib.sha256()
    for path in names:
        total.update(path.name.encode() + sha256(path).encode())
    return total.hexdigest()[:16]


def _converted(path: Path, digest: str) -> Path:
    """Return a GGUF file's weights as a Hugging Face folder, dequantised once and kept."""
    folder = cache() / "converted" / f"{path.stem}-{digest[:12]}"
    if (folder / "config.json").is_file():
        return folder
    for package in ("accelerate", "gguf"):  # transformers needs them, and names no fix
        import_module(package)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, modeling_gguf_pytorch_utils

    _silence()
    what = f"converting {path.stem}, this once"
    # This bar it draws all the same.
    modeling_gguf_pytorch_utils.tqdm = lambda tensors, **_: Progress(tensors, what, unit="tensor")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"), Progress(what=what):
        if not (folder / "config.json").is_file():
            tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
            network = AutoModelForCausalLM.from_pretrained(
                str(path.parent), gguf_file=path.name, dtype=torch.float32
            )
            # transformers keeps calling a dequantised model quantised and then refuses to save it.
            del network.config.quantization_config
            network.hf_quantizer, network.is_quantized = None, False
            with atomic_path(folder) as partial:
                network.save_pretrained(partial)
                tokenizer.save_pretrained(partial)
    return folder


def _silence() -> None:
    """Keep transformers from drawing bars and telling of weights, and the hub of each retry."""
    import transformers

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def _answers(repository: str) -> bool:
    """Say whether the hub is reached: transformers asks a dead one for a minute, file by file."""
    import httpx2
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        HfApi().model_info(repository, timeout=5)
    except HfHubHTTPError:  # it refuses: transformers says why
        return True
    except (httpx2.HTTPError, OfflineModeIsEnabled):
        return False
    return True


_FP16 = 65504  # the largest number of that type
#: Each document is read once, and each model loaded once, whoever asks.
_lock = threading.RLock()


def document_states(backend: "Backend", documents: Sequence[Document]) -> "list[Tensor]":
    """Return the documents' states, in order; a build that was killed goes on where it stopped."""
    import torch

    folder = cache() / "document_states" / f"{backend.fingerprint.replace('/', '-')}-fp16"
    texts = [document.as_text() for document in documents]
    digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts)
    files = [folder / f"{digest}.safetensors" for digest in digests]
    with _lock:
        by_file = dict(zip(files, texts, strict=True))
        unread = [file for file in by_file if not file.is_file()]
        for file in Progress(unread, "read", unit="document"):
            state = backend.encode(by_file[file]).numpy()
            half = np.clip(state, -_FP16, _FP16).astype(np.float16, order="C")
            write_bytes(file, save({"kv": half}))
        return [torch.from_numpy(_read(file)) for file in files]


def _read(file: Path) -> Vector:
    damages = (OSError, KeyError, ValueError, SafetensorError)
    with user_error_context(f"cannot read '{file}'", "delete it", damages):
        return load(file.read_bytes())["kv"].astype(np.float32)
