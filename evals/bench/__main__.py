"""``python -m evals.bench step --out DIR``: the same as ``stategate eval bench step --out DIR``."""

import sys

from evals.bench.app import bench_app
from stores.errors import UserError

if __name__ == "__main__":
    try:
        sys.exit(bench_app(prog_name="python -m evals.bench", standalone_mode=False) or 0)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # typer's own
        if usage is None and not isinstance(error, UserError):
            raise
        message = " ".join((usage() if usage else str(error)).split())
        sys.stderr.write(f"stategate: {message}\n")
        sys.exit(2)
