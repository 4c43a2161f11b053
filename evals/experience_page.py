"""The page of the experience evaluation, from run directories.

python -m evals.experience_page runs/experience-rule runs/bench-bank --out docs/results/experience.md

Like ``evals.report``, and for runs of ``evals.experience`` two tables more: the paired tests on each
category of goals, and which advice helped or hurt. Their files are copied beside the summaries.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.report import report
from stores.errors import mistakes_in_one_line

_MORE = ("subsets.json", "moves.json")


def subsets_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a markdown table: an agent and a category a line, success without and with."""
    lines = [
        "| agent | category | n | without % | with % | difference | 95 % interval | p |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = 100 * row["low"], 100 * row["high"]
        lines.append(
            f"| {row['b']} | {row['subset']} | {row['n']} | {100 * row['none']:.1f} "
            f"| {100 * row['with']:.1f} | {100 * row['difference']:+.1f} "
            f"| {low:+.1f} to {high:+.1f} | {row['p']:.3f} |"
        )
    return "\n".join(lines)


def moves_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a markdown table: an agent and a move a line, goals better and worse than without."""
    lines = ["| agent | advice | goals | better | worse | score |", "|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['agent']} | {row['move']} | {row['goals']} | {row['better']} | {row['worse']} "
            f"| {100 * row['score_difference']:+.1f} |"
        )
    return "\n".join(lines)


def write_page(
    folders: Sequence[Path], out: Path, intro: Path | None = None, agents: Sequence[str] = ()
) -> None:
    """Write the page; ``agents`` limits the two tables to those agents."""
    report(folders, out, intro)
    page = out.read_text(encoding="utf-8")
    for folder in folders:
        if not all((folder / name).is_file() for name in _MORE):
            continue
        tables = []
        for name in _MORE:
            kept = out.parent / "runs" / folder.name / name
            if kept.resolve() != (folder / name).resolve():
                shutil.copyfile(folder / name, kept)
            tables.append(json.loads(kept.read_text(encoding="utf-8")))
        subsets = [row for row in tables[0] if not agents or row["b"] in agents]
        moves = [row for row in tables[1] if not agents or row["agent"] in agents]
        told = ["Success by category of goals:", subsets_table(subsets)] if subsets else []
        told += [
            "Goals on which a piece of advice changed a decision, against the same goals without "
            "experience (a goal may count under several):",
            moves_table(moves),
        ]
        page = _after_section(page, folder.name, "\n\n".join(told))
    out.write_text(page, encoding="utf-8")


def _after_section(page: str, name: str, text: str) -> str:
    """Put ``text`` at the end of the section headed ``name``."""
    start = page.index(f"\n## {name}\n")
    end = page.find("\n## ", start + 1)
    end = len(page) if end < 0 else end
    return f"{page[:end].rstrip()}\n\n{text}\n{page[end:]}"


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.experience_page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--intro", type=Path)
    parser.add_argument("--agents", default="", help="in the two tables, comma-separated")
    given = parser.parse_args(argv)
    names = [name for name in given.agents.split(",") if name]
    with mistakes_in_one_line():
        write_page(given.runs, given.out, given.intro, names)


if __name__ == "__main__":
    main()
