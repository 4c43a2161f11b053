"""What a transcript says of a step, on hand-made contexts and a hand-made page."""

import io
from dataclasses import replace

from langchain_core.messages import HumanMessage
from rich.console import Console

from stategate.envs.protocols import Chunk, Observation, View
from stategate.envs.webshop.view import WebShopView
from stategate.graph import Session, build_graph, load_config
from stategate.nodes.protocols import BuiltContext, Piece
from stategate.ui.cli.run import episode_dict, futile
from stategate.ui.cli.transcript import Transcript, cut, kept_line, page_lines, reward_line

ACTIONS = ["search[desk lamp]", "click[no such button]", "click[back to search]"]


def piece(name, text, before, after, actions=(), dropped=()):
    return Piece(name, "product", text, actions, before, after, dropped_actions=dropped)


def context(*pieces, over_budget=False):
    text = "".join(p.text for p in pieces)
    tokens = sum(p.tokens_after for p in pieces)
    return BuiltContext((HumanMessage(text),), pieces, tokens, over_budget)


def played(show="page", **values):
    settings = {"actor": {"kind": "scripted", "actions": ACTIONS}, "max_steps": 3, **values}
    session = Session(build_graph(load_config(settings)), "t", task={"goal": 3})
    steps = session.run()
    screen = Console(file=io.StringIO(), width=80, highlight=False)
    transcript = Transcript(screen, session.agent.config, WebShopView(), show)
    transcript.head({"env": "webshop", "goal": 3}, "Find me a [bold] lamp")
    for step in steps:
        transcript.step(step, futile(session, step))
    episode = episode_dict(session, steps)
    transcript.end(episode, session.observation)
    return screen.file.getvalue(), episode


def test_kept_line_counts_chunks_and_tokens_and_names_what_was_dropped():
    built = context(
        piece("a", "lamp", 10, 10, ("click[a]",)),
        piece("b", "", 20, 0, (), ("click[buy now]", "click[a]")),
    )
    assert kept_line(built) == "kept 1/2 chunks, 10 of 30 tokens; dropped: buy now"


def test_a_step_shows_the_advice_and_what_fell_back():
    config = load_config({"actor": {"kind": "scripted", "actions": ACTIONS}})
    session = Session(build_graph(config), "t", task={"goal": 3})
    step = session.step()
    told = Piece("experience:r1", "experience", "Experience: Look [twice].\n", (), 5, 5, 0.9)
    lost = Piece("fallback:rerank: gone", "fallback", "", (), 0, 0)
    changed = replace(step, context=replace(step.context, pieces=(told, lost)))
    screen = Console(file=io.StringIO(), width=80, highlight=False)
    Transcript(screen, session.agent.config, WebShopView()).step(changed, None)
    lines = {" ".join(line.split()) for line in screen.file.getvalue().splitlines()}
    assert {"advice Look [twice].", "fallback rerank: gone"} <= lines


def test_reward_line_tells_the_parts():
    parts = [("type", 1.0), ("attributes", 0.5), ("colour", None), ("limit", False)]
    named = [{"name": name, "value": value, "weight": None} for name, value in parts]
    end = Observation("end", (), 0.5, True, {"outcome": {"parts": named}})
    assert reward_line(0.5, end) == "0.50  (type 1.00, attributes 0.50, colour –, limit no)"
    assert reward_line(0.0, Observation("end", ())) == "0.00"


class Pages(View):
    def chunks(self, observation):
        lines = observation.text.splitlines(keepends=True)
        rest = [Chunk(str(i), "line", line) for i, line in enumerate(lines[1:])]
        return [Chunk("i", "instruction", lines[0], role="frame"), *rest]


def test_page_lines_leave_the_frame_out_and_count_the_rest():
    text = "Find me a lamp\n" + "".join(f"line {i}\n" for i in range(7))
    seen = Observation(text, ())
    assert page_lines(Pages(), seen, limit=3) == ["line 0", "line 1", "… and 5 more lines"]
    short = Observation("Find me a lamp\nline 0\nline 1", ())
    assert page_lines(Pages(), short, limit=3) == ["line 0", "line 1"]


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
    import json

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
