"""Questions in the language of the tiny model of keys and values, in files of the real form."""

import gzip
import json
from pathlib import Path

import numpy as np

#: A trained model of keys and values: its gradient finds the document that has the pairs.
SSM = str(Path(__file__).parents[1] / "nodes" / "rico" / "ssm_pairs")
DATASETS = ("hotpotqa", "musique")


def write_questions(folder: Path, each: int) -> Path:
    """Write ``each`` questions (four at most) of each of :data:`DATASETS` to ``folder``."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    for name in DATASETS:
        rows = []
        for number in range(each):
            keys = rng.permutation(48)[:16].reshape(4, 4)
            texts = [" ".join(f"k{k} v{k % 24}" for k in row) for row in keys]
            asked = " ".join(texts[number].split()[:4])
            rows.append(
                {
                    "id": f"{name}{number}",
                    "question": asked,
                    "answer": "v1 v2",
                    "documents": [{"title": "", "text": text} for text in texts],
                    "relevant": [number],
                }
            )
        with gzip.open(folder / f"{name}.dev.jsonl.gz", "wt") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
    return folder
