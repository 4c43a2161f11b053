"""The `experience` context: the budget, filters and controls, and trace mode's fallbacks."""

from dataclasses import replace

import numpy as np
import pytest

from stategate.nodes.build_context.baselines import Full
from stategate.nodes.build_context.experience import Experience, ExperienceTrace
from stategate.nodes.conformance import check_context, requests
from stategate.nodes.experience.episode import Episode, Step, online_state
from stategate.nodes.experience.grow import add_episode, make_of
from stategate.nodes.models.embedders import Hashing, HashingEmbedder
from stategate.nodes.models.llms import FakeLlm
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.resources import Resources
from stategate.stores.bank.bank import Entry, Row
from stategate.stores.bank.search import StateBank
from stategate.trainers.bank.build import build_trace_bank

TOLD = WebShopEnv().experience()
WISH = "Find me a warm wool scarf with color: red, and price lower than 30.00 dollars"


def trajectory(number, reward=1.0, question=WISH):
    steps = (
        Step("search", "warm wool scarf red", "WebShop Search", "Page 1 (Total results: 50)"),
        Step("click", "features", "An invented wool scarf", "Text"),
        Step("click", "buy now", "An invented wool scarf", "done"),
    )
    return Episode(f"e{number}", f"t{number}", question, steps, reward, reward == 1.0)


@pytest.fixture
def resources():
    return Resources(FakeLlm(), Hashing(), env=WebShopEnv())


@pytest.fixture
def folder(tmp_path, resources):
    bank = StateBank(tmp_path / "state", make_of(resources.embedder), create=True)
    for i, question in enumerate([WISH, "Find me a blue chair", "Find me a lamp"]):
        episode = trajectory(i, question=question)
        add_episode(bank, episode, resources.embedder, TOLD)
    return str(tmp_path / "state")


@pytest.fixture
def traces(tmp_path, resources):
    episodes = [trajectory(0), trajectory(1, question="Find me a lamp"), trajectory(2, 0.5)]
    build_trace_bank(tmp_path / "trace", episodes, resources)
    return str(tmp_path / "trace")


def item(resources, budget=600):
    return list(requests(resources, (budget,), ["webshop"]))[3]


def test_it_conforms_in_both_modes_around_other_builders(folder, traces, resources):
    for inner in ({"kind": "full"}, {"kind": "query_rag"}, {"kind": "window"}):
        check_context(Experience(bank=folder, inner=inner), resources)
        check_context(ExperienceTrace(bank=traces, inner=inner, min_q=0), resources)


def test_advice_is_a_message_of_its_own_and_takes_from_the_inner_budget(folder, resources):
    build = Experience(bank=folder, min_score=-1).build(resources)
    request = item(resources, 200)
    built = build(request)
    assert len(built.messages) == 2
    advice = built.pieces[-1]
    assert advice.text == built.messages[1].content
    assert advice.text.startswith("Experience: ")
    assert "Suggested next: " in advice.text
    alone = Full().build(resources)(request)
    assert built.tokens - advice.tokens_after <= 200 - advice.tokens_after
    assert built.text.startswith(alone.text[:40])
    # No advice: the inner context as it is.
    none = Experience(bank=folder, min_q=10.0, min_score=0.999).build(resources)(request)
    assert none.text == alone.text


def test_a_step_costs_one_embedding_and_no_model_call(folder, resources, monkeypatch):
    build = Experience(bank=folder, min_score=-1).build(resources)
    embedded = []
    real = HashingEmbedder.embed

    def embed(self, texts):
        embedded.extend(texts)
        return real(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed", embed)
    monkeypatch.setattr(type(resources.llm), "invoke", lambda *a, **k: pytest.fail("a model call"))
    assert len(build(item(resources)).messages) == 2
    assert embedded == [online_state(TOLD, item(resources))]


def put(bank, resources, request, rows):
    vector = resources.embedder.embed([online_state(TOLD, request)])[0]
    bank.bank.add(
        Entry(
            Row(name, "t", q, {"experience": f"Say {name}.", "move": move}),
            vector + nudge * np.roll(vector, 1),
        )
        for name, q, move, nudge in rows
    )


def test_the_filters_are_worth_likeness_and_nearest_first(tmp_path, resources):
    request = item(resources)
    bank = StateBank(tmp_path / "b", make_of(resources.embedder), create=True)
    put(bank, resources, request, [("poor", 4.9, "features", 0), ("near", 6, "buy now", 0.1)])
    put(bank, resources, request, [("twin", 7, "< prev", 0.1), ("far", 10, "features", 0.5)])
    path = str(tmp_path / "b")

    def told(**params):
        return Experience(bank=path, **params).build(resources)(request).pieces[-1].id

    assert told() == "experience:twin"  # as near as "near", and worth more
    assert told(min_q=0) == "experience:poor"
    assert told(min_q=8) == "experience:far"
    assert not told(min_q=8, min_score=0.99).startswith("experience")


def test_trace_mode_tells_the_plan_of_the_nearest_task_once_an_episode(
    traces, resources, monkeypatch
):
    build = ExperienceTrace(bank=traces).build(resources)
    built = build(item(resources))
    assert "succeeded by: search, then features, then buy now." in built.text
    assert "Suggested plan: search, features, buy now" in built.text
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *a: pytest.fail("a second search"))
    build(next(requests(resources, (600,), ["webshop"])))


def test_advice_to_search_says_what_it_comes_to_for_this_task(tmp_path, resources):
    search = next(requests(resources, (600,), ["webshop"]))
    bank = StateBank(tmp_path / "b", make_of(resources.embedder), create=True)
    other = trajectory(1, question="Find me a lamp")
    other = replace(other, steps=(Step("search", "lamp", "WebShop Search", "Page 1"),))
    add_episode(bank, other, resources.embedder, TOLD)
    request = replace(search, instruction=WISH)
    built = Experience(bank=str(tmp_path / "b"), min_score=-1).build(resources)(request)
    line = built.pieces[-1].text
    assert line.startswith("Experience: Search with ")
    assert "wool scarf red]" in line
    assert "Suggested next: search" in line
    assert "lamp" not in line
