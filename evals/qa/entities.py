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
from typing import Any

import numpy as np
import yaml

from envs.qa.questions import sample_folder
from evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from nodes.build_context.follow_up import subject
from nodes.retrieval.entities import ModelExtractor, extractor_of
from stores.corpus.documents import Document, read_folder
from stores.errors import UserError
from stores.memory.entities import Extractor
from stores.memory.names import KINDS, NAMED
from stores.runs import mean, provenance, standard_error
from stores.traces import Event

_DRAWS = 10_000
_COUNTS = ("right", "found", "marked")


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
            row |= _counted(names, sample.data, kinds) | {"names": names, "relations": triples}
        else:
            row |= _followed(sample.data, lambda asked, events: subject(asked, events, extract))
            row["turn_ms"] = _turn_ms(sample.data, extract)
        if isinstance(extract, ModelExtractor):
            row["fallbacks"] = extract.fallbacks - before

    return solve


def _counted(
    names: Sequence[Sequence[str]], marked: Mapping[str, Any], kinds: Sequence[str]
) -> Row:
    """Return, of each kind, how many names are right, were found, are marked."""
    counts: Row = {}
    for kind in kinds:
        found = {_plain(name) for one, name in names if one == kind}
        wanted = {_plain(name) for name in marked[kind]}
        counts |= {f"{kind}_right": len(found & wanted), f"{kind}_found": len(found)}
        counts[f"{kind}_marked"] = len(wanted)
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


def _turn_ms(conversation: Mapping[str, Any], extract: Extractor) -> float:
    """Return the milliseconds that reading a turn takes, of the first turn as memory writes it."""
    asked, answer = conversation["turns"][0][:2]
    started = time.perf_counter()
    extract(f"{asked}\n{answer}")
    return 1000 * (time.perf_counter() - started)


def _score(rows: Sequence[Row]) -> Summary:
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    table = [_row(agent, [row for row in rows if row["agent"] == agent]) for agent in agents]
    tests = []
    counts = {agent: _named(rows, agent) for agent in agents}
    for a in agents:
        for b in agents[agents.index(a) + 1 :]:
            if len(counts[a]) == len(counts[b]):
                draws = _resampled(counts[b]) - _resampled(counts[a])
                low, high = np.quantile(draws, [0.025, 0.975])
                difference = _f1(counts[b].sum(0)) - _f1(counts[a].sum(0))
                # How often a resampled difference lies on the other side of nought, both sides.
                p = min(1.0, 2 * min(np.mean(draws <= 0), np.mean(draws >= 0)) + 1 / _DRAWS)
                test = {"a": a, "b": b, "metric": "named_f1", "difference": difference}
                tests.append({**test, "low": low, "high": high, "p": p, "n": len(counts[a])})
    return table, tests


def _row(agent: str, rows: Sequence[Row]) -> Row:
    articles = [row for row in rows if row["part"] == "names" and row["error"] is None]
    row: Row = {"agent": agent, "n": len(articles)}
    for kind in KINDS:
        if articles and f"{kind}_marked" in articles[0]:
            right, found, marked = (sum(a[f"{kind}_{c}"] for a in articles) for c in _COUNTS)
            row |= {f"{kind}_p": right / found if found else None, f"{kind}_r": right / marked}
            row |= {f"{kind}_f1": _f1(np.array([right, found, marked])), f"{kind}_n": marked}
    counts = _named(rows, agent)
    right, found, marked = counts.sum(0)
    low, high = np.quantile(_resampled(counts), [0.025, 0.975])
    row |= {"named_p": right / found if found else None, "named_r": right / marked}
    row |= {"named_f1": _f1(counts.sum(0)), "named_low": low, "named_high": high}
    row["named_n"] = int(marked)
    talks = [row for row in rows if row["part"] == "follow_ups" and row["error"] is None]
    for part in ("back", "alone"):
        answers = [float(right) for talk in talks for right in talk[part]]
        if answers:
            row |= {part: mean(answers), f"{part}_se": standard_error(answers)}
            row[f"{part}_n"] = len(answers)
    words = [len(said.split()) for talk in talks for said in talk["subjects"] if said]
    row["subject_words"] = mean(words) if words else None
    for name in ("ms", "turn_ms"):
        spent = [one[name] for one in rows if one.get(name) is not None]
        row[name] = mean(spent) if spent else None
    if any("fallbacks" in one for one in rows):
        row["fallbacks"] = sum(one.get("fallbacks", 0) for one in rows)
    return row


def _named(rows: Sequence[Row], agent: str) -> Any:
    """Return right, found and marked names of each article: (articles, 3)."""
    articles = [r for r in rows if r["agent"] == agent and r["part"] == "names" and not r["error"]]
    return np.array(
        [[sum(a.get(f"{kind}_{c}", 0) for kind in NAMED) for c in _COUNTS] for a in articles]
    ).reshape(-1, 3)


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
