"""What a transcript says of a step, on hand-made contexts and a hand-made page."""

import io
import json
from dataclasses import replace

from rich.console import Console

from stategate.envs.protocols import Chunk, Observation, View
from stategate.envs.webshop.view import WebShopView
from stategate.graph import Session, build_graph, load_config
from stategate.nodes.protocols import Piece
from stategate.ui.cli.run import episode_dict
from stategate.ui.cli.transcript import Transcript, cut, kept_line, page_lines
from tests.kit import context_of

ACTIONS = ["search[desk lamp]", "click[no such button]", "click[back to search]"]


def played(show="page", **values):
    settings = {"actor": {"kind": "scripted", "actions": ACTIONS}, "max_steps": 3, **values}
    session = Session(build_graph(load_config(settings)), "t", task={"goal": 3})
    steps = session.run()
    screen = Console(file=io.StringIO(), width=80, highlight=False)
    transcript = Transcript(screen, session.agent.config, WebShopView(), show)
    transcript.head({"env": "webshop", "goal": 3}, "Find me a [bold] lamp")
    for step in steps:
        transcript.step(step)
    episode = episode_dict(session, steps)
    transcript.end(episode, session.observation)
    return screen.file.getvalue(), episode


def test_kept_line_counts_chunks_and_tokens_and_names_what_was_dropped():
    shown = Piece("a", "product", "lamp", ("click[a]",), 10, 10)
    lost = Piece("b", "product", "", (), 20, 0, dropped_actions=("click[buy now]", "click[a]"))
    assert kept_line(context_of(shown, lost)) == (
        "kept 1/2 chunks, 10 of 30 tokens; dropped: buy now"
    )


def test_a_step_shows_the_advice_and_what_fell_back():
    config = load_config({"actor": {"kind": "scripted", "actions": ACTIONS}})
    step = Session(build_graph(config), "t", task={"goal": 3}).step()
    told = Piece("experience:r1", "experience", "Experience: Look [twice].\n", (), 5, 5, 0.9)
    lost = Piece("fallback:rerank: gone", "fallback", "", (), 0, 0)
    changed = replace(step, context=replace(step.context, pieces=(told, lost)))
    screen = Console(file=io.StringIO(), width=80, highlight=False)
    Transcript(screen, config, WebShopView()).step(changed)
    lines = {" ".join(line.split()) for line in screen.file.getvalue().splitlines()}
    assert {"advice Look [twice].", "fallback rerank: gone"} <= lines


class Pages(View):
    def chunks(self, observation):
        lines = observation.text.splitlines(keepends=True)
        rest = [Chunk(str(i), "line", line) for i, line in enumerate(lines[1:])]
        return [Chunk("i", "instruction", lines[0], role="frame"), *rest]


def test_page_lines_leave_the_frame_out_and_count_the_rest():
    for count, last in ((7, ["… and 5 more lines"]), (2, [])):
        text = "Find me a lamp\n" + "".join(f"line {i}\n" for i in range(count))
        lines = page_lines(Pages(), Observation(text, ()), limit=3)
        assert lines == ["line 0", "line 1", *last]


def test_cut_keeps_a_short_last_column():
    line = f"b00000abcd | {'Very Long Title ' * 8}| $12.50"
    assert len(cut(line)) <= 68
    assert cut(line).endswith("… | $12.50")
    assert cut("short") == "short"
    assert len(cut("x" * 100)) == 68


def test_the_transcript_fits_80_columns_and_shows_actions_with_brackets():
    text, _ = played()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "search[desk lamp]" in text
    assert "Find me a [bold] lamp" in text  # no markup is read out of a page
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
