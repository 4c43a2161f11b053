"""Drawing is pure: data in, HTML out; nothing that a page or a model says becomes markup."""

import re

import pytest
from langchain_core.messages import HumanMessage
from markupsafe import Markup

from stategate.envs.protocols import ActionVocabulary, Chunk, Observation, View
from stategate.envs.webshop.view import WebShopView
from stategate.graph import Session, build_graph, load_config
from stategate.graph.session import Preview, StepResult
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.protocols import BuiltContext, Decision, Piece
from stategate.ui.actions import reward_parts, typed_action
from stategate.ui.app.agents import Agents
from stategate.ui.app.context import (
    Lane,
    fold_history,
    in_words,
    piece_order,
    render_context,
    render_lanes,
    shading,
)
from stategate.ui.app.html import brief, macros, note, percent, safe
from stategate.ui.app.tabs.episode_view import PageLook, render_page, render_trail
from stategate.ui.app.workspace import Seen, Workspace

EVIL = '<img src=x onerror="alert(1)">${alert(2)}{{alert(3)}}`'


def piece(id_, kind, text, score=None, before=None, lost=(), kept=()):
    after = len(text.split())
    whole = after if before is None else before
    return Piece(id_, kind, text, tuple(kept), whole, after, score, tuple(lost))


def context(*pieces, over=False):
    text = "".join(p.text for p in pieces)
    tokens = sum(p.tokens_after for p in pieces)
    return BuiltContext((HumanMessage(text),), tuple(pieces), tokens, over)


def look(built, action):
    """Return what a builder made of a moment, and what would be done."""
    return Preview(Observation("", ()), built, Decision(action), 0.1, 0.2, 9)


def test_text_is_escaped_wherever_it_stands():
    drawn = note(EVIL, "info", EVIL) + macros("parts").bars([(EVIL, 0.3, EVIL)], EVIL)
    assert "<img" not in drawn
    assert "${" not in drawn
    assert "{{" not in drawn
    assert "`" not in drawn
    assert isinstance(safe(drawn), Markup)
    assert safe(drawn) == drawn
    assert (percent(2), percent(-1), brief(0.0042), brief(2)) == ("100.0%", "0.0%", "4 ms", "2.0 s")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("take lamp", "take lamp"),
        ("open[door]", "open[door]"),
        ("DOOR", "open[door]"),
        ("say good  morning", "say[good morning]"),
        ("fly away", "fly away"),
    ],
)
def test_what_a_person_types_becomes_an_action(text, meant):
    page = Observation("A room.", ("take lamp", "open[door]", "say[<words>]"))
    assert typed_action(text, page, ActionVocabulary()) == meant
    alone = Observation("Well?", ("answer[<text>]",))
    assert typed_action("in 1911", alone, ActionVocabulary()) == "answer[in 1911]"


def test_a_page_draws_cards_chips_and_the_chosen_one():
    graph = build_graph(load_config("webshop", ["updater.kind=none", "embedder.kind=hashing"]))
    view = WebShopView()
    session = Session(graph, "t", task={"goal": 3})
    first = session.observation
    session.step()
    seen = session.observation
    look = PageLook(seen.actions[2], seen.actions[3:4], forms=first.actions)
    page = render_page(view, seen, EVIL, look)
    assert "<img" not in page
    assert page.count("sg-entry") == 10
    assert page.count("sg-taken") == page.count("sg-unseen") == 1
    assert 'data-verb="search"' in page
    assert "Page 1 (Total results: 50)<" in page
    session.act(next(a for a in seen.actions if a.startswith("click[b0")))
    choices = [c for c in view.chunks(session.observation) if c.choice is not None]
    session.act(choices[0].actions[0])
    chosen = render_page(view, session.observation, "x", PageLook())
    assert chosen.count("sg-chosen") == 1
    assert 'aria-pressed="true"' in chosen
    assert chosen.count("sg-primary") == 1
    past = render_page(view, session.observation, "x", PageLook(is_live=False))
    assert past.count("<button") == past.count("disabled")


class Riddles(View):
    """A view that says no more than it must."""

    def chunks(self, observation):
        return [Chunk("a", "riddle", observation.text, observation.actions, {"title": "A door"})]


def test_an_unknown_worlds_page_is_text_with_buttons():
    seen = Observation(EVIL, ("open[door]", "say[<words>]"))
    for view in (Riddles(), View()):
        page = render_page(view, seen, "get out", PageLook())
        assert 'data-action="open[door]"' in page
        assert 'data-verb="say"' in page
        assert page.count("<button") == 2
        assert "<img" not in page
    assert "A door" in render_page(Riddles(), seen, "get out", PageLook())
    past = render_page(View(), seen, "x", PageLook("say[mellon]", is_live=False))
    assert 'value="mellon"' in past


