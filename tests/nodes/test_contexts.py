"""Context builders: conformance, and what each one chooses."""

import pytest
from nodes.build_context.render import describe

from envs.protocols import SEARCH
from nodes.build_context.full import Full
from nodes.build_context.query_rag import QueryRag
from nodes.build_context.window import Window
from nodes.conformance import check_built, check_context, observations, requests
from nodes.models.embedders import Hashing
from nodes.observe.webshop import chunk_page, reassemble
from nodes.protocols import ContextRequest
from nodes.resources import Resources
from nodes.retrieval.page import PageSource
from stores.traces import Event


@pytest.mark.parametrize(
    "params",
    [
        Full(),
        Full(history=0),
        Window(),
        Window(events=1, event_tokens=8),
        QueryRag(),
        QueryRag(top_k=1, history=2),
    ],
    ids=repr,
)
def test_builders_conform(params):
    check_context(params)


def test_chunks_reassemble_and_carry_every_affordance():
    for observation in observations():
        chunks = chunk_page(observation)
        assert reassemble(chunks) == observation.text
        carried = [action for chunk in chunks for action in chunk.actions]
        assert sorted(carried) == sorted(observation.actions)


def embedder():
    return resources().embedder


def resources():
    return Resources(None, Hashing())


def test_full_with_room_shows_the_page_and_drops_nothing():
    for request in requests(resources(), budgets=(4000,)):
        context = Full().build(resources())(request)
        assert not context.dropped_actions
        assert all(piece.tokens_after == piece.tokens_before for piece in context.pieces)


def test_full_cut_at_the_budget_loses_the_end_of_the_page_first():
    item = list(observations())[3]
    source = PageSource(chunk_page(item), embedder, describe)
    built = Full().build(resources())(ContextRequest("Find me a scarf", item, source, (), 30))
    assert "click[back to search]" in built.actions
    assert "click[buy now]" in built.dropped_actions


def test_the_chosen_option_is_told_after_the_page_and_only_where_the_page_marks_it():
    text, rich = list(observations())[3:5]
    for observation, expected in ((text, False), (rich, True)):
        source = PageSource(chunk_page(observation), embedder, describe)
        request = ContextRequest("Find me a scarf", observation, source, (), 500)
        prompt = Full().build(resources())(request).text
        assert ("Chosen: color = dark blue\nNot chosen yet: size" in prompt) is expected


def test_window_shows_earlier_pages_newest_kept_when_room_is_short():
    item = list(observations())[3]
    source = PageSource(chunk_page(item), embedder, describe)
    events = tuple(Event("OBS", f"page number {t} " + "word " * 40, t) for t in range(6))
    builder = Window(events=6).build(resources())
    wide = builder(ContextRequest("Find me a scarf", item, source, events, 2000))
    tight = builder(ContextRequest("Find me a scarf", item, source, events, wide.tokens - 60))
    assert "page number 0" in wide.text
    assert "page number 0" not in tight.text
    assert "page number 5" in tight.text
    check_built(tight, ContextRequest("", item, source, events, wide.tokens - 60))


def test_query_rag_keeps_what_resembles_the_instruction_and_audits_what_it_lost():
    results = list(observations())[1]
    source = PageSource(chunk_page(results), embedder, describe)
    instruction = "Invented wool scarf number 7, soft"
    request = ContextRequest(instruction, results, source, (), 2000)
    built = QueryRag(top_k=1).build(resources())(request)
    assert built.actions == ("click[b0test0007]",)
    assert "click[next >]" in built.dropped_actions
    scores = {piece.id: piece.score for piece in built.pieces if piece.score is not None}
    assert max(scores, key=scores.__getitem__) == "product:B0TEST0007"


def test_search_bar_survives_as_an_affordance():
    search = next(iter(observations()))
    source = PageSource(chunk_page(search), embedder, describe)
    built = Full().build(resources())(ContextRequest("Find me a scarf", search, source, (), 200))
    assert built.actions == (SEARCH,)
