"""The header of a GGUF file: what a model is and how much memory its context takes.

Read before llama.cpp is asked to load the file, because llama.cpp tells its caller only that it
failed, and a context far beyond the model's own makes it hang.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from stores.errors import UserError

#: From the format's numbers of scalar types to struct's letters.
_SCALARS = {**dict(enumerate("BbHhIif?")), 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class GgufHeader:
    """What the header says. ``context_length`` is in tokens, ``kv_bytes_per_token`` at fp16."""

    architecture: str
    name: str
    context_length: int
    kv_bytes_per_token: int


def read_header(path: Path) -> GgufHeader:
    """Read a GGUF header. Raises ``UserError`` for a missing file or one that is not GGUF."""
    if not path.is_file():
        raise UserError(
            f"no model file at {path}: give the path of a .gguf file, or an asset's name"
        )
    try:
        with path.open("rb") as stream:
            values = _read_values(stream)
        architecture = str(values["general.architecture"])
        layers = int(values[f"{architecture}.block_count"])
        width = int(values[f"{architecture}.embedding_length"])
        heads = _largest(values[f"{architecture}.attention.head_count"])
        kv_heads = _largest(values.get(f"{architecture}.attention.head_count_kv", heads))
        return GgufHeader(
            architecture=architecture,
            name=str(values.get("general.name", path.stem)),
            context_length=int(values[f"{architecture}.context_length"]),
            kv_bytes_per_token=2 * 2 * layers * kv_heads * (width // max(heads, 1)),
        )
    except (struct.error, KeyError, ValueError, TypeError, MemoryError, OverflowError) as error:
        raise UserError(f"{path} is not a whole GGUF model: fetch it again") from error


def _largest(value: Any) -> int:
    return max(int(v) for v in value) if isinstance(value, list) else int(value)


def _take(stream: IO[bytes], layout: str) -> Any:
    size = struct.calcsize("<" + layout)
    return struct.unpack("<" + layout, stream.read(size))[0]


def _read_values(stream: IO[bytes]) -> dict[str, Any]:
    if stream.read(4) != b"GGUF":
        raise ValueError("no GGUF magic")
    _take(stream, "I")  # format version
    _take(stream, "Q")  # tensors
    count = int(_take(stream, "Q"))
    values = {}
    for _ in range(count):
        key = _text(stream)
        if key.startswith("tokenizer."):
            break  # model facts come before the vocabulary, which is long
        values[key] = _value(stream, int(_take(stream, "I")))
    return values


def _text(stream: IO[bytes]) -> str:
    size = int(_take(stream, "Q"))
    if size > 1 << 24:
        raise ValueError("a text of impossible length")
    return stream.read(size).decode("utf-8", "replace")


def _value(stream: IO[bytes], kind: int) -> Any:
    if kind == _STRING:
        return _text(stream)
    if kind == _ARRAY:
        inner, count = int(_take(stream, "I")), int(_take(stream, "Q"))
        if count > 1 << 22:
            raise ValueError("an array of impossible length")
        return [_value(stream, inner) for _ in range(count)]
    return _take(stream, _SCALARS[kind])
