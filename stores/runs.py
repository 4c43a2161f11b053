"""Writing a run directory: the only output of an evaluation, and all that tables are made from.

    args.json       command, commit, data hash, seed, checkpoint hashes, versions, agents, tasks
    episodes.jsonl  one row an (agent, task), appended as it ends (evaluations of another kind name
                    it after what they count: questions, dialogues, scores, threads)
    errors.jsonl    one row an episode that failed, written with the summary
    summary.json    {"rows": [...], "tests": [...]}

A run that was killed goes on where it stopped: rows that are there are not made again. If the code
or a package is another by then, ``args.json`` says so under ``resumed``.
"""

import gzip
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import json_safe, parse_json, write_bytes, write_json, write_text
from stategate.stores.home import this_user
from stategate.stores.text import without_password

_PACKAGES = (
    "stategate langgraph langchain langchain-core langchain-openai torch sentence-transformers"
    " spacy rapidfuzz xllamacpp numpy"
).split()
#: What may differ between a run and its resumption.
_VOLATILE = ("command", "commit", "versions", "resumed")
_ROOT = Path(__file__).resolve().parents[1]
#: A path from the root, from home or from outside, anywhere in a word; not the path of a URL.
_PATH = re.compile(r"""(?<![\w.:/~-])(?:~|\.\.)?(?:/[^\s/,;:'"()\[\]{}=]+)+/?""")
#: Bytes that a table of rows may have, unpacked; the largest of the published runs has 20 MB.
_MOST = 512 << 20


