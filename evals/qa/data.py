"""Question sets with gold evidence: the sample that ships with the code, or a folder.

A folder holds ``corpus/`` and ``evaluation_dataset.json``, a list of {question, reference_answer,
gold_chunk_ids: {chunking: [chunk ids]}}, with the chunks that the ids mean in
``reference_chunks_CHUNKING.jsonl``. Those are read as stretches of text at once, so that the set
survives another chunking of the same corpus.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stategate.envs.qa.questions import Evidence, Question, load_questions, sample_folder
from stategate.stores.corpus.chunking import Chunking, Passage, contains_evidence
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.runs import read_rows


@dataclass(frozen=True)
class QuestionSet:
    """A corpus (for ``env.corpus``), its questions for each chunking, and a hash of all that."""

    name: str
    corpus: str
    questions: dict[str, list[Question]]
    sha256: str

    def under(self, chunking: Chunking) -> list[Question]:
        """Return the questions with the evidence that was judged under ``chunking``, else any."""
        key = f"{chunking.kind}_{chunking.size}"
        return self.questions.get(key) or next(iter(self.questions.values()))


def load_set(source: str) -> QuestionSet:
    """Read ``"sample"`` or a folder. Raises ``UserError`` naming the file that is wrong."""
    if source == "sample":
        folder = sample_folder()
        sha256 = _hash([*sorted(folder.iterdir()), folder.parent / "questions.yaml"])
        return QuestionSet("sample", "sample", {"any": load_questions("sample")}, sha256)
    folder = Path(source).expanduser()
    path = folder / "evaluation_dataset.json"
    chunk_files = sorted(folder.glob("reference_chunks_*.jsonl"))
    with user_error_context(
        f"'{source}' is no question set",
        "it needs corpus/, evaluation_dataset.json and reference_chunks_*.jsonl",
    ):
        rows = parse_json(path.read_text(encoding="utf-8"))
        sets = {
            file.stem.removeprefix("reference_chunks_"): {
                r["id"]: r["text"] for r in read_rows(file)
            }
            for file in chunk_files
        }
        questions = {
            key: [_question(row, key, chunks) for row in rows] for key, chunks in sets.items()
        }
    if not questions or not (folder / "corpus").is_dir():
        raise UserError(f"'{source}' has no corpus/ or no reference_chunks_*.jsonl")
    files = [path, *chunk_files, *sorted((folder / "corpus").iterdir())]
    return QuestionSet(folder.name, str(folder / "corpus"), questions, _hash(files))


def relevant(question: Question, passages: Sequence[Passage]) -> set[int]:
    """Return the places of the passages that bear any of the question's evidence."""
    texts = {e.text for e in question.evidence}
    return {
        place
        for place, passage in enumerate(passages)
        if passage.text in texts
        or any(
            e.document in ("", passage.document) and contains_evidence(passage.text, e.text)
            for e in question.evidence
        )
    }


def _question(row: dict[str, object], key: str, chunks: dict[str, str]) -> Question:
    ids = row["gold_chunk_ids"]
    if not isinstance(ids, dict):
        raise TypeError("gold_chunk_ids is a mapping")
    evidence = tuple(Evidence(chunks[id_]) for id_ in ids.get(key, ()))
    return Question(str(row["question"]), str(row.get("reference_answer", "")), evidence)


def _hash(files: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        if file.is_file() and file.suffix in (".md", ".json", ".jsonl", ".yaml"):
            total.update(file.name.encode() + b"\n" + file.read_bytes())
    return total.hexdigest()