def test_a_context_shows_scores_tokens_and_what_is_lost_in_red():
    built = context(
        piece("instruction", "instruction", "Instruction: x\n", score=99.0),
        piece("entry:A", "entry", "a b c\n", 0.9, before=9, kept=("click[a]",)),
        piece("entry:B", "entry", "", 0.1, before=7, lost=("click[b]",)),
        piece("history", "history", "Actions:\n"),
        piece("history:0", "history", "1. one\n"),
    )
    drawn = render_context(built, 4, {"entry:B": "gone words"})
    assert ">3</b>/9" in drawn
    assert ">0</b>/7" in drawn
    assert "1 of 2 commands lost" in drawn
    assert "sg-act-lost" in drawn
    assert "over the budget" in drawn
    assert "gone words" in drawn
    assert "99" not in re.sub(r"--\w:[\d.]+", "", drawn), "the frame has no score of its own"
    shades = shading(built.pieces)
    assert shades[1] == max(shades)
    assert shades[2] == min(shades[1:3])
    folded = fold_history(built.pieces)
    assert len(folded) == 4
    assert folded[-1].text == "Actions:\n1. one\n"
    assert sum(p.tokens_after for p in folded) == built.tokens
    (cut,) = fold_history([piece("history:0", "history", "1. search[easy\n", before=9)])
    assert cut.text == "1. search[easy…\n"


def test_a_dropped_step_is_named_and_shown_in_words(tmp_path, home):
    config = load_config("alfworld", ["embedder.kind=hashing", "memory=[short_term]"])
    workspace = Workspace("tab", Agents(config))
    workspace.start(workspace.world.tasks()[3])
    for _ in range(5):
        workspace.step()
    seen = workspace.look({"kind": "window", "events": 2, "budget": 2000}, None)
    whole = in_words(workspace.past)
    drawn = render_lanes([Lane("window", "window", 2000, seen=seen)], whole, {}, ("Now", "", "x"))
    assert "earlier step 1<" in drawn
    assert f'sg-piece-gone">{whole["event:0"][:15]}' in drawn


def test_what_is_remembered_says_what_has_ended():
    rows = [("I live in Paris.", True, ""), ("I live in Oslo.", False, "2026-11-26")]
    drawn = macros("parts").remembered(rows, 2)
    assert drawn.count("in this answer") == 1
    assert "ended 2026-11-26" in drawn


def test_lanes_stand_in_one_grid_row_by_row():
    first = context(piece("instruction", "instruction", "I\n"), piece("b", "product", "b\n"))
    second = context(
        piece("instruction", "instruction", "I\n"),
        piece("a", "product", "a\n"),
        piece("b", "product", "", before=1),
        piece("status", "status", "c\n"),
    )
    whole = {"a": "a", "b": "b"}
    assert piece_order([first, second], list(whole)) == ["instruction", "a", "b", "status"]
    lanes = [
        Lane("full", "full", 9, seen=look(first, "click[a]")),
        Lane("x", "x", 9, seen=look(second, "click[z]")),
        Lane("y", "y", 9, problem=EVIL),
        Lane("z", "z", 9, waiting=True),
    ]
    drawn = render_lanes(lanes, whole, {"click[a]": "Lamp"}, ("Step 2", "", "rule"))
    assert drawn.count("sg-piece sg-absent") == 2 + 0 + 4 + 4
    assert "Lamp" in drawn
    assert drawn.count("data-continue") == 2
    assert "<img" not in drawn


def test_rewards_tell_their_parts():
    parts = [
        {"name": "attributes", "value": 1.0, "weight": 0.5},
        {"name": "limit", "value": True, "weight": 0.25},
        {"name": "type", "value": 0.5, "weight": None},
    ]
    drawn = macros("episode").reward(0.375, parts)
    for part in ("0.38", "attributes", "yes · weight 0.25", "× 0.50", "sg-reward-warn"):
        assert part in drawn
    assert "sg-reward-good" in macros("episode").reward(1.0, [])
    unscored = macros("episode").unscored(EVIL, "nobody can")
    assert "Not scored: nobody can." in unscored
    assert "<img" not in unscored
    plain = Observation("end", (), 1.0, True, {"reward": {"room": True}})
    assert reward_parts(plain) == [{"name": "room", "value": True, "weight": None}]
    assert reward_parts(Observation("end", ())) == []
    cards = [{"name": "Got", "title": EVIL, "facts": ["red"], "tags": ["warm"]}]
    assert "<img" not in macros("page").outcome(cards)
    assert macros("page").outcome(cards).count("sg-chip") == 3


def test_a_trail_marks_the_step_that_is_looked_at():
    kept, page = context(piece("a", "product", "x")), Observation("", ())
    steps = [
        Seen(StepResult(step, page, kept, Decision(action, reason), page, 0.0), Full())
        for step, (action, reason) in enumerate([("search[x]", ""), ("click[y]", EVIL)])
    ]
    trail = render_trail(steps, 1, is_over=True)
    assert trail.count("data-look") == 3
    assert 'aria-pressed="true"' in trail
    assert "the end" in trail
    assert "full · 1 tokens" in trail
    assert "<img" not in trail
    assert not render_trail([])
