"""Drawing is pure: data in, HTML out; nothing that a page or a model says becomes markup."""

import re

from langchain_core.messages import HumanMessage

from stategate.envs.protocols import Chunk, Observation, View
from stategate.graph import load_config
from stategate.nodes.protocols import BuiltContext, Piece
from stategate.ui.actions import outcome_of
from stategate.ui.app.agents import Agents
from stategate.ui.app.context import (
    fold_history,
    in_words,
    render_lanes,
    shading,
    shown_pieces,
)
from stategate.ui.app.html import note, render, safe
from stategate.ui.app.tabs.episode_view import render_page
from stategate.ui.app.workspace import Lane, Workspace

EVIL = '<img src=x onerror="alert(1)">${alert(2)}{{alert(3)}}`'


def piece(id_, kind, text, score=None, before=None, lost=(), kept=()):
    after = len(text.split())
    whole = after if before is None else before
    return Piece(id_, kind, text, tuple(kept), whole, after, score, tuple(lost))


def context(*pieces):
    text = "".join(p.text for p in pieces)
    tokens = sum(p.tokens_after for p in pieces)
    return BuiltContext((HumanMessage(text),), tuple(pieces), tokens)


def test_text_is_escaped_wherever_it_stands():
    drawn = note(EVIL, "info", EVIL) + render("parts.bars", [(EVIL, 0.3, EVIL)], EVIL)
    assert "<img" not in drawn
    assert "${" not in drawn
    assert "{{" not in drawn
    assert "`" not in drawn
    assert safe(drawn) == drawn
    params = {"kind": "full", "budget": 9}
    lanes = [Lane(params, problem=EVIL), Lane(params, waiting=True)]
    assert "<img" not in render_lanes(lanes, {}, {}, (EVIL, EVIL, EVIL))


class Riddles(View):
    """A view that says no more than it must."""

    def chunks(self, observation):
        return [Chunk("a", "riddle", observation.text, observation.actions, {"title": "A door"})]


def test_an_unknown_worlds_page_is_text_with_buttons():
    seen = Observation(EVIL, ("open[door]", "say[<words>]"))
    for view in (Riddles(), View()):
        page = render_page(view, seen, "get out")
        assert 'data-action="open[door]"' in page
        assert 'data-verb="say"' in page
        assert page.count("<button") == 2
        assert "<img" not in page
    assert "A door" in render_page(Riddles(), seen, "get out")
    past = render_page(View(), seen, "x", taken="say[mellon]", is_live=False)
    assert 'value="mellon"' in past


def test_a_context_shows_scores_tokens_and_what_is_lost_in_red():
    built = context(
        piece("instruction", "instruction", "Instruction: x\n", score=99.0),
        piece("entry:A", "entry", "a b c\n", 0.9, before=9, kept=("click[a]",)),
        piece("entry:B", "entry", "", 0.1, before=7, lost=("click[b]",)),
        piece("history", "history", "Actions:\n"),
        piece("history:0", "history", "1. one\n"),
    )
    pieces = shown_pieces(built, {"entry:B": "gone words"})
    drawn = render("context.context", "", built, 4, pieces, {})
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


def test_a_dropped_step_is_named_and_shown_in_words(tmp_path, home):
    config = load_config("alfworld", ["embedder.kind=hashing", "memory=[short_term]"])
    workspace = Workspace(Agents(config))
    workspace.start(workspace.world.tasks()[3])
    for _ in range(5):
        workspace.step()
    seen = workspace.look({"kind": "window", "events": 2, "budget": 2000}, None)
    whole = in_words(workspace.past)
    lane = Lane({"kind": "window", "budget": 2000}, seen=seen)
    drawn = render_lanes([lane], whole, {}, ("Now", "", "x"))
    assert "earlier step 1<" in drawn
    assert f'sg-piece-gone">{whole["event:0"][:15]}' in drawn


def test_what_is_remembered_says_what_has_ended():
    rows = [("I live in Paris.", True, ""), ("I live in Oslo.", False, "2026-11-26")]
    drawn = render("parts.remembered", rows, 2)
    assert drawn.count("in this answer") == 1
    assert "ended 2026-11-26" in drawn


def test_rewards_tell_their_parts():
    parts = [
        {"name": "attributes", "value": 1.0, "weight": 0.5},
        {"name": "limit", "value": True, "weight": 0.25},
        {"name": "type", "value": 0.5, "weight": None},
    ]
    drawn = render("episode.reward", 0.375, parts)
    for part in ("0.38", "attributes", "yes · weight 0.25", "× 0.50", "sg-reward-warn"):
        assert part in drawn
    assert "Not scored: nobody can." in render("episode.unscored", EVIL, "nobody can")
    plain = Observation("end", (), 1.0, True, {"reward": {"room": True}})
    assert outcome_of(plain)["parts"] == [{"name": "room", "value": True, "weight": None}]
