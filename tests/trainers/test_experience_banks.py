"""Building banks: folding, pruning."""

import time
from dataclasses import replace

import pytest

from stategate.nodes.experience.episode import Episode, Step
from stategate.nodes.experience.grow import add_episode, prune
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.stores.bank.search import StateBank
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


def test_pruning_keeps_what_is_worth_most_or_helped(tmp_path, resources):
    build_state_bank(tmp_path, [episode(0), episode(1, reward=0.1, correct=False)], resources)
    bank = StateBank(tmp_path).bank
    rows = sorted(bank.rows(), key=lambda row: row.q)
    bank.count_use([rows[0].n], 1.0)  # worth least, but it helped
    assert prune(bank, 4) == 2
    assert {row.id for row in bank.rows()} == {rows[i].id for i in (0, 3, 4, 5)}
    month = time.time() + 40 * 86400
    bank.count_use([rows[5].n], 0.0)
    assert prune(bank, 3, clock=lambda: month) == 1
    assert prune(bank, 3) == 0
