"""Context builders: conformance, and what each one chooses."""

import pytest

from stategate.nodes.build_context.baselines import Full, QueryRag, Window
from stategate.nodes.build_context.compress import Compress
from stategate.nodes.conformance import check_built, check_context, check_view, samples
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.stores.traces import Event


@pytest.mark.parametrize(
    "params",
    [
        Full(),
        Full(history=0),
        Window(),
        Window(events=1, event_tokens=8),
        QueryRag(),
        QueryRag(top_k=1, history=2),
        Compress(),
    ],
    ids=repr,
)
def test_builders_conform(params):
    check_context(params)


def test_every_world_s_view_keeps_the_rules():
    worlds = set()
    for profile, instruction, page in samples():
        check_view(profile.view, page, instruction)
        worlds.add(profile.view.name)
    assert worlds >= {"plain", "webshop", "qa"}


PROFILE = WebShopEnv().profile()
VIEW = PROFILE.view
SEARCHED, RESULTS, ITEM, CHOSEN, *RICH = [page for _, page in WebShopEnv.samples()]


def asked(observation, budget, events=(), instruction="Find me a scarf"):
    source = PageSource(VIEW, observation, embedder)
    return ContextRequest(instruction, observation, source, tuple(events), budget, profile=PROFILE)


def embedder():
    return resources().embedder


def resources():
    return Resources(None, Hashing())


def test_full_cut_at_the_budget_loses_the_end_of_the_page_first():
    built = Full().build(resources())(asked(ITEM, 30))
    assert "click[back to search]" in built.actions
    assert "click[buy now]" in built.dropped_actions


def test_the_chosen_option_is_told_after_the_page_and_only_where_the_page_marks_it():
    for observation, expected in ((CHOSEN, False), (RICH[-1], True)):
        prompt = Full().build(resources())(asked(observation, 2000)).text
        assert ("\nChosen: " in prompt) is expected


def test_window_shows_earlier_pages_newest_kept_when_room_is_short():
    events = tuple(Event("OBS", f"page number {t} " + "word " * 40, t) for t in range(6))
    builder = Window(events=6).build(resources())
    wide = builder(asked(ITEM, 2000, events))
    tight = builder(asked(ITEM, wide.tokens - 60, events))
    assert "page number 0" in wide.text
    assert "page number 0" not in tight.text
    assert "page number 5" in tight.text
    check_built(tight, asked(ITEM, wide.tokens - 60, events, ""))


def test_query_rag_keeps_what_resembles_the_instruction_and_audits_what_it_lost():
    entry = [chunk for chunk in VIEW.chunks(RESULTS) if chunk.role == "entry"][6]
    request = asked(RESULTS, 2000, instruction=entry.fragments[1].value)
    built = QueryRag(top_k=1).build(resources())(request)
    assert built.actions == entry.actions
    assert "click[next >]" in built.dropped_actions
    scores = {piece.id: piece.score for piece in built.pieces if piece.score is not None}
    assert max(scores, key=scores.__getitem__) == entry.id
