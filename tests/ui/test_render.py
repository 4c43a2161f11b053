"""Drawing is pure: data in, HTML out; nothing that a page or a model says becomes markup."""

import re

import pytest
from langchain_core.messages import HumanMessage
from markupsafe import Markup

from graph import Session, build_graph, load_config
from nodes.observe.webshop import chunk_page
from nodes.protocols import BuiltContext, Chunk, Decision, Piece
from ui.app.render.actions import action_chip, action_label, split_action
from ui.app.render.charts import Cell, Path, bars, heatmap, scatter
from ui.app.render.context import fold_history, render_context, shading
from ui.app.render.episode import Stop, render_reward, render_trail
from ui.app.render.frame import render_goals, render_pipeline
from ui.app.render.html import brief, el, percent, safe
from ui.app.render.lanes import Lane, piece_order, render_lanes
from ui.app.render.page import render_page
from ui.app.render.state import render_allocation, render_foresight, render_similarity

EVIL = '<img src=x onerror="alert(1)">${alert(2)}{{alert(3)}}`'


def piece(id_, kind, text, score=None, before=None, lost=(), kept=()):
    after = len(text.split())
    whole = after if before is None else before
    return Piece(id_, kind, text, tuple(kept), whole, after, score, tuple(lost))


def context(*pieces, over=False):
    text = "".join(p.text for p in pieces)
    tokens = sum(p.tokens_after for p in pieces)
    return BuiltContext((HumanMessage(text),), tuple(pieces), tokens, over)


def test_text_is_escaped_wherever_it_stands():
    drawn = el("p", EVIL, title=EVIL)
    assert "<img" not in drawn
    assert "${" not in drawn
    assert "{{" not in drawn
    assert "`" not in drawn
    assert isinstance(safe(drawn), Markup)
    assert safe(drawn) == drawn
    assert (
        el("i", None, ["a", ["b"]], cls="x", hidden=True, id=None) == '<i class="x" hidden>ab</i>'
    )
    assert (percent(2), percent(-1), brief(0.0042), brief(2)) == ("100.0%", "0.0%", "4 ms", "2.0 s")


@pytest.mark.parametrize(
    ("action", "parts", "label"),
    [
        ("click[buy now]", ("click", "buy now"), "buy now"),
        ("search[a [b]]", ("search", "a [b]"), "search[a [b]]"),
        ("search[<query>]", ("search", "<query>"), "search …"),
        ("dance", ("", "dance"), "dance"),
    ],
)
def test_actions_read_as_verb_and_object(action, parts, label):
    assert split_action(action) == parts
    assert action_label(action) == label
    assert "sg-act" in action_chip(action)


def test_a_page_draws_cards_chips_and_the_chosen_one():
    graph = build_graph(load_config("webshop", ["updater.kind=none", "embedder.kind=hashing"]))
    session = Session(graph, "t", task={"goal": 3})
    session.step()
    seen = session.observation
    page = render_page(chunk_page(seen), EVIL, taken=seen.actions[2], hidden=seen.actions[3:4])
    assert "<img" not in page
    assert page.count("sg-product") == 10
    assert page.count("sg-taken") == page.count("sg-unseen") == 1
    assert 'data-verb="search"' in page
    session.act(next(a for a in seen.actions if a.startswith("click[b0")))
    options = [c for c in chunk_page(session.observation) if c.kind == "options"]
    session.act(options[0].actions[0])
    chosen = render_page(chunk_page(session.observation), "x")
    assert chosen.count("sg-chosen") == 1
    assert 'aria-pressed="true"' in chosen
    assert "sg-primary" in chosen
    past = render_page(chunk_page(session.observation), "x", live=False)
    assert past.count("<button") == past.count("disabled")


def test_an_unknown_worlds_page_is_cards_with_buttons():
    chunks = [Chunk("a", "riddle", EVIL, ("open[door]",), {"title": "A door"})]
    page = render_page(chunks, "get out")
    assert 'data-action="open[door]"' in page
    assert "A door" in page
    assert "<img" not in page


def test_a_context_shows_scores_tokens_and_what_is_lost_in_red():
    built = context(
        piece("instruction", "instruction", "Instruction: x\n", score=99.0),
        piece("product:A", "product", "a b c\n", 0.9, before=9, kept=("click[a]",)),
        piece("product:B", "product", "", 0.1, before=7, lost=("click[b]",)),
        piece("history", "history", "Actions:\n"),
        piece("history:0", "history", "1. one\n"),
    )
    drawn = render_context(built, 4, [Chunk("product:B", "passage", "gone words")])
    assert ">3</b>/9" in drawn
    assert ">0</b>/7" in drawn
    assert "1 of 2 affordances dropped" in drawn
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


