"""JSON lines files, written whole or not at all."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stores.errors import UserError


def write_lines(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write ``rows``, one JSON object a line; returns how many. A failure leaves ``path`` as it was.

    Lone surrogates (a model's broken emoji) become "?". Raises ``UserError`` if writing fails.
    """
    target = Path(path).expanduser()
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    count = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8", errors="replace") as lines:
            for row in rows:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
        partial.replace(target)
    except OSError as error:
        raise UserError(f"cannot write '{path}' ({error.strerror}): name another file") from None
    finally:
        partial.unlink(missing_ok=True)
    return count
