"""The page on memory and question answering: tables, plots and a transcript from run directories.

    python -m evals.qa_report runs/qa runs/memory --intro docs/results/memory_qa.intro.md \
        --transcript memory:both:glider --out docs/results/memory_qa.md

The ``args.json`` and ``summary.json`` behind each table are copied to ``runs/NAME`` beside the page.
A benchmark's run directory becomes a table of its figures.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.qa_memory import transcript
from evals.qa_plots import plot_memory, plot_qa
from evals.report import figures
from stores.errors import UserError, mistakes_in_one_line

Row = Mapping[str, Any]
TITLES = {
    "A": "A. Chunk size",
    "B": "B. Chunking",
    "C": "C. Embedding and retrieval",
    "D": "D. Memory policy, six questions a conversation",
    "E": "E. Reranking by the question's likelihood under a small language model",
}


#: Tests that summary.json holds and the page leaves out, to be readable.
_UNTOLD = ("hit3", "f1")


def qa_table(rows: Sequence[Row]) -> str:
    """Return the tables of the experiments, values ± standard errors."""
    parts = []
    for experiment in dict.fromkeys(row["experiment"] for row in rows):
        lines = [
            f"### {TITLES[experiment]}\n",
            "| agent | n | Hit@3 | MRR | nDCG@10 | similarity | token F1 | p50 s | p95 s "
            "| context tokens | model tokens | cost $ |",
            "|" + "---|" * 12,
        ]
        for row in rows:
            if row["experiment"] != experiment:
                continue
            if "note" in row:
                lines.append(f"| {row['agent']} | 0 | {row['note']} |" + " |" * 9)
                continue
            cells = [_pm(row, m, 3) for m in ("hit3", "mrr", "ndcg", "similarity", "f1")]
            cells += [f"{row['seconds_p50']:.3f}", f"{row['seconds_p95']:.3f}"]
            cells += [f"{row[m]:.0f}" for m in ("tokens", "model_tokens")] + [f"{row['cost']:.4f}"]
            lines.append(f"| {row['agent']} | {row['n']} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def memory_table(rows: Sequence[Row]) -> str:
    """Return right answers in per cent by kind of turn, and what each policy costs."""
    kinds = ("right", "right_follow_up", "right_recall", "right_cross_session", "right_entity")
    lines = [
        "| memory | n | all % | follow-up % | recall % | cross-session % | entity % | readable % "
        "| context tokens | seconds |",
        "|" + "---|" * 10,
    ]
    for row in rows:
        cells = [_pm(row, kind, 1, 100) for kind in (*kinds, "readable")]
        cells += [f"{row['tokens']:.0f}", f"{row['seconds']:.2f}"]
        lines.append(f"| {row['agent']} | {row['n']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tests_table(tests: Sequence[Row]) -> str:
    """Return paired tests: differences in the metric's own unit."""
    lines = [
        "| against | agent | metric | n | difference | 95 % interval | p |",
        "|---|---|---|---|---|---|---|",
    ]
    seen = set()
    for test in tests:
        key = (test["a"], test["b"], test["metric"])
        if key not in seen and test["metric"] not in _UNTOLD:
            seen.add(key)
            p = "< .001" if test["p"] < 0.001 else f"{test['p']:.3f}".lstrip("0")
            lines.append(
                f"| {test['a']} | {test['b']} | {test['metric']} | {test['n']} "
                f"| {test['difference']:+.3f} | {test['low']:+.3f} to {test['high']:+.3f} | {p} |"
            )
    return "\n".join(lines)


def section(folder: Path, args: Row, summary: Row) -> str:
    """Return one run's section: what it was, its table, its tests."""
    kind = args.get("experiment")
    commits = [args["commit"], *(part["commit"] for part in args.get("resumed", []))]
    shown = ", then ".join(" ".join([f"`{c[:12]}`", *c.split(" ", 1)[1:]]) for c in commits)
    parts = [f"## {folder.name}"]
    if kind not in ("qa", "memory"):
        facts = f"Seed {args['seed']}; commit {shown}."
        return "\n\n".join([*parts, facts, f"`{args['command']}`", figures(summary["rows"])])
    agents = args["agents"].values()
    actors = ", ".join(dict.fromkeys(f"`{agent['actor']['kind']}`" for agent in agents))
    models = dict.fromkeys(str((agent.get("llm") or {}).get("model")) for agent in agents)
    model = f" (model {', '.join(models)})" if "`answer`" in actors else ""
    facts = (
        f"Actor {actors}{model}; data `{args['data']['name']}` "
        f"(SHA-256 `{args['data']['sha256'][:12]}…`); seed {args['seed']}; commit {shown}."
    )
    table = qa_table(summary["rows"]) if kind == "qa" else memory_table(summary["rows"])
    picture = f"![{folder.name}](memory_qa-{folder.name}.png)"
    parts += [facts, f"`{args['command']}`", table, picture]
    if summary["tests"]:
        unit = "dialogues" if kind == "memory" else "questions"
        parts += [f"Paired tests over the same {unit}:", tests_table(summary["tests"])]
    return "\n\n".join(parts)


def report(folders: Sequence[Path], out: Path, intro: Path | None, told: str | None) -> None:
    """Write the page, its plots, and copies of what the tables were made from."""
    page = [intro.read_text("utf-8").strip() if intro else f"# {out.stem}"]
    out.parent.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        args, summary = _load(folder)
        page.append(section(folder, args, summary))
        picture = out.parent / f"memory_qa-{folder.name}.png"
        if args.get("experiment") == "qa":
            plot_qa(summary["rows"], picture)
        elif args.get("experiment") == "memory":
            plot_memory(summary["rows"], picture)
        kept = out.parent / "runs" / folder.name
        if kept.resolve() != folder.resolve():
            kept.mkdir(parents=True, exist_ok=True)
            for name in ("args.json", "summary.json"):
                shutil.copyfile(folder / name, kept / name)
    if told:
        page += ["## A transcript", _told(told, folders)]
    out.write_text("\n\n".join(page).rstrip() + "\n", encoding="utf-8")


def _told(name: str, folders: Sequence[Path]) -> str:
    run, _, rest = name.partition(":")
    agent, _, dialogue = rest.partition(":")
    folder = next((f for f in folders if f.name == run), None)
    if folder is None or not dialogue:
        raise UserError(
            f"no transcript '{name}': give RUN:POLICY:DIALOGUE with RUN one of the runs"
        )
    return transcript(folder, agent, dialogue)


def _load(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        args = json.loads((folder / "args.json").read_text(encoding="utf-8"))
        return args, json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"'{folder}' is no finished run directory ({error})") from None


def _pm(row: Row, metric: str, digits: int, scale: float = 1) -> str:
    value, error = row.get(metric), row.get(f"{metric}_se")
    if value is None:
        return "–"
    shown = f"{value * scale:.{digits}f}"
    return shown if error is None else f"{shown} ± {error * scale:.{digits}f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.qa_report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--intro", type=Path)
    parser.add_argument("--transcript", metavar="RUN:POLICY:DIALOGUE")
    given = parser.parse_args(argv)
    with mistakes_in_one_line(OSError, ValueError):
        report(given.runs, given.out, given.intro, given.transcript)


if __name__ == "__main__":
    main()
