"""Context builders: conformance, what each one chooses, and the invariants of ``compress``."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stategate.envs.protocols import Observation
from stategate.envs.webshop import WebShop
from stategate.nodes.build_context.assemble import assemble
from stategate.nodes.build_context.baselines import Full, QueryRag, Window
from stategate.nodes.build_context.compress import Compress
from stategate.nodes.conformance import check_built, check_context, check_view, samples
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import BuiltContext, ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.align import clarity, focus_on, parts_of, title_of
from stategate.nodes.retrieval.page import PageSource
from stategate.stores.tokens import count_tokens
from stategate.stores.traces import Event
from tests.kit import rule_moves

PROFILE = WebShopEnv().profile()
VIEW = PROFILE.view


@pytest.fixture(scope="module")
def pages() -> list[ContextRequest]:
    """Every page of a few episodes, in both modes, with the history at each."""
    found = []
    for mode in ("rich", "text"):
        shop = WebShop.load("sample", observation=mode)
        for goal in (0, 7, 40):
            session, page = shop.reset(goal=goal)
            instruction = shop.instruction(session)
            past: list[Event] = []
            for step, action in enumerate(rule_moves(goal)):
                source = PageSource(PROFILE, page, lambda: Hashing().build(Resources()))
                found.append(
                    ContextRequest(instruction, page, source, tuple(past), 2000, profile=PROFILE)
                )
                past.append(Event("ACT", action, step))
                session, page = shop.step(session, action)
    return found


def _build(request: ContextRequest, budget: int, **params: object) -> BuiltContext:
    params = {"ratio": 1.0, **params}
    builder = Compress(budget=budget, **params).build(Resources(None, Hashing()))  # type: ignore[arg-type]
    return builder(replace(request, budget=budget))


def _words_within(small: str, large: str) -> bool:
    """Say whether the words of ``small`` stand in ``large`` in the same order."""
    words = iter(large.split())
    return all(word in words for word in small.split())


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_affordance_is_ever_lost_and_the_budget_holds(pages, data):
    request = data.draw(st.sampled_from(pages))
    budget = data.draw(st.integers(1, 900))
    context = _build(request, budget, ratio=data.draw(st.sampled_from([1.0, 0.5])))
    assert set(request.observation.actions) == set(context.actions)
    assert not context.dropped_actions
    assert context.tokens == sum(piece.tokens_after for piece in context.pieces)
    assert context.tokens == count_tokens(context.text)
    bare = sum(p.tokens_after for p in context.pieces if p.actions)
    if context.over_budget:  # then exactly the bare affordances
        assert context.tokens == bare > budget
        assert all(piece.actions for piece in context.pieces if piece.text)
    else:
        assert context.tokens <= budget


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_larger_budget_never_removes_text(pages, data):
    request = data.draw(st.sampled_from(pages))
    small = data.draw(st.integers(1, 800))
    large = data.draw(st.integers(small, 900))
    ratio = data.draw(st.sampled_from([1.0, 0.6]))
    a, b = _build(request, small, ratio=ratio), _build(request, large, ratio=ratio)
    for before, after in zip(a.pieces, b.pieces, strict=True):
        assert before.id == after.id
        assert _words_within(before.text, after.text)


def test_above_the_page_it_is_the_page(pages):
    for request in pages:
        whole = assemble(replace(request, budget=10_000), request.source.all())
        assert _build(request, 10_000).text == whole.text
        assert _build(request, whole.tokens).text == whole.text


def test_of_an_instruction_only_talk_may_go(pages):
    request = next(r for r in pages if any(c.kind == "product" for c in r.source.all()))
    asked = request.instruction
    wish = f"Our dog is fourteen. {asked}. The sun is out today."
    parts = parts_of(wish)
    assert "".join(wish[start:end] for start, end, _ in parts) == wish
    talk = [wish[start:end].strip() for start, end, is_talk in parts if is_talk]
    assert talk == ["Our dog is fourteen.", "The sun is out today."]
    context = _build(replace(request, instruction=wish), 2000, ratio=0.3)
    (line,) = [piece for piece in context.pieces if piece.kind == "instruction"]
    assert line.text == f"Instruction: {asked}.\n"
    assert line.tokens_after < line.tokens_before  # the meter shows it


def test_an_instruction_that_is_not_understood_stays_whole(pages):
    wish = "Qwx zzt. Blorp."
    page = next(p for p in pages if "click[buy now]" in p.observation.actions)
    context = _build(replace(page, instruction=wish), 2000, ratio=0.3)
    assert context.text.startswith(f"Instruction: {wish}")
    assert clarity(replace(page, instruction=wish)) < 0.7


def test_what_an_actor_needs_outlives_a_tight_ratio(pages):
    seen = 0
    for request in (r for r in pages if any(c.kind == "options" for c in r.source.all())):
        context = _build(request, 2000, ratio=0.2)
        whole = assemble(replace(request, budget=10_000), request.source.all())
        if context.tokens == whole.tokens:
            continue
        lines = context.text.splitlines()
        for value in (c.text for c in VIEW.clauses(request.instruction) if c.role == "value"):
            assert value in lines[0]
        assert [x for x in lines if x.startswith("Chosen")] == [
            x for x in whole.text.splitlines() if x.startswith("Chosen")
        ]
        last = [event.text for event in request.events if event.kind == "ACT"][-1]
        assert lines[-1].endswith(last) or last.startswith("search[")
        seen += 1
    assert seen


def test_what_competes_can_be_compared_by_what_is_shown(pages):
    """No word of a title is shown where one that tells more is left out of another title."""
    compared = 0
    for request in (r for r in pages if any(c.role == "entry" for c in r.source.all())):
        chunks = {c.id: c for c in request.source.all() if c.role == "entry" and not c.is_visited}
        asked = focus_on(request)
        for piece in _build(request, 2000, ratio=0.35).pieces:
            if piece.id not in chunks:
                continue
            title, shown = title_of(chunks[piece.id]).split(), piece.text.split()
            said: set[int] = set()
            tiers = [(asked.title_tier(chunks[piece.id], word, said), word) for word in title]
            kept = [tier for tier, word in tiers if tier < 3 and word in shown]
            gone = [tier for tier, word in tiers if tier < 3 and word not in shown]
            assert max(kept, default=0.0) <= min(gone, default=3.0)
            compared += bool(kept and gone)
    assert compared


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


def shop_pages(mode) -> list[Observation]:
    """Return the pages on the way to a product with one of its options chosen."""
    shop = WebShop.load("sample", observation=mode)
    goal = shop.goals[3]
    session, page = shop.reset(goal=3)
    found = [page]
    option = str(next(iter(goal["goal_options"].values())))
    for action in (f"search[{goal['name']}]", f"click[{goal['asin'].lower()}]", f"click[{option}]"):
        session, page = shop.step(session, action)
        found.append(page)
    return found


_, RESULTS, ITEM, CHOSEN = shop_pages("text")
RICH = shop_pages("rich")


def test_both_modes_of_the_shop_keep_the_rules():
    for page in (RESULTS, ITEM, CHOSEN, *RICH):
        check_view(VIEW, page, "Find me a scarf")
        for builder in (Full(), Window(), Compress()):
            request = asked(page, 120)
            check_built(builder.build(resources())(request), request)


def asked(observation, budget, events=(), instruction="Find me a scarf"):
    source = PageSource(PROFILE, observation, lambda: resources().embedder)
    return ContextRequest(instruction, observation, source, tuple(events), budget, profile=PROFILE)


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
