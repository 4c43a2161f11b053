"""Long-term memory: turns, a state that changes, an erasure."""

import tempfile
from pathlib import Path

import numpy as np

from stategate.stores.files import write_text
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.memory.recall import Asked
from stategate.stores.memory.records import Turn
from stategate.stores.memory.statements import extract_statements
from stategate.stores.sql import is_database
from tests.faults.scenarios import kept
from tests.postgres_server import is_in_database

ME = "ana"
TEXTS = [
    "I live in Oslo.",
    "My boat is the Pelican.",
    "I like rye bread.",
    "I moved to Bergen.",
    "The secret word is zanzibar.",
    "My sister is called Ida.",
]


def _embed(texts):
    rows = [np.random.default_rng(len(t)).normal(size=8) for t in texts]
    return np.stack([row / np.linalg.norm(row) for row in rows]).astype(np.float32)


def _memory(folder):
    return open_long_term(kept(folder, "memory"))


def _turn(number):
    text = TEXTS[number]
    return Turn(
        "t",
        "e",
        number,
        text,
        _embed([text])[0],
        "h",
        at=float(86_400 * number),
        statements=tuple(extract_statements(text, "Ana", 0.0)),
        speaker="Ana",
        source="tool:web" if "secret" in text else "user",
    )


def _steps(memory):
    return [fact.step for fact in memory.facts(ME)]


def prepare():
    with tempfile.TemporaryDirectory() as place:
        memory = _memory(Path(place))
        memory.add(ME, _turn(0))
        memory.recall(ME, Asked("where?", _embed(["where?"])[0], "h"))


def work(folder, acknowledge):
    memory = _memory(folder)
    steps = set(_steps(memory))
    is_erased = (folder / "erasing").exists()  # as a person would remember what she asked for
    for number in range(len(TEXTS)):
        if number not in steps and not (number == 4 and is_erased):
            memory.add(ME, _turn(number))
            acknowledge(["written", number])
    write_text(folder / "erasing", "")
    memory.erase(ME, source="tool:web")
    acknowledge(["erased", 4])


def check(folder, acknowledged):
    memory = _memory(folder)
    facts, steps = memory.facts(ME), _steps(memory)
    assert len(steps) == len(set(steps)), f"a turn is there twice: {steps}"
    said = {what: [value for w, value in acknowledged if w == what] for what, _ in acknowledged}
    is_erasing = (folder / "erasing").exists()
    for number in said.get("written", ()):
        assert number in steps or (number == 4 and is_erasing), f"turn {number} is lost"
    if "erased" in said:
        place = kept(folder, "memory")
        if is_database(place):
            assert not is_in_database(place, [b"zanzibar"]), "what was erased is still there"
        raw = b"".join(p.read_bytes() for p in folder.glob("memory.sqlite*"))
        assert b"zanzibar" not in raw, "what was erased is still in the file"
    found = memory.recall(
        ME, Asked("where does Ana live?", _embed(["where does Ana live?"])[0], "h")
    )
    return [sorted((f.text, f.valid_to) for f in facts), len(found) > 0]
