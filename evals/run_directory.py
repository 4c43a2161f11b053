"""A run directory: the only output of an evaluation, and all that tables are made from.

    args.json       command, commit, data hash, seed, checkpoint hashes, versions, agents, tasks
    episodes.jsonl  one row an (agent, task), appended as it ends
    steps.jsonl     one row a step
    errors.jsonl    one row an episode that failed
    summary.json    {"rows": [...], "tests": [...]}

A run that was killed goes on where it stopped: rows that are there are not made again.
"""

import json
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from stores.errors import UserError

_PACKAGES: tuple[str, ...] = (
    "stategate",
    "langgraph",
    "langchain-core",
    "langchain-openai",
    "torch",
)
_PACKAGES += ("sentence-transformers", "spacy", "thefuzz", "xllamacpp", "numpy")
#: What may differ between a run and its resumption.
_VOLATILE = ("command", "commit", "versions")


class RunDirectory:
    """One run's folder; made, or reopened if its arguments are the same."""

    def __init__(self, folder: str | Path, args: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        existing = self.folder / "args.json"
        if existing.exists():
            _same(json.loads(existing.read_text()), dict(args), self.folder)
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise UserError(f"'{folder}' holds something else: name a new folder for the run")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(existing, args)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Read ``name``.jsonl; a last line torn by a kill is removed from the file."""
        path = self.folder / f"{name}.jsonl"
        if not path.exists():
            return []
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if whole != raw:
            path.write_bytes(whole)
        return [json.loads(line) for line in whole.decode().splitlines() if line.strip()]

    def append(self, name: str, *rows: Mapping[str, Any]) -> None:
        """Add rows to ``name``.jsonl and see them to the disk."""
        with (self.folder / f"{name}.jsonl").open("a", encoding="utf-8") as lines:
            lines.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            lines.flush()
            os.fsync(lines.fileno())

    def summarise(
        self, rows: Sequence[Mapping[str, Any]], tests: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write ``summary.json``."""
        write_json(self.folder / "summary.json", {"rows": list(rows), "tests": list(tests)})


def provenance(command: Sequence[str]) -> dict[str, Any]:
    """Return what identifies code and libraries: command, commit, package versions."""
    return {
        "command": " ".join(_shown(word) for word in command),
        "commit": _commit(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
    }


def shown_path(value: str) -> str:
    """Return a path without what is particular to this machine."""
    return Path(value).name if Path(value).is_absolute() or value.startswith("..") else value


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of one."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    text = json.dumps(_strict(value), indent=2, ensure_ascii=False, allow_nan=False)
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)


def _strict(value: Any) -> Any:
    """Return ``value`` with NaN as None: JSON has no NaN."""
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(word: str) -> str:
    head, equals, tail = word.partition("=")
    return f"{head}={shown_path(tail)}" if equals else shown_path(word)


def _same(old: dict[str, Any], new: dict[str, Any], folder: Path) -> None:
    plain = json.loads(json.dumps(new))
    for key in sorted((set(old) | set(plain)) - set(_VOLATILE)):
        if old.get(key) != plain.get(key):
            raise UserError(
                f"'{folder}' holds a run with other arguments ({key} differs): name a new folder"
            )


def _commit() -> str:
    def git(*words: str) -> str:
        root = Path(__file__).parents[1]
        done = subprocess.run(  # noqa: S603 - fixed words
            ["git", *words],  # noqa: S607
            capture_output=True, text=True, check=True, cwd=root, timeout=20,
        )  # fmt: skip
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return f"{commit} with uncommitted changes" if git("status", "--porcelain") else commit
    except (subprocess.SubprocessError, OSError):
        return "unknown (not a git checkout)"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
