"""Building banks: kills and resumption, folding, pruning."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from stategate.nodes.experience.episode import Episode, Step
from stategate.nodes.experience.grow import add_episode, prune
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.stores.bank.search import StateBank
from stategate.stores.errors import UserError
from stategate.trainers.bank.build import build_state_bank


def episode(number=0, steps=3, **more):
    question = f"Find me a lamp number {number} with color: red"
    made = tuple(
        Step("click", f"thing {i}", f"page {i} of {number}", f"page {i + 1}") for i in range(steps)
    )
    facts = {"reward": 1.0, "correct": True, "source": "test", **more}
    return Episode(f"e{number}", f"t{number}", question, made, **facts)


@pytest.fixture
def resources():
    return Resources(None, Hashing())


_BUILD = """
import sys, time
from stategate.nodes.models.embedders import Hashing, HashingEmbedder
from stategate.nodes.resources import Resources
from tests.trainers.test_experience_banks import episode
from stategate.trainers.bank.build import build_state_bank
real = HashingEmbedder.embed
def slowly(self, texts):
    time.sleep(0.02)
    return real(self, texts)
HashingEmbedder.embed = slowly
build_state_bank(sys.argv[1], [episode(i) for i in range(60)], Resources(None, Hashing()))
"""


def test_a_killed_build_goes_on_without_double_or_loss(tmp_path, resources):
    whole = build_state_bank(tmp_path / "whole", [episode(i) for i in range(60)], resources)
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", _BUILD, str(tmp_path / "killed")], stdout=-3, stderr=-3
        )
        before = _rows(tmp_path / "killed")
        deadline = time.monotonic() + 60
        while _rows(tmp_path / "killed") < before + 15 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    left = StateBank(tmp_path / "killed")  # what a kill leaves can be opened
    half = len(left.bank)
    left.bank.close()
    assert 0 < half < whole.rows
    assert half % 3 == 0  # whole episodes only
    again = build_state_bank(tmp_path / "killed", [episode(i) for i in range(60)], resources)
    assert again.skipped == half // 3
    ids = [
        sorted(row.id for row in StateBank(tmp_path / f).bank.rows()) for f in ("whole", "killed")
    ]
    assert ids[0] == ids[1]


def _rows(folder):
    try:
        bank = StateBank(folder)
    except UserError:
        return 0
    count = len(bank.bank)
    bank.bank.close()
    return count


def test_like_states_fold_into_one_worth_and_other_moves_stay_apart(tmp_path, resources):
    twice = [episode(), replace(episode(), id="again", reward=0.0, correct=False)]
    built = build_state_bank(tmp_path, twice, resources)
    rows = StateBank(tmp_path).bank.rows()
    assert (built.rows, built.read, len(rows)) == (3, 2, 3)
    assert rows[-1].q == pytest.approx(5.0)
    assert rows[-1].data["seen"] == 2
    other = replace(episode(), id="other", steps=(Step("click", "buy now", "page 0 of 0", "end"),))
    assert build_state_bank(tmp_path, [other], resources).rows == 1


def test_what_another_process_added_meanwhile_is_not_counted_twice(tmp_path, resources):
    build_state_bank(tmp_path, [episode()], resources)
    again = replace(episode(), id="again", reward=0.0, correct=False)
    slow, fast, told = StateBank(tmp_path), StateBank(tmp_path), resources.experience
    real = slow.bank.is_read

    def late(source):  # both asked before either had written
        known = real(source)
        add_episode(fast, again, resources.embedder, told)
        return known

    slow.bank.is_read = late
    add_episode(slow, again, resources.embedder, told)
    last = StateBank(tmp_path).bank.rows()[-1]
    assert (last.q, last.data["seen"]) == (pytest.approx(5.0), 2)


def test_pruning_by_worth_use_and_age(tmp_path, resources):
    build_state_bank(tmp_path, [episode(0), episode(1, reward=0.1, correct=False)], resources)
    bank = StateBank(tmp_path).bank
    assert prune(bank, min_q=5) == 3
    best = bank.rows()[-1]
    bank.count_use([best.n] * 3, 0.0)
    assert prune(bank, useless=True) == 1
    assert best.id not in {row.id for row in bank.rows()}
    first, second = bank.rows()
    bank.count_use([first.n], 1.0)  # worth less, but it helped
    month = time.time() + 40 * 86400
    assert prune(bank, older_than=86400, clock=lambda: month) == 1
    assert [row.id for row in bank.rows()] == [first.id]
    assert second.q > first.q
