"""Earlier steps as candidates: which builders show what of them, and that nothing else changes."""

import pytest

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import decide, goal_here, knowledge_of
from stategate.nodes.act.search_heuristic import seek
from stategate.nodes.build_context.baselines import Full, QueryRag, Summary, Window
from stategate.nodes.build_context.compress import Compress
from stategate.nodes.conformance import check_built
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.models.llms import FakeLlm
from stategate.nodes.observe.alfworld import AlfWorldEnv
from stategate.nodes.protocols import ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import ARROW, DONE, PageSource
from stategate.stores.errors import UserError
from stategate.stores.text import one_line
from stategate.stores.traces import Event
from tests.kit import text_in

PROFILE = AlfWorldEnv().profile()


@pytest.fixture(scope="module")
def resources():
    return Resources(None, Hashing())


@pytest.fixture(scope="module")
def moments():
    """The requests of a whole game that the searching expert plays, and the right next commands."""
    world = AlfWorld.load("sample")
    session, seen = world.reset({"game": 8})
    asked, pairs, events, found = world.instruction(session), [("", seen.text)], [], []
    for t in range(40):
        known = knowledge_of(pairs, seen.text, seen.actions)
        action, _ = decide(goal_here(asked, known), known)
        found.append((asked, seen, tuple(events), action))
        events += [
            Event("OBS", PROFILE.experience.summary_line(seen.text), t),
            Event("ACT", action, t),
        ]
        session, seen = world.step(session, action)
        pairs.append((action, seen.text))
        if seen.done:
            return found
    raise AssertionError("the expert did not win")


def test_a_model_s_notes_stand_for_all_but_the_last_steps(moments):
    said = "3. go to oven 1 => The oven 1 is closed.\nnothing else matters"
    resources = Resources(FakeLlm(replies=(said,)), Hashing())
    build = Summary(every=4, last=2, note_tokens=60).build(resources)
    for number, moment in enumerate(moments):
        asked = request(moment, resources, 2000)
        context = build(asked)
        check_built(context, asked)
        past = [line.partition(ARROW)[0] for line in text_in(context, "event").splitlines()]
        steps = [c.text.partition(ARROW)[0] for c in asked.source.all() if c.role == "past"]
        summed = max(0, len(steps) - 2) // 4 * 4
        notes = ["3. go to oven 1", "nothing else matters"] if summed else []
        assert past == [*notes, *(step for step in steps[summed:])], number
    assert summed
    with pytest.raises(UserError, match="language model"):
        Summary(every=1, last=0).build(Resources(None, Hashing()))(asked)


def request(moment, resources, budget):
    asked, seen, events, _ = moment
    source = PageSource(PROFILE, seen, lambda: resources.embedder, events)
    return ContextRequest(asked, seen, source, events, budget, None, PROFILE)


KINDS = [
    Full(),
    Window(events=2),
    Window(events=0),
    QueryRag(top_k=6),
    Compress(),
]


@pytest.mark.parametrize("params", KINDS, ids=lambda p: f"{p.kind}{getattr(p, 'events', '')}")
@pytest.mark.parametrize("budget", [60, 150, 300, 3000])
def test_the_audit_holds_with_a_past(params, budget, moments, resources):
    build = params.build(resources)
    for moment in moments[::3]:
        asked = request(moment, resources, budget)
        check_built(build(asked), asked, params.kind)


def lines(context):
    return [one_line(p.text) for p in context.pieces if p.kind == "event" and p.text]


def test_full_shows_every_step_and_window_the_last(moments, resources):
    asked = request(moments[-1], resources, 3000)
    every = lines(Full().build(resources)(asked))
    assert len(every) == len(moments)  # the first page, and each step but the one that is due
    for count in (0, 2, 6):
        assert lines(Window(events=count).build(resources)(asked)) == every[len(every) - count :]


def test_compress_keeps_what_is_needed_where_a_window_of_the_size_does_not(moments, resources):
    compress = Compress().build(resources)
    window = Window(events=2).build(resources)
    agree = {"compress": 0, "window": 0}
    for moment in moments:
        shown = window(request(moment, resources, 3000))
        squeezed = compress(request(moment, resources, shown.tokens))
        assert squeezed.tokens <= shown.tokens or squeezed.over_budget
        assert not squeezed.dropped_actions
        agree["compress"] += seek(squeezed, 0).action == moment[3]
        agree["window"] += seek(shown, 0).action == moment[3]
    assert agree["compress"] > agree["window"]


def test_compress_marks_places_that_were_seen_and_says_what_is_in_hand(moments, resources):
    build = Compress().build(resources)
    for asked, seen, events, action in moments[1:]:
        context = build(request((asked, seen, events, action), resources, 200))
        done = {e.text for e in events if e.kind == "ACT" and e.text.startswith("go to ")}
        for command in seen.actions:
            if command.startswith("go to "):
                kind, _, number = command.removeprefix("go to ").rpartition(" ")
                piece = next(p for p in context.pieces if p.id == f"places:{kind}")
                is_marked = f" {number}{DONE}" in piece.text
                assert is_marked == (command in done), command
        holds = [a for a in seen.actions if a.startswith("move ")]
        if holds:
            assert f"In hand: {holds[0].removeprefix('move ').partition(' to ')[0]}" in context.text


def test_more_room_never_shows_less(moments, resources):
    build = Compress().build(resources)
    before: set[str] = set()
    for budget in range(120, 600, 20):
        context = build(request(moments[-1], resources, budget))
        words = {
            (piece.id, word)
            for piece in context.pieces
            if piece.kind != "past"  # its header says what marks mean, where there are any
            for word in piece.text.replace(DONE, "").split()
        }
        assert before <= words
        before = words
