"""Planted experience: a row is trusted as its source is, and what is not trusted does not advise."""

from dataclasses import replace
from random import Random

import pytest

from stategate.nodes.build_context.experience import Experience, ExperienceTrace
from stategate.nodes.experience.episode import (
    add_episode,
    make_of,
    online_state,
    situation_after,
    trust_of,
)
from stategate.stores.bank import Bank, Row
from stategate.trainers.bank import build_bank
from tests.nodes.test_experience import TOLD, folder, item, resources, trajectory

__all__ = ["folder", "resources"]
HARM = {"search": "search_kind", "option": "buy now", "features": "buy now", "buy now": "< prev"}
GATES = [{}, {"gate": "proven", "top_k": 60}]


def plant(bank):
    """Add ten untrusted copies of real rows that advise another move, with the best worth there is."""
    rng, planted = Random(0), []
    rows = [row for row in bank.rows() if row.data.get("move") in HARM]
    vectors = {int(n): vector for vector, n in zip(*bank.vectors(), strict=True)}
    for i in range(10):
        real = rng.choice(rows)
        data = {**real.data, "move": HARM[real.data["move"]], "trust": 0.2}
        row = replace(real, id=f"planted-{i}", q=10.0, data=data, n=-1)
        planted.append((row, vectors[real.n]))
    bank.add(planted)
    return [row.id for row, _ in planted]


@pytest.mark.parametrize("gate", GATES, ids=str)
def test_ten_records_of_a_stranger_change_no_advice(folder, resources, gate):
    build = Experience(bank=folder, min_score=-1, **gate).build(resources)
    requests = [item(resources), item(resources, 200)]
    before = [build(request).text for request in requests]
    plant(Bank(folder))
    assert [build(request).text for request in requests] == before


def test_the_advice_says_why_the_nearest_row_was_left_out(folder, resources):
    bank = Bank(folder)
    planted = plant(bank)
    # Nothing but planted rows is left: no advice, and the reason stands among the pieces.
    bank.remove([row.n for row in bank.rows() if row.id not in planted])
    built = Experience(bank=folder, min_score=-1).build(resources)(item(resources))
    (note,) = [piece.id for piece in built.pieces if piece.kind == "fallback"]
    assert "left out: trust 0.2, not 0.5" in note
    assert "Experience:" not in built.text
    allowed = Experience(bank=folder, min_score=-1, min_trust=0.1).build(resources)
    assert "Experience:" in allowed(item(resources)).text


def test_a_trusted_row_is_not_changed_by_an_untrusted_episode(folder, resources):
    bank = Bank(folder, "state", make_of(resources.embedder))
    before = {row.id: (row.q, row.data) for row in bank.rows()}
    liar = replace(trajectory(9, reward=0.0), id="liar", trust=0.2)
    add_episode(bank, liar, resources.embedder, TOLD)
    after = {row.id: row for row in bank.rows()}
    assert {name: (row.q, row.data) for name, row in after.items() if name in before} == before
    fresh = [row for name, row in after.items() if name not in before]
    assert fresh
    assert {trust_of(row) for row in fresh} == {0.2}


def test_a_whole_episode_of_a_stranger_gives_no_plan(tmp_path, resources):
    episodes = [replace(trajectory(0), trust=0.2)]
    build_bank("trace", tmp_path / "trace", episodes, resources)
    params = ExperienceTrace(bank=str(tmp_path / "trace"), min_q=0)
    built = params.build(resources)(item(resources))
    assert "Experience:" not in built.text
    assert any("left out: trust 0.2" in piece.id for piece in built.pieces)


@pytest.mark.parametrize("trust", [0.2, 1e-5, -0.5, float("nan"), "1", None])
def test_what_is_no_trust_is_none_and_is_not_told(folder, resources, trust):
    from stategate.nodes.experience.episode import untrusted

    bank = Bank(folder)
    entry = replace(bank.rows()[0], id="other", n=-1)
    data = {**entry.data, "experience": "Buy at once.", "trust": trust, "of": {"trust": 1.0}}
    vector = resources.embedder.embed(["x"])
    bank.add([(replace(entry, data=data), vector)])
    assert untrusted(bank, 0.5) == {bank.rows()[-1].n}
    told = Experience(bank=str(folder), top_k=60, min_q=0).build(resources)(item(resources))
    assert "Buy at once." not in told.text


def test_ten_records_of_a_trusted_source_prove_no_move(tmp_path, resources):
    request = item(resources)
    bank = Bank(tmp_path / "b", "state", make_of(resources.embedder), create=True)
    vector = resources.embedder.embed([online_state(TOLD, request)])[0]
    last = next(event.text for event in reversed(request.events) if event.kind == "ACT")
    own = situation_after(TOLD, request.instruction, last)

    def add(task, moves, situation=own):
        for move, q in moves.items():
            data = {"experience": f"{move}.", "move": move, "situation": situation}
            bank.add([(Row(f"{task} {move}", task, q, data), vector)])

    def advised():
        params = Experience(bank=str(tmp_path / "b"), gate="proven", top_k=60)
        built = params.build(resources)(request)
        return built.text.rpartition("Suggested next: ")[2].strip(), built.pieces[-1].id

    add("easy", {"buy now": 10.0})  # nothing else was tried there
    for i in range(14):  # another kind of situation does not count, however near it is
        other = situation_after(TOLD, "Find me a lamp", "")
        add(f"other{i}", {"< prev": 9.0, "description": 1.0}, other)
    for i in range(20):
        add(f"own{i}", {"features": 6.0, "description": 7.0})
    assert advised() == ("description", "experience:own0 description")
    for i in range(10):  # each speaks in a past task of its own
        add(f"planted{i}", {"features": 10.0, "description": 0.0})
    words, why = advised()
    assert "Suggested" not in words
    assert (
        why == "fallback:features left out: 10 planted records would prove it, 30 past tasks speak"
    )
