"""Context builders: conformance, what each one chooses, and the invariants of ``compress``."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import decide, goal_here, knowledge_of
from stategate.envs.protocols import Observation
from stategate.envs.webshop import WebShop
from stategate.nodes.act.search_heuristic import seek
from stategate.nodes.build_context.assemble import assemble
from stategate.nodes.build_context.baselines import Full, QueryRag, Summary, Window
from stategate.nodes.build_context.compress import Compress
from stategate.nodes.conformance import check_built, check_context
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.observe.alfworld import AlfWorldEnv
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import BuiltContext, ContextParams, ContextRequest, WorldProfile
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.align import clarity, parts_of
from stategate.nodes.retrieval.page import ARROW, DONE, PageSource
from stategate.stores.errors import UserError
from stategate.stores.text import one_line
from stategate.stores.tokens import count_tokens
from stategate.stores.traces import Event
from tests.kit import FakeLlm, rule_moves, text_in

SHOP, ROOMS = WebShopEnv().profile(), AlfWorldEnv().profile()
RESOURCES = Resources(None, Hashing())


def request_of(
    profile: WorldProfile, instruction: str, page: Observation, past: list[Event]
) -> ContextRequest:
    source = PageSource(profile, page, lambda: RESOURCES.embedder, tuple(past))
    return ContextRequest(instruction, page, source, tuple(past), 2000, None, profile)


@pytest.fixture(scope="module")
def pages() -> list[ContextRequest]:
    """Every page of a few episodes in the shop, in both modes, with the history at each."""
    found = []
    for mode in ("rich", "text"):
        shop = WebShop.load("sample", observation=mode)
        for goal in (0, 7, 40):
            session, page = shop.reset({"goal": goal})
            past: list[Event] = []
            for step, action in enumerate(rule_moves(goal)):
                found.append(request_of(SHOP, shop.instruction(session), page, past))
                past.append(Event("ACT", action, step))
                session, page = shop.step(session, action)
    return found


@pytest.fixture(scope="module")
def moments() -> list[tuple[ContextRequest, str]]:
    """The requests of a whole game that the searching expert plays, and the right next commands."""
    world = AlfWorld.load("sample")
    session, seen = world.reset({"game": 8})
    asked, pairs, events, found = world.instruction(session), [("", seen.text)], [], []
    while not seen.done:
        known = knowledge_of(pairs, seen.text, seen.actions)
        action, _ = decide(goal_here(asked, known), known)
        t = len(found)
        found.append((request_of(ROOMS, asked, seen, events), action))
        events.append(Event("OBS", ROOMS.experience.summary_line(seen.text), t))
        events.append(Event("ACT", action, t))
        session, seen = world.step(session, action)
        pairs.append((action, seen.text))
    return found


@pytest.fixture(scope="module")
def every(pages, moments) -> list[ContextRequest]:
    """All of them."""
    return [*pages, *(request for request, _ in moments)]


def _built(params: ContextParams, request: ContextRequest, budget: int = 2000) -> BuiltContext:
    return params.build(RESOURCES)(replace(request, budget=budget))


def _build(request: ContextRequest, budget: int, ratio: float = 1.0) -> BuiltContext:
    return _built(Compress(ratio=ratio), request, budget)


def _words_within(small: str, large: str) -> bool:
    """Say whether the words of ``small`` stand in ``large`` in the same order."""
    words = iter(large.replace(DONE, "").split())
    return all(word in words for word in small.replace(DONE, "").split())


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_affordance_is_ever_lost_and_the_budget_holds(every, data):
    request = data.draw(st.sampled_from(every))
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
def test_a_larger_budget_never_removes_text(every, data):
    request = data.draw(st.sampled_from(every))
    small = data.draw(st.integers(1, 800))
    large = data.draw(st.integers(small, 900))
    ratio = data.draw(st.sampled_from([1.0, 0.6]))
    a, b = _build(request, small, ratio=ratio), _build(request, large, ratio=ratio)
    for before, after in zip(a.pieces, b.pieces, strict=True):
        assert before.id == after.id
        if before.kind != "past":  # its header says what marks mean, where there are any
            assert _words_within(before.text, after.text)


def test_above_the_page_it_is_the_page(every):
    for request in every:
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
        for value in (c.text for c in SHOP.view.clauses(request.instruction) if c.role == "value"):
            assert value in lines[0]
        assert [x for x in lines if x.startswith("Chosen")] == [
            x for x in whole.text.splitlines() if x.startswith("Chosen")
        ]
        last = [event.text for event in request.events if event.kind == "ACT"][-1]
        assert lines[-1].endswith(last) or last.startswith("search[")
        seen += 1
    assert seen


KINDS = [
    Full(),
    Full(history=0),
    Window(),
    Window(events=0),
    Window(events=1, event_tokens=8),
    QueryRag(),
    QueryRag(top_k=1, history=2),
    Compress(),
]


@pytest.mark.parametrize("params", KINDS, ids=repr)
def test_builders_conform_also_with_a_past(params, every):
    check_context(params)
    for request in every[::3]:
        for budget in (60, 150, 300, 3000):
            asked = replace(request, budget=budget)
            check_built(params.build(RESOURCES)(asked), asked, params.kind)


def test_full_cut_at_the_budget_loses_the_end_of_the_page_first(pages):
    item = next(p for p in pages if "click[buy now]" in p.observation.actions)
    built = _built(Full(), item, 60)
    assert "click[back to search]" in built.actions
    assert "click[buy now]" in built.dropped_actions


def test_window_shows_earlier_pages_newest_kept_when_room_is_short(pages):
    events = tuple(Event("OBS", f"page number {t} " + "word " * 40, t) for t in range(6))
    request = replace(pages[0], events=events)
    wide = _built(Window(events=6), request)
    tight = _built(Window(events=6), request, wide.tokens - 60)
    assert "page number 0" in wide.text
    assert "page number 0" not in tight.text
    assert "page number 5" in tight.text


def test_query_rag_keeps_what_resembles_the_instruction_and_audits_what_it_lost(pages):
    page = next(p for p in pages if "click[next >]" in p.observation.actions)
    entry = [chunk for chunk in page.source.all() if chunk.role == "entry"][6]
    built = _built(QueryRag(top_k=1), replace(page, instruction=entry.fragments[1].value))
    assert built.actions == entry.actions
    assert "click[next >]" in built.dropped_actions
    scores = {piece.id: piece.score for piece in built.pieces if piece.score is not None}
    assert max(scores, key=scores.__getitem__) == entry.id


def test_a_model_s_notes_stand_for_all_but_the_last_steps(moments):
    said = "3. go to oven 1 => The oven 1 is closed.\nnothing else matters"
    resources = Resources(FakeLlm(replies=(said,)), Hashing())
    build = Summary(every=4, last=2, note_tokens=60).build(resources)
    for request, _ in moments:
        context = build(request)
        check_built(context, request)
        past = [line.partition(ARROW)[0] for line in text_in(context, "event").splitlines()]
        steps = [c.text.partition(ARROW)[0] for c in request.source.all() if c.role == "past"]
        summed = max(0, len(steps) - 2) // 4 * 4
        notes = ["3. go to oven 1", "nothing else matters"] if summed else []
        assert past == [*notes, *steps[summed:]]
    assert summed
    with pytest.raises(UserError, match="language model"):
        _built(Summary(every=1, last=0), request)


def _steps(context: BuiltContext) -> list[str]:
    return [one_line(p.text) for p in context.pieces if p.kind == "event" and p.text]


def test_full_shows_every_step_and_window_the_last(moments):
    request, _ = moments[-1]
    steps = _steps(_built(Full(), request))
    assert len(steps) == len(moments)  # the first page, and each step but the one that is due
    for count in (0, 2, 6):
        shown = _steps(_built(Window(events=count), request))
        assert shown == steps[len(steps) - count :]


def test_compress_keeps_what_is_needed_where_a_window_of_the_size_does_not(moments):
    agree = {"compress": 0, "window": 0}
    for request, action in moments:
        shown = _built(Window(events=2), request)
        squeezed = _built(Compress(), request, shown.tokens)
        agree["compress"] += seek(squeezed, 0).action == action
        agree["window"] += seek(shown, 0).action == action
    assert agree["compress"] > agree["window"]


def test_compress_marks_places_that_were_seen_and_says_what_is_in_hand(moments):
    for request, _ in moments[1:]:
        context = _built(Compress(), request, 200)
        done = {e.text for e in request.events if e.kind == "ACT"}
        for command in request.observation.actions:
            if command.startswith("go to "):
                kind, _, number = command.removeprefix("go to ").rpartition(" ")
                piece = next(p for p in context.pieces if p.id == f"places:{kind}")
                assert (f" {number}{DONE}" in piece.text) == (command in done), command
        holds = [a for a in request.observation.actions if a.startswith("move ")]
        if holds:
            assert f"In hand: {holds[0].removeprefix('move ').partition(' to ')[0]}" in context.text