def test_unscored_pieces_are_shaded_by_what_is_kept():
    shades = shading(
        [piece("a", "product", "x", before=10), piece("b", "product", "x x", before=2)]
    )
    assert 0 < shades[0] < shades[1]


def test_lanes_stand_in_one_grid_row_by_row():
    first = context(piece("instruction", "instruction", "I\n"), piece("b", "product", "b\n"))
    second = context(
        piece("instruction", "instruction", "I\n"),
        piece("a", "product", "a\n"),
        piece("b", "product", "", before=1),
        piece("chosen", "chosen", "c\n"),
    )
    chunks = [
        Chunk("a", "passage", "a", ("click[a]",), {"title": "Lamp"}),
        Chunk("b", "passage", "b"),
    ]
    assert piece_order([first, second], chunks) == ["instruction", "a", "b", "chosen"]
    lanes = [
        Lane("full", "full", 9, first, Decision("click[a]"), 0.1, 0.2),
        Lane("x", "x", 9, second, Decision("click[z]", fallback="why")),
        Lane("y", "y", 9, problem=EVIL),
        Lane("z", "z", 9, waiting=True),
    ]
    drawn = render_lanes(lanes, chunks, "Step 2")
    assert drawn.count("sg-piece sg-absent") == 2 + 0 + 4 + 4
    assert "2 different actions" in drawn
    assert "Lamp" in drawn
    assert drawn.count("data-continue") == 2
    assert "<img" not in drawn


def test_rewards_tell_their_parts():
    parts = {"r_type": 0.5, "r_att": 1.0, "w_att": 0.5, "r_price": True, "w_price": 0.25}
    drawn = render_reward(0.375, parts)
    for told in ("0.38", "attributes", "yes", "× 0.50", "sg-reward-warn"):
        assert told in drawn
    assert "options" not in drawn
    assert "step limit" in render_reward(0.0, None, done=False)
    assert "sg-reward-good" in render_reward(1.0, None)


def test_trails_goals_and_the_pipeline():
    stops = [
        Stop(0, "search[x]", "full", 12, 0.5),
        Stop(1, "click[y]", "full", 9, 0.0, by_hand=True),
    ]
    trail = render_trail(stops, 1, over=True)
    assert trail.count("data-look") == 3
    assert 'aria-pressed="true"' in trail
    assert "the end" in trail
    assert "you" in trail
    assert not render_trail([], None, over=False)
    goals = render_goals([(6, EVIL)], 20, 6)
    assert 'data-goal="6"' in goals
    assert goals.count("data-turn") == 2
    assert "<img" not in goals
    assert "No goal" in render_goals([], 0, 0)
    assert "a, b" in render_pipeline({"memory": ["a", "b"], "context": "full"})


def test_charts_mark_what_matters():
    grid = heatmap(["r"], ["1", "2"], [[Cell(0.5, "5", mark="hit"), Cell(None)]], EVIL)
    assert "sg-cell-hit" in grid
    assert "sg-none" in grid
    assert "<img" not in grid
    plane = scatter(
        [Path("own", [(0, 0), (1, 2)], ["buy"], bold=True), Path("o", [(1, 1)], [])], "c"
    )
    assert plane.count("<circle") == 3
    assert plane.count("<text") == 2
    assert "width:30.0%" in bars([("a", 0.3, "30")])


def test_state_charts_count_hits_and_lost_actions():
    chances = [{"search": 0.9, "buy": 0.1}, {"search": 0.8, "buy": 0.2}]
    foresight = render_foresight(chances, ["search", "buy"])
    assert "right at 1 of 2" in foresight
    assert foresight.count("sg-cell-hit") == foresight.count("sg-cell-miss") == 1
    assert render_similarity([[1.0, 0.2], [0.2, 1.0]]).count("sg-cell-ring") == 1
    kept = context(piece("a", "product", "x", before=4, lost=("click[a]",)))
    allocation = render_allocation([kept, context(piece("b", "item", "y"))])
    assert allocation.count("sg-none") == 2
    assert "sg-cell-lost" in allocation
