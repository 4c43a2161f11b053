"""What a transcript says of a step, on hand-made contexts and a hand-made page."""

import io
import json
from dataclasses import replace

from rich.console import Console

from stategate.graph import Session, build_graph, load_config
from stategate.nodes.protocols import Piece
from stategate.ui.cli.run import episode_dict
from stategate.ui.cli.transcript import Transcript

ACTIONS = ["search[desk lamp]", "click[no such button]", "click[back to search]"]


def played(show="page", **values):
    settings = {"actor": {"kind": "scripted", "actions": ACTIONS}, "max_steps": 3, **values}
    session = Session(build_graph(load_config(settings)), "t", task={"goal": 3})
    _ = session.observation
    screen = Console(file=io.StringIO(), width=80, highlight=False)
    transcript = Transcript(screen, session, show)
    transcript.head()
    steps = session.run()
    for step in steps:
        transcript.step(step)
    episode = episode_dict(session, steps)
    transcript.end(1.0)
    return screen.file.getvalue(), episode


def test_a_step_shows_the_advice_and_what_fell_back():
    config = load_config({"actor": {"kind": "scripted", "actions": ACTIONS}})
    session = Session(build_graph(config), "t", task={"goal": 3})
    step = session.step()
    told = Piece("experience:r1", "experience", "Experience: Look [twice].\n", (), 5, 5, 0.9)
    lost = Piece("fallback:rerank: gone", "fallback", "", (), 0, 0)
    changed = replace(step, context=replace(step.context, pieces=(told, lost)))
    screen = Console(file=io.StringIO(), width=80, highlight=False)
    Transcript(screen, session).step(changed)
    lines = {" ".join(line.split()) for line in screen.file.getvalue().splitlines()}
    assert {"advice Look [twice].", "fallback rerank: gone"} <= lines


def test_the_transcript_fits_80_columns_and_shows_actions_with_brackets():
    text, _ = played()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "search[desk lamp]" in text
    assert "illegal action: nothing happened" in text
    assert "not finished: the step cap" in text
    assert "more lines" in text


def test_the_episode_is_plain_and_adds_up():
    _, episode = played(context={"kind": "full", "budget": 120})
    assert json.loads(json.dumps(episode)) == episode
    assert [step["decision"]["action"] for step in episode["steps"]] == ACTIONS
    assert episode["steps"][1]["decision"]["fallback"] == "illegal action: nothing happened"
    assert episode["steps"][0]["decision"]["fallback"] is None
    tokens = sum(step["context"]["tokens"] for step in episode["steps"])
    assert episode["totals"]["tokens"] == tokens
    assert episode["steps"][1]["context"]["dropped_actions"]
    for step in episode["steps"]:
        texts = "".join(piece["text"] for piece in step["context"]["pieces"])
        assert texts == "".join(m["content"] for m in step["context"]["messages"])
