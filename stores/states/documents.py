"""What a model remembers of each document, on disk: memory-mapped, sharded, quantised.

    states/
      index.json        {"version", "fingerprint", "dtype"}
      entries.jsonl     one line a document (its hash, where its arrays lie), or that it was deleted
      shard-00000.bin   arrays, one after the other, never rewritten

A document's key is the SHA-256 of its text. Its entry is written after its arrays, so a build that
was killed goes on where it stopped and a torn line or an unfinished array is never read. Reading
maps the file: only the documents that are asked for come into memory.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stores.errors import UserError
from stores.files import write_json

Arrays = Mapping[str, NDArray[Any]]
_VERSION = 1
Dtype = Literal["fp32", "fp16", "int8"]
_NUMPY: dict[str, str] = {"fp32": "<f4", "fp16": "<f2", "int8": "<i1"}


@dataclass(frozen=True)
class Entry:
    """A document's arrays, (name, shape) each: ``size`` bytes from ``offset`` of a shard."""

    shard: int
    offset: int
    size: int
    parts: tuple[tuple[str, tuple[int, ...]], ...]


def document_key(text: str) -> str:
    """Return the key of a document: the SHA-256 of what the model reads, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class DocumentStates:
    """An index of document states. One process writes at a time; any number read.

    ``dtype`` is how arrays are kept: ``int8`` has one scale for each matrix (the last two axes).
    """

    def __init__(
        self,
        folder: str | Path,
        fingerprint: str,
        dtype: Dtype = "fp16",
        shard_bytes: int = 1 << 30,
    ) -> None:
        """Open or make the index. Raises ``UserError`` for another model's, or another dtype."""
        self.folder = Path(folder)
        self.dtype: Dtype = dtype
        self._shard_bytes = shard_bytes
        self._entries: dict[str, Entry] = {}
        self._maps: dict[int, NDArray[np.uint8]] = {}
        self._end = (0, 0)  # where the next array goes: after the last one logged, deleted or not
        self._log_size = -1
        wanted = {"version": _VERSION, "fingerprint": fingerprint, "dtype": dtype}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            head = self.folder / "index.json"
            if head.exists():
                self._check(json.loads(head.read_text("utf-8")), wanted)
            else:
                write_json(head, wanted)
            self._read_entries()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"cannot use the document states in '{folder}' ({error}): delete the folder"
            ) from None

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        """Say whether a document's state is here."""
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        """Yield the keys, in the order in which they were added."""
        return iter(tuple(self._entries))

    def add(self, key: str, arrays: Arrays) -> None:
        """Append a document's arrays, quantised; a key that is here already is left alone."""
        from filelock import FileLock

        if key in self._entries:
            return
        packed = [pack(np.asarray(array), self.dtype) for array in arrays.values()]
        blob = b"".join(packed)
        parts = [[name, list(np.shape(array))] for name, array in arrays.items()]
        with FileLock(self.folder / ".lock"):
            self._read_entries()
            if key in self._entries:
                return
            shard, offset = self._end
            if offset and offset + len(blob) > self._shard_bytes:
                shard, offset = shard + 1, 0
            self._write(shard, offset, blob)
            row = {"key": key, "at": [shard, offset, len(blob)], "parts": parts}
            self._log(row)
            self._entries[key] = _entry_of(row)
            self._end = (shard, offset + len(blob))

    def get(self, key: str) -> dict[str, NDArray[np.float32]]:
        """Return a document's arrays as float32. Raises ``KeyError`` if it is not here."""
        entry = self._entries[key]
        end = entry.offset + entry.size
        blob = self._map(entry.shard, end)[entry.offset : end]
        arrays = {}
        start = 0
        for name, shape in entry.parts:
            arrays[name], used = unpack(blob[start:], shape, self.dtype)
            start += used
        return arrays

    def missing(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that are not here, in order, once each."""
        return [key for key in dict.fromkeys(keys) if key not in self._entries]

    def _check(self, head: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        if head.get("version") != wanted["version"]:
            raise ValueError(f"its format is {head.get('version')}, not {wanted['version']}")
        if head.get("fingerprint") != wanted["fingerprint"]:
            raise UserError(
                f"the document states in '{self.folder}' are those of another model or text format "
                f"({head.get('fingerprint')}, not {wanted['fingerprint']}): name another folder"
            )
        if head.get("dtype") != wanted["dtype"]:
            raise UserError(
                f"the document states in '{self.folder}' are kept as {head.get('dtype')}: "
                f"ask for {head.get('dtype')}, or name another folder"
            )

    def _read_entries(self) -> None:
        """Read the log if it grew or shrank since; a torn last line counts as not there."""
        path = self.folder / "entries.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if size == self._log_size:
            return
        raw = path.read_bytes() if size else b""
        entries: dict[str, Entry] = {}
        end = (0, 0)
        for line in raw[: raw.rfind(b"\n") + 1].splitlines():
            row = json.loads(line)
            if row.get("deleted"):
                entries.pop(row["key"], None)
                continue
            entry = _entry_of(row)
            entries[row["key"]] = entry
            end = max(end, (entry.shard, entry.offset + entry.size))
        self._entries, self._end, self._log_size = entries, end, len(raw)

    def _log(self, row: Mapping[str, Any]) -> None:
        with (self.folder / "entries.jsonl").open("a+b") as log:
            size = log.seek(0, os.SEEK_END)
            if size:
                log.seek(size - 1)
                if log.read(1) != b"\n":  # a line torn by a kill: cut it off
                    log.seek(0)
                    log.truncate(log.read().rfind(b"\n") + 1)
            log.write(json.dumps(row).encode() + b"\n")
            log.flush()
            os.fsync(log.fileno())
            self._log_size = log.seek(0, os.SEEK_END)

    def _write(self, shard: int, offset: int, blob: bytes) -> None:
        with self._shard_path(shard).open("r+b" if offset else "wb") as file:
            file.truncate(offset)  # drop what a killed build left behind
            file.seek(offset)
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())

    def _shard_path(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:05d}.bin"

    def _map(self, shard: int, end: int) -> NDArray[np.uint8]:
        """Return a shard's bytes, mapped again if it grew (another process may write) past it."""
        mapped = self._maps.get(shard)
        if mapped is None or len(mapped) < end:
            mapped = np.memmap(self._shard_path(shard), dtype=np.uint8, mode="r")
            self._maps[shard] = mapped
        return mapped


def _entry_of(row: Mapping[str, Any]) -> Entry:
    """Read a line of the log."""
    parts = tuple((str(name), tuple(map(int, shape))) for name, shape in row["parts"])
    shard, offset, size = (int(value) for value in row["at"])
    return Entry(shard, offset, size, parts)


def pack(array: NDArray[Any], dtype: Dtype) -> bytes:
    """Return an array's bytes as ``dtype``; int8 has one scale for each matrix (last two axes)."""
    if dtype == "fp16":  # what it cannot hold becomes the largest it can, never infinity
        array = np.clip(array, -65504, 65504)
    if dtype != "int8":
        return np.ascontiguousarray(array, dtype=_NUMPY[dtype]).tobytes()
    values = np.asarray(array, dtype=np.float32)
    axes = tuple(range(max(values.ndim - 2, 0), values.ndim))
    top = np.abs(values).max(axis=axes, keepdims=True, initial=0.0)
    scale = np.where(top > 0, top / 127, 1).astype("<f4")
    return bytes(scale.tobytes() + np.rint(values / scale).astype("<i1").tobytes())


def unpack(
    blob: NDArray[np.uint8], shape: tuple[int, ...], dtype: Dtype
) -> tuple[NDArray[np.float32], int]:
    """Return the array at the head of ``blob``, and how many bytes it took."""
    count = int(np.prod(shape))
    width = np.dtype(_NUMPY[dtype]).itemsize
    if dtype != "int8":
        used = count * width
        return blob[:used].view(_NUMPY[dtype]).astype(np.float32).reshape(shape), used
    lead = shape[:-2] if len(shape) >= 2 else ()
    scales = int(np.prod(lead)) if lead else 1
    scale = blob[: 4 * scales].view("<f4").reshape(*lead, *(1,) * (len(shape) - len(lead)))
    used = 4 * scales + count
    values = blob[4 * scales : used].view("<i1").reshape(shape)
    return (values * scale).astype(np.float32), used
