"""Extractors of entities, and the follow-ups read with them, beside what was marked by hand.

A name is right if it and its kind are the marked ones but for an article and for case. Precision,
recall and F1 are over all names of all articles; intervals resample articles, tests compare the F1 of
each. "named" joins people, places, organisations and things; topics stand apart. A follow-up is right
if its subject holds a marked word, or is empty where the question stands on its own.
"""

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
import yaml

from stategate.envs.qa.questions import sample_folder
from stategate.evals.core.statistics import interval, paired_tests
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.nodes.build_context.follow_up import subject
from stategate.nodes.retrieval.entities import ModelExtractor, extractor_of
from stategate.stores.corpus.documents import Document, read_folder
from stategate.stores.errors import UserError
from stategate.stores.memory.entities import Extractor
from stategate.stores.memory.names import KINDS, NAMED
from stategate.stores.runs import mean, with_errors
from stategate.stores.traces import Event


def run_entities(
    out: str,
    agents: Sequence[str] = ("rules", "spacy"),
    data: str = "articles",
    split: str = "test",
    config: str = "qa",
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Compare ``agents`` (extractors) and return the summary.

    ``data`` is "articles" with its conversations, "turns": marked turns of conversations (both of
    ``split`` dev or test), or "sample": people and places of the sample corpus. Raises ``UserError``
    for anything else.
    """
    samples, kinds, sha256 = _dataset(data, split)
    unknown = sorted({*agents} - {"rules", "spacy", "model"})
    if unknown or not agents:
        raise UserError(
            f"the extractors are rules, spacy and model: '{', '.join(unknown)}' is none"
        )
    args = {
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
    folder = files("stategate.envs.qa.sample")
    if split not in ("dev", "test"):
        raise UserError("split is 'dev' or 'test'")
    if data == "sample":
        raw = (folder / "entities.yaml").read_bytes()
        documents = {d.id: d for d in read_folder(sample_folder()) if isinstance(d, Document)}
        marked = yaml.safe_load(raw)
        samples = [
            Sample({"part": "names", "id": id_}, {"text": documents[id_].text, **names})
            for id_, names in marked.items()
        ]
        return samples, ("person", "location"), hashlib.sha256(raw).hexdigest()
    if data == "turns":
        raw = files("stategate.evals.qa").joinpath("marked", "turns.yaml").read_bytes()
        talks = [
            Sample({"part": "follow_ups", "id": talk["field"]}, {"turns": _marked(talk["turns"])})
            for talk in yaml.safe_load(raw)
            if talk["split"] == split
        ]
        return talks, (), hashlib.sha256(raw).hexdigest()
    if data != "articles":
        raise UserError("data is 'articles', 'turns' or 'sample'")
    raws = [(folder / name).read_bytes() for name in ("articles.yaml", "follow_ups.yaml")]
    samples = [
        Sample({"part": part, "id": row["id"]}, row)
        for part, raw in zip(("names", "follow_ups"), raws, strict=True)
        for row in yaml.safe_load(raw)
        if row["split"] == split
    ]
    return samples, KINDS, hashlib.sha256(b"".join(raws)).hexdigest()


def _marked(lines: Sequence[str]) -> list[list[str]]:
    """Return question, answer, and the words that it points back to ("": none), but of the first."""
    turns = []
    for number, line in enumerate(lines):
        asked, answer, about = (part.strip() for part in line.split("|"))
        mark = [] if not number else ["" if about == "-" else about.replace("/", "|")]
        turns.append([asked, answer, *mark])
    return turns


def _solver(name: str, kinds: Sequence[str], config: str, overrides: Sequence[str]) -> Solver:
    from stategate.graph.config import load_config
    from stategate.nodes.resources import Resources

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
            row["names"] = [[entity.kind, entity.name] for entity in entities]
            row["relations"] = [[r.subject.name, r.relation, r.object.name] for r in relations]
            row["counts"] = _counted(row["names"], sample.data, kinds)
        else:
            row |= _followed(sample.data["turns"], extract)
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


def _followed(turns: Sequence[Sequence[str]], extract: Extractor) -> Row:
    """Return which follow-ups of a conversation are understood, and the subjects that were read."""
    events: list[Event] = []
    row: Row = {"back": [], "alone": [], "subjects": []}
    for step, (asked, answer, *about) in enumerate(turns):
        if about:
            said = subject(asked, events, extract)
            row["subjects"].append(said)
            if about[0]:
                row["back"].append(any(word in said.lower() for word in about[0].split("|")))
            else:
                row["alone"].append(not said)
        events += [Event("OBS", asked, step), Event("ACT", answer, step)]
    return row


def _score(rows: Sequence[Row]) -> Summary:
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    values = {
        agent: {
            row["id"]: {"named_f1": _f1(_sum(row["counts"], NAMED))}
            for row in rows
            if row["agent"] == agent and "counts" in row
        }
        for agent in agents
    }
    tests = paired_tests(values, combinations(agents, 2), ["named_f1"])
    return [_row(agent, [row for row in rows if row["agent"] == agent]) for agent in agents], tests


def _row(agent: str, rows: Sequence[Row]) -> Row:
    """Return an extractor's row: its names by kind and together, its follow-ups, its milliseconds."""
    articles = [row["counts"] for row in rows if "counts" in row]
    row: Row = {"agent": agent, "n": len(articles)}
    for kind in (*articles[0], "named") if articles else ():
        kinds = NAMED if kind == "named" else [kind]
        right, found, marked = counts = np.sum([_sum(a, kinds) for a in articles], axis=0).tolist()
        row |= {f"{kind}_p": right / found if found else None, f"{kind}_r": right / max(marked, 1)}
        row |= {f"{kind}_f1": _f1(counts), f"{kind}_n": marked}
    if not articles:
        return _with_turns(row, rows)
    # F1 is the share of 1 among two for each right name and the rest of what was found or marked.
    hits = [
        [1.0] * (2 * r) + [0.0] * (f + m - 2 * r) for r, f, m in (_sum(a, NAMED) for a in articles)
    ]
    places = [place for place, own in enumerate(hits) for _ in own]
    spread = interval([hit for own in hits for hit in own], clusters=places)
    row |= {"named_low": spread.low, "named_high": spread.high}
    return _with_turns(row, rows)


def _with_turns(row: Row, rows: Sequence[Row]) -> Row:
    """Add how many follow-ups and complete questions were read right, and the milliseconds."""
    for part in ("back", "alone"):
        if answers := [float(right) for one in rows for right in one.get(part, ())]:
            row |= {**with_errors({part: answers}), f"{part}_n": len(answers)}
    if not row["n"]:
        row["n"] = row.get("back_n", 0) + row.get("alone_n", 0)
    said = [text for one in rows for text in one.get("subjects", ()) if text]
    row["subject_words"] = mean([len(text.split()) for text in said])
    for name in ("ms", "turn_ms"):
        row[name] = mean([one[name] for one in rows if name in one])
    if any("fallbacks" in one for one in rows):
        row["fallbacks"] = sum(one.get("fallbacks", 0) for one in rows)
    return row


def _sum(counts: Mapping[str, Sequence[int]], kinds: Iterable[str]) -> list[int]:
    """Return the right, found and marked names of ``kinds`` together."""
    return [sum(counts[kind][i] for kind in kinds if kind in counts) for i in range(3)]


def _f1(counts: Sequence[int]) -> float:
    """Return 2 right / (found + marked), 0 where nothing was found or marked."""
    return float(2 * counts[0] / max(counts[1] + counts[2], 1))


def _plain(name: str) -> str:
    return " ".join(name.lower().split()).removeprefix("the ").strip()
