"""``python -m evals.bench step --out DIR``: the same as ``stategate eval bench step --out DIR``."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv[1:1] = ["eval", "bench"]
    runpy.run_module("ui.cli.main", run_name="__main__", alter_sys=True)
