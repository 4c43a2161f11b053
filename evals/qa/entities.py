"""Extractors of entities, and the follow-ups read with them, beside what was marked by hand.

    stategate eval entities --out runs/entities                    # test articles and conversations
    stategate eval entities --data sample --out runs/entities-sample

A name is right if it and its kind are the marked ones but for an article and for case. Precision,
recall and F1 are over all names of all articles; intervals resample articles. "named" joins people,
places, organisations and things; topics stand apart. A follow-up is right if its subject holds a marked
word, or is empty where the question stands on its own.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
import yaml

from envs.qa.questions import sample_folder
from evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from nodes.build_context.follow_up import subject
from nodes.retrieval.entities import ModelExtractor, extractor_of
from stores.corpus.documents import Document, read_folder
from stores.errors import UserError
from stores.memory.names import KINDS, NAMED
from stores.runs import mean, provenance, with_errors
from stores.traces import Event

_DRAWS = 10_000


def run_entities(
    out: str,
    agents: Sequence[str] = ("rules", "spacy"),
    data: str = "articles",
    split: str = "test",
    config: str = "qa",
    overrides: Sequence[str] = (),
    command: Sequence[str] = ("run_entities",),
) -> dict[str, Any]:
    """Compare ``agents`` (extractors) and return the summary.

    ``data`` is "articles" with its conversations (of ``split`` dev or test), or "sample": people and
    places of the sample corpus. Raises ``UserError`` for anything else.
    """
    samples, kinds, sha256 = _dataset(data, split)
    unknown = sorted({*agents} - {"rules", "spacy", "model"})
    if unknown or not agents:
        raise UserError(
            f"the extractors are rules, spacy and model: '{', '.join(unknown)}' is none"
        )
    args = {
        **provenance(command),
        "data": {"name": data, "split": split, "sha256": sha256},
        "agents": list(agents),
        "config": config,
        "overrides": list(overrides),
        "seed": 0,
    }

    def solver(agent: str) -> Solver:
        return _solver(agent, kinds, config, overrides)

    task = Task(list(agents), lambda _: samples, solver, _score, unit="text")
    return run_task(task, out, args)


def _dataset(data: str, split: str) -> tuple[list[Sample], tuple[str, ...], str]:
    folder = files("envs.qa.sample")
    if data == "sample":
        raw = (folder / "entities.yaml").read_bytes()
        documents = {d.id: d for d in read_folder(sample_folder()) if isinstance(d, Document)}
        marked = yaml.safe_load(raw)
        samples = [
            Sample({"part": "names", "id": id_}, {"text": documents[id_].text, **names})
            for id_, names in marked.items()
        ]
        return samples, ("person", "location"), hashlib.sha256(raw).hexdigest()
    if data != "articles" or split not in ("dev", "test"):
        raise UserError("data is 'articles' (split dev or test) or 'sample'")
    raws = [(folder / name).read_bytes() for name in ("articles.yaml", "follow_ups.yaml")]
    samples = [
        Sample({"part": part, "id": row["id"]}, row)
        for part, raw in zip(("names", "follow_ups"), raws, strict=True)
        for row in yaml.safe_load(raw)
        if row["split"] == split
    ]
    return samples, KINDS, hashlib.sha256(b"".join(raws)).hexdigest()


def _solver(name: str, kinds: Sequence[str], config: str, overrides: Sequence[str]) -> Solver:
    from graph.config import load_config
    from nodes.resources import Resources

    resources = Resources(load_config(config, overrides=overrides).llm)
    extract = extractor_of(name, resources)  # type: ignore[arg-type]
    extract("Warm up in Oslo.")

    def solve(sample: Sample, attempt: Attempt) -> None:
        (row,) = attempt.rows
        before = getattr(extract, "fallbacks", 0)
        if sample.key["part"] == "names":
            started = time.perf_counter()
            entities, relations = extract(sample.data["text"])
            row["ms"] = 1000 * (time.perf_counter() - started)
            names = [[entity.kind, entity.name] for entity in entities]
            triples = [[r.subject.name, r.relation, r.object.name] for r in relations]
            row["counts"] = _counted(names, sample.data, kinds)
            row |= {"names": names, "relations": triples}
        else:
            row |= _followed(sample.data, lambda asked, events: subject(asked, events, extract))
            asked, answer = sample.data["turns"][0][:2]
            started = time.perf_counter()
            extract(f"{asked}\n{answer}")  # a turn as memory writes it
            row["turn_ms"] = 1000 * (time.perf_counter() - started)
        if isinstance(extract, ModelExtractor):
            row["fallbacks"] = extract.fallbacks - before

    return solve


def _counted(
    names: Sequence[Sequence[str]], marked: Mapping[str, Any], kinds: Sequence[str]
) -> dict[str, list[int]]:
    """Return, of each kind, how many names are right, were found, are marked."""
    counts = {}
    for kind in kinds:
        found = {_plain(name) for one, name in names if one == kind}
        wanted = {_plain(name) for name in marked[kind]}
        counts[kind] = [len(found & wanted), len(found), len(wanted)]
    return counts


def _followed(conversation: Mapping[str, Any], read: Callable[[str, list[Event]], str]) -> Row:
    """Return which follow-ups of the conversation are understood, and how long the subjects are."""
    events: list[Event] = []
    back: list[bool] = []
    alone: list[bool] = []
    subjects: list[str] = []
    for step, (asked, answer, *about) in enumerate(conversation["turns"]):
        if about:
            said = read(asked, events)
            subjects.append(said)
            if about[0]:
                back.append(any(word in said.lower() for word in about[0].split("|")))
            else:
                alone.append(not said)
        events += [Event("OBS", asked, step), Event("ACT", answer, step)]
    return {"back": back, "alone": alone, "subjects": subjects}


def _score(rows: Sequence[Row]) -> Summary:
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    table = [_row(agent, [row for row in rows if row["agent"] == agent]) for agent in agents]
    tests = []
    named = {agent: _named(_counts([r for r in rows if r["agent"] == agent])) for agent in agents}
    for a, b in combinations(agents, 2):
        if len(named[a]) == len(named[b]):
            draws = _resampled(named[b]) - _resampled(named[a])
            low, high = np.quantile(draws, [0.025, 0.975])
            difference = _f1(named[b].sum(0)) - _f1(named[a].sum(0))
            # How often a resampled difference lies on the other side of nought, both sides.
            p = min(1.0, 2 * min(np.mean(draws <= 0), np.mean(draws >= 0)) + 1 / _DRAWS)
            test = {"a": a, "b": b, "metric": "named_f1", "difference": difference}
            tests.append({**test, "low": low, "high": high, "p": p, "n": len(named[a])})
    return table, tests


def _row(agent: str, rows: Sequence[Row]) -> Row:
    """Return an extractor's row: its names by kind and together, its follow-ups, its milliseconds."""
    counts = _counts(rows)
    named = _named(counts)
    row: Row = {"agent": agent, "n": len(named)}
    for kind, table in {**counts, "named": named}.items():
        right, found, marked = table.sum(0).tolist()
        row |= {f"{kind}_p": right / found if found else None, f"{kind}_r": right / max(marked, 1)}
        row |= {f"{kind}_f1": _f1(table.sum(0)), f"{kind}_n": marked}
    if len(named):
        row["named_low"], row["named_high"] = np.quantile(_resampled(named), [0.025, 0.975])
    talks = [row for row in rows if row["part"] == "follow_ups" and row["error"] is None]
    for part in ("back", "alone"):
        answers = [float(right) for talk in talks for right in talk[part]]
        if answers:
            row |= {**with_errors({part: answers}), f"{part}_n": len(answers)}
    words = [len(said.split()) for talk in talks for said in talk["subjects"] if said]
    row["subject_words"] = mean(words)
    for name in ("ms", "turn_ms"):
        row[name] = mean([one[name] for one in rows if name in one])
    if any("fallbacks" in one for one in rows):
        row["fallbacks"] = sum(one.get("fallbacks", 0) for one in rows)
    return row


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    """Return for each kind the right, found and marked names of each article: (articles, 3)."""
    articles = [r["counts"] for r in rows if r["part"] == "names" and r["error"] is None]
    return {kind: np.array([a[kind] for a in articles]) for kind in (articles or [{}])[0]}


def _named(counts: Mapping[str, Any]) -> Any:
    """Return what people, places, organisations and things make together: (articles, 3)."""
    tables = [table for kind, table in counts.items() if kind in NAMED]
    return np.sum(tables, axis=0) if tables else np.zeros((0, 3), int)


def _f1(counts: Any) -> Any:
    """Return 2 right / (found + marked) of the last axis, 0 where nothing was found or marked."""
    right, both = counts[..., 0], counts[..., 1] + counts[..., 2]
    return 2 * right / np.maximum(both, 1)


def _resampled(counts: Any) -> Any:
    """Return the F1 of as many articles drawn again; the same draws for every extractor."""
    draws = np.random.default_rng(0).integers(0, len(counts), (_DRAWS, len(counts)))
    return _f1(counts[draws].sum(1))


def _plain(name: str) -> str:
    return " ".join(name.lower().split()).removeprefix("the ").strip()
