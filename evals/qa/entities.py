"""The entity extractors beside names marked by hand in the sample corpus.

python -m evals.qa_entities --out runs/entities

A found name counts if it is the marked one but for an article; precision, recall and F1 over the
names of each document, persons and locations apart.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from envs.qa.questions import sample_folder
from evals.core.statistics import paired
from stores.corpus.documents import Document, read_folder
from stores.errors import mistakes_in_one_line
from stores.memory.entities import extractor
from stores.runs import RunDirectory, mean, provenance, shown_path, standard_error

_KINDS = ("person", "location")


def run_entities(out: str, command: Sequence[str] = ("run_entities",)) -> dict[str, Any]:
    """Compare both extractors document by document and return the summary."""
    path = Path(str(files("envs.qa.sample"))) / "entities.yaml"
    marked: dict[str, dict[str, list[str]]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    run = RunDirectory(
        out, {**provenance(command), "data": {"name": "sample", "sha256": sha256}, "seed": 0}
    )
    documents = [d for d in read_folder(sample_folder()) if isinstance(d, Document)]
    rows: list[dict[str, Any]] = []
    by_name: dict[str, list[float]] = {}
    for name in ("rules", "spacy"):
        extract = extractor(name)
        extract("Warm up in Oslo.")
        started = time.perf_counter()
        found = {document.id: extract(document.text) for document in documents}
        seconds = (time.perf_counter() - started) / len(documents)
        row: dict[str, Any] = {"agent": name, "n": len(documents)}
        for kind in _KINDS:
            pairs = [
                (
                    {_plain(e.name) for e in found[id_][0] if e.kind == kind},
                    {_plain(word) for word in names[kind]},
                )
                for id_, names in marked.items()
            ]
            row |= _scores(kind, pairs)
        f1 = [
            _f1(
                {(e.kind, _plain(e.name)) for e in found[id_][0] if e.kind in _KINDS},
                {(kind, _plain(word)) for kind in _KINDS for word in names[kind]},
            )
            for id_, names in marked.items()
        ]
        by_name[name] = f1
        row |= {"f1": mean(f1), "f1_se": standard_error(f1)}
        row |= {"relations": sum(len(r) for _, r in found.values()), "ms": 1000 * seconds}
        rows.append(row)
    test = {"a": "rules", "b": "spacy", "metric": "f1"}
    return run.summarise(rows, [{**test, **vars(paired(by_name["rules"], by_name["spacy"]))}])


def _scores(kind: str, pairs: Sequence[tuple[set[str], set[str]]]) -> dict[str, float]:
    right = sum(len(found & marked) for found, marked in pairs)
    given = sum(len(found) for found, _ in pairs)
    wanted = sum(len(marked) for _, marked in pairs)
    return {
        f"{kind} precision": right / given if given else 0.0,
        f"{kind} recall": right / wanted if wanted else 0.0,
    }


def _f1(found: set[tuple[str, str]], marked: set[tuple[str, str]]) -> float:
    if not found and not marked:
        return 1.0
    return 2 * len(found & marked) / (len(found) + len(marked))


def _plain(name: str) -> str:
    return name.lower().removeprefix("the ").strip()


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.qa_entities",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", required=True, help="a new run directory")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        command = ["python", "-m", "evals.qa_entities", *(shown_path(word) for word in words)]
        run_entities(given.out, command)


if __name__ == "__main__":
    main()