class RunDirectory:
    """One run's folder; made, or reopened if its arguments are the same."""

    def __init__(self, folder: str | Path, args: Mapping[str, object]) -> None:
        self.folder = Path(folder)
        self._args = self.folder / "args.json"
        with user_error_context(f"cannot keep a run in '{folder}'", "name a new folder"):
            if self._args.exists():
                _same(parse_json(self._args.read_text(encoding="utf-8")), dict(args), self.folder)
            elif self.folder.exists() and any(p.suffix != ".part" for p in self.folder.iterdir()):
                raise UserError(f"'{folder}' holds something else: name a new folder for the run")
            else:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_json(self._args, args, indent=2)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the directory: two writers would write everything twice. Raises ``UserError``."""
        from filelock import FileLock, Timeout

        name = hashlib.sha256(str(self.folder.resolve()).encode("utf-8", "replace")).hexdigest()
        lock = FileLock(Path(tempfile.gettempdir()) / f"stategate-{this_user()}-{name[:24]}.lock")
        try:
            held = lock.acquire(timeout=0)
        except Timeout:
            raise UserError(
                f"another process writes the run '{self.folder}': wait for it, or name another folder"
            ) from None
        with held:
            yield

    def note_resumption(self, args: Mapping[str, object]) -> None:
        """Write to ``args.json`` under which commit and packages rows are added, if they changed."""
        old = parse_json(self._args.read_text(encoding="utf-8"))
        now = {key: args.get(key) for key in ("command", "commit", "versions")}
        last = (old.get("resumed") or [old])[-1]
        if any(last.get(key) != now[key] for key in ("commit", "versions")):
            write_json(self._args, {**old, "resumed": [*old.get("resumed", []), now]}, indent=2)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Read ``name``.jsonl; a last line torn by a kill is removed from the file.

        Raises ``UserError`` naming the line if another one is no JSON.
        """
        path = self.folder / f"{name}.jsonl"
        if not path.exists():
            return []
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if whole != raw:
            write_bytes(path, whole)
        return read_rows(path)

    def replace(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Write ``name``.jsonl anew; without rows there is none."""
        path = self.folder / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        if rows:
            write_text(path, "".join(map(_line, rows)))

    def append(self, name: str, *rows: Mapping[str, object]) -> None:
        """Add rows to ``name``.jsonl and see them to the disk."""
        path = self.folder / f"{name}.jsonl"
        fix = "make room, and the same command goes on from here"
        with (
            user_error_context(f"cannot write '{path}'", fix, OSError),
            path.open("a", encoding="utf-8") as lines,
        ):
            lines.write("".join(_line(row) for row in rows))
            lines.flush()
            os.fsync(lines.fileno())

    def summarise(
        self, rows: Sequence[Mapping[str, object]], tests: Sequence[Mapping[str, object]]
    ) -> dict[str, Any]:
        """Write ``summary.json`` and return what it holds (null for what is not a number)."""
        summary: dict[str, Any] = json_safe({"rows": list(rows), "tests": list(tests)})
        write_json(self.folder / "summary.json", summary, indent=2)
        return summary


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """Read JSON lines (.gz too); a last line that a kill tore is left out (and left on the disk).

    Raises ``UserError`` naming the line if another one is no JSON.
    """
    is_packed = Path(path).suffix == ".gz"
    with gzip.open(path) if is_packed else Path(path).open("rb") as file:
        raw = file.read(_MOST + 1)
    if len(raw) > _MOST:
        raise UserError(f"'{path}' holds more than {_MOST >> 20} MB of rows: split it")
    rows: list[dict[str, Any]] = []
    # Only "\n" ends a row: splitlines() would split at U+2028 inside a page's text.
    for number, line in enumerate(raw[: raw.rfind(b"\n") + 1].split(b"\n"), 1):
        try:
            rows += [parse_json(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            raise UserError(f"'{path}' line {number} is damaged ({error}): remove it") from None
    return rows


def provenance(command: Sequence[str] = ()) -> dict[str, Any]:
    """Return what identifies code and libraries: command (as typed, or given), commit, versions."""
    versions = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    words = shlex.join(without_password(word) for word in command or _typed())
    typed = _PATH.sub(lambda match: public_path(match[0]), words)
    return {"command": typed, "commit": _commit(), "versions": versions}


def public_path(value: str) -> str:
    """Return a path without what is particular to this machine; what is none stays as it is.

    Inside the repository it becomes relative to it; outside only the last name is left.
    """
    path = Path(value).expanduser() if value.startswith("~/") else Path(value)
    if path.is_absolute() and path.resolve().is_relative_to(_ROOT):
        return str(path.resolve().relative_to(_ROOT))
    if path.is_absolute() or value.startswith(".."):
        return path.name
    return value


def public_config(value: object) -> Any:
    """Return a JSON-like value with its paths as :func:`public_path` shows them, without passwords."""
    if isinstance(value, Mapping):
        return {key: public_config(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [public_config(item) for item in value]
    return without_password(public_path(value)) if isinstance(value, str) else value


def mean(values: Sequence[float]) -> float:
    """Return the mean (NaN of nothing)."""
    import numpy as np

    return float(np.mean(values)) if len(values) else float("nan")


def with_errors(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return each metric's mean, and its standard error (NaN of fewer than two) as ``METRIC_se``."""
    import numpy as np

    row: dict[str, float] = {}
    for metric, numbers in values.items():
        n = len(numbers)
        error = float(np.std(numbers, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
        row |= {metric: mean(numbers), f"{metric}_se": error}
    return row


def parse_numbers(text: str, what: str = "goals") -> list[int]:
    """Read "0-499", "3,5,8" or a mixture of ``what``, each once. Raises ``UserError``."""
    numbers: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        try:
            numbers.extend(range(int(low), int(high if dash else low) + 1))
        except ValueError:
            raise UserError(f"write {what} as 0-499 or 3,5,8, not '{text}'") from None
    if not numbers:
        raise UserError(f"'{text}' names no {what}: write the smaller number first, as in 0-499")
    return list(dict.fromkeys(numbers))


def _line(row: Mapping[str, object]) -> str:
    return json.dumps(json_safe(row)) + "\n"  # ASCII: lone surrogates of a broken model fit in too


def _typed() -> list[str]:
    program = Path(sys.argv[0])
    if program.suffix == ".py" and program.is_relative_to(_ROOT):
        parts = program.with_suffix("").relative_to(_ROOT).parts
        return ["python", "-m", ".".join(p for p in parts if p != "__main__"), *sys.argv[1:]]
    return [program.name, *sys.argv[1:]]


def _same(old: Mapping[str, object], new: Mapping[str, object], folder: Path) -> None:
    plain = json.loads(json.dumps(new))
    for key in sorted((set(old) | set(plain)) - set(_VOLATILE)):
        if old.get(key) != plain.get(key):
            raise UserError(
                f"'{folder}' holds a run with other arguments (the value of {key} differs):"
                " name a new folder"
            )


def _commit() -> str:
    def git(*words: str) -> str:
        command = ["git", *words]
        done = subprocess.run(command, capture_output=True, check=True, cwd=_ROOT, timeout=20)  # noqa: S603
        return done.stdout.decode().strip()

    try:
        if not (_ROOT / ".git").exists():  # installed, perhaps inside somebody else's repository
            return "unknown (not a git checkout)"
        commit = git("rev-parse", "HEAD")
        # Checkpoints are told by their hashes: a trainer has just written the one before its own.
        changed = git("status", "--porcelain", "--", ".", ":!checkpoints")
        return f"{commit} with uncommitted changes" if changed else commit
    except (subprocess.SubprocessError, OSError):
        return "unknown (not a git checkout)"
