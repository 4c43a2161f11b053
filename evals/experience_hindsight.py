"""How well a model annotates in hindsight: usable arrays, states it left out, leaks, tokens, seconds.

python -m evals.experience_hindsight traces.jsonl --limit 6 --out runs/hindsight
python -m evals.experience_hindsight traces.jsonl --set llm.kind=openai --out runs/hindsight-large

A row an episode in ``episodes.jsonl``, with what the model said of each state beside the worth by
return. ``worth`` is the mean worth it gave: a judge that sees anything gives successes more.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

from evals.run_directory import RunDirectory, provenance, shown_config
from evals.statistics import mean, standard_error
from nodes.experience.returns import Annotation, annotate
from nodes.experience.trajectory import Trajectory
from stores.errors import mistakes_in_one_line
from trainers.bank.hindsight import NEUTRAL, Hindsight
from trainers.bank.state_bank import without_leaks

METRICS = ("usable", "missing", "leaks", "worth", "calls", "tokens_in", "tokens_out", "seconds")


def judged(
    episode: Trajectory, notes: Sequence[Annotation] | str, spent: dict[str, float]
) -> dict[str, Any]:
    """Return the row of an episode; ``notes`` is a text where no attempt gave a usable array."""
    row: dict[str, Any] = {"episode": episode.id, "reward": episode.reward}
    row |= {"states": len(episode.steps), **spent}
    if isinstance(notes, str):
        return {**row, "usable": 0.0, "problem": notes}
    missing = sum(note.q == NEUTRAL and not note.experience for note in notes)
    kept, leaks = without_leaks(episode, notes)
    by_return = annotate(episode)
    return {
        **row,
        "usable": 1.0,
        "missing": missing / len(notes),
        "leaks": float(leaks),
        "worth": mean([note.q for note in notes]),
        "said": [
            {"action": s.action, "q": n.q, "q_by_return": r.q, "experience": n.experience}
            for s, n, r in zip(episode.steps, kept, by_return, strict=True)
        ],
    }


def summarised(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return means and standard errors of all episodes, of the successes and of the failures."""
    found = []
    parts = {"all": rows, "successes": [r for r in rows if r["reward"] >= 1.0]}
    parts["failures"] = [r for r in rows if r["reward"] < 1.0]
    for name, part in parts.items():
        told: dict[str, Any] = {"agent": name, "n": len(part)}
        told["states"] = sum(row["states"] for row in part)
        for metric in METRICS:
            values = [float(row[metric]) for row in part if row.get(metric) is not None]
            if values:
                told |= {metric: mean(values), f"{metric}_se": standard_error(values)}
        found.append(told)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.experience_hindsight",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--limit", type=int, default=6, help="episodes")
    parser.add_argument("--config", default="webshop", help="preset: its llm")
    parser.add_argument("--set", action="append", default=[], help="override")
    parser.add_argument("--out", required=True, help="run directory; resumed if it exists")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        rows = run(given.traces, given.limit, given.config, given.set, given.out, words)
    sys.stdout.write(" ".join(f"{k}={v}" for k, v in rows[0].items()) + "\n")


def run(
    traces: Sequence[str],
    limit: int,
    config: str,
    overrides: Sequence[str],
    out: str,
    words: Sequence[str],
) -> list[dict[str, Any]]:
    """Annotate the first ``limit`` episodes of ``traces`` that are not in ``out`` yet."""
    from graph.config import load_config
    from nodes.resources import Resources
    from trainers.bank.sources import read_episodes

    settled = load_config(config, overrides)
    resources = Resources(settled.llm, settled.embedder)
    params = resources.llm_params
    name = str(getattr(params, "model", params.kind))
    judge = Hindsight(resources.llm, name, int(getattr(params, "n_ctx", 16_000)) - 300)
    command = ["python", "-m", "evals.experience_hindsight", *words]
    args = {**provenance(command), "llm": shown_config(params.model_dump(mode="json"))}
    kept = RunDirectory(out, {**args, "limit": limit, "seed": getattr(params, "seed", 0)})
    done = {row["episode"] for row in kept.rows("episodes")}
    for episode in read_episodes(traces, include_incorrect=True).found[:limit]:
        if episode.id in done:
            continue
        before, started = dict(vars(judge.usage)), time.perf_counter()
        ((_, notes),) = judge([episode])
        spent = {key: float(value - before[key]) for key, value in vars(judge.usage).items()}
        spent["seconds"] = round(time.perf_counter() - started, 2)
        kept.append("episodes", judged(episode, notes, spent))
    rows = summarised(kept.rows("episodes"))
    kept.summarise(rows, [])
    return rows


if __name__ == "__main__":
    main()
