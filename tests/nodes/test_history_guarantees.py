"""What must hold of every call, whatever the history: pairs, roles, budget, order, no rewriting."""

import json
import re
from copy import deepcopy
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages, convert_to_openai_messages

from stategate.envs.messages.history import calls_of, tokens_of
from stategate.envs.messages.outline import outline
from stategate.envs.messages.reading import spans
from stategate.nodes.build_context.messages.decisions import Decisions, PreparedCall
from stategate.nodes.build_context.messages.parts import rendered, select
from stategate.nodes.build_context.messages.planner import HistoryPlanner
from stategate.nodes.retrieval.history import excerpt
from stategate.stores.tokens import count_tokens

WORDS = (
    "harbour gate seven kestrel ledger 8443 amber quarry 17.5 river_id Näh 数 error total".split()
)
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)


@st.composite
def results(draw: st.DrawFn) -> str:
    """Return a tool's result in one of its formats."""
    lines = draw(st.lists(words, min_size=0, max_size=30))
    kind = draw(
        st.sampled_from(["text", "json", "table", "log", "markdown", "html", "code", "diff"])
    )
    if kind == "json":
        return json.dumps({"items": [{"id": i, "text": line} for i, line in enumerate(lines)]})
    if kind == "table":
        return "a,b,c\n" + "\n".join(f"{i},{len(line)},{line[:9]}" for i, line in enumerate(lines))
    if kind == "log":
        return "\n".join(f"2026-01-02 03:04:{i:02d} INFO {line}" for i, line in enumerate(lines))
    if kind == "markdown":
        return "# Page\n" + "\n".join(f"## {line[:20]}\n{line}\n" for line in lines)
    if kind == "html":
        return (
            "<html><body>" + "".join(f"<p>{line} &amp; <b>x</b></p>" for line in lines) + "</body>"
        )
    if kind == "code":
        return "import os\n" + "\n".join(
            f"def f{i}():\n    return '{x}'" for i, x in enumerate(lines)
        )
    if kind == "diff":
        return "--- a\n+++ b\n@@ -1 +1 @@\n" + "\n".join(f"+{line}\n-{line[:5]}" for line in lines)
    return "\n".join(lines)


@st.composite
def histories(draw: st.DrawFn, valid: bool = False, most: int = 14) -> list[BaseMessage]:
    """Return messages with ids; ``valid`` ones have no orphans and no system message in between."""
    messages: list[BaseMessage] = [HumanMessage(draw(words), id="h0")]
    for number in range(draw(st.integers(0, most))):
        kinds = (
            ["round"] * 6 + ["human", "ai"] + ([] if valid else ["orphan", "unanswered", "system"])
        )
        kind = draw(st.sampled_from(kinds))
        if kind == "human":
            messages.append(HumanMessage(draw(_contents()), id=f"h{number + 1}"))
        elif kind == "ai" and messages[-1].type != "ai":
            messages.append(AIMessage(draw(words), id=f"s{number}"))
        elif kind == "system":
            messages.append(SystemMessage(draw(words), id=f"y{number}"))
        elif kind == "orphan":
            messages.append(
                ToolMessage(draw(results()), tool_call_id=f"lost{number}", id=f"o{number}")
            )
        elif kind in ("round", "unanswered") and messages[-1].type != "ai":
            messages += draw(_round(number, answered=kind == "round"))
    if valid and messages[-1].type == "ai" and not calls_of(messages[-1]):
        messages.append(HumanMessage(draw(words), id="last"))
    return messages


@st.composite
def _round(draw: st.DrawFn, number: int, answered: bool) -> list[BaseMessage]:
    count = draw(st.integers(1, 3))
    ids = [f"call{number}_{i}" for i in range(count)]
    calls = [{"name": "look", "args": {"at": draw(words)}, "id": name} for name in ids]
    content: Any = draw(st.sampled_from(["", "Let me look.", "blocks"]))
    if content == "blocks":
        content = [
            {"type": "thinking", "thinking": draw(words), "signature": "x"},
            {"type": "text", "text": draw(words)},
            *(
                {"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]}
                for c in calls
            ),
        ]
    said = AIMessage(content, tool_calls=calls, id=f"a{number}")
    replies = [
        ToolMessage(draw(_contents(results())), tool_call_id=name, id=f"t{name}", name="look")
        for name in ids
    ]
    if not answered:
        replies = replies[: draw(st.integers(0, count - 1))]
    return [said, *draw(st.permutations(replies))]


@st.composite
def _contents(draw: st.DrawFn, texts: st.SearchStrategy[str] = words) -> Any:
    text = draw(texts)
    if draw(st.integers(0, 4)):
        return text
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    return [{"type": "text", "text": text or "-"}, image]


KINDS = st.sampled_from(["compress", "full", "window"])
BUDGETS = st.sampled_from([60, 200, 500, 1500, 6000])
often = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
context_of = lru_cache(HistoryPlanner)


def size_of(messages: Any) -> int:
    return sum(tokens_of(message) for message in messages)


def open_calls(messages: list[BaseMessage]) -> set[str]:
    """Return the calls of the last AI message if only results follow it."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return set(calls_of(message))
        if not isinstance(message, ToolMessage):
            return set()
    return set()


def without_note(shown: Any) -> list[BaseMessage]:
    """Return ``shown``, where the note of what is left out is no part of the request it closes."""
    messages: list[BaseMessage] = []
    for message in shown:
        parts: Any = message.content
        if isinstance(message, HumanMessage) and isinstance(parts, str):
            parts = re.sub(r"\n\n\[left out [1-9].*\]\Z", "", parts)
        elif isinstance(message, HumanMessage) and "[left out" in parts[-1].get("text", ""):
            parts = parts[:-1]
        messages.append(message.model_copy(update={"content": parts}))
    return messages


def check_pairs(shown: list[BaseMessage]) -> None:
    waiting: set[str] = set()
    for message in shown:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting, "a result without its call"
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting, "a call without its result"
            waiting = set(calls_of(message))
    assert waiting <= open_calls(shown)


def check_anthropic(shown: list[BaseMessage]) -> None:
    """Check the rules of its Messages API on what its own client would send."""
    from langchain_anthropic.chat_models import _format_messages

    _, rows = _format_messages(shown, model="claude-sonnet-4-5")
    assert rows[0]["role"] == "user"
    waiting: set[str] = set()
    for row in rows:
        blocks = row["content"] if isinstance(row["content"], list) else []
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        asked = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if row["role"] == "user":
            assert set(answered) == waiting, "tool_use must be answered in the next message"
            assert [b["type"] == "tool_result" for b in blocks] == sorted(
                (b["type"] == "tool_result" for b in blocks), reverse=True
            ), "results come first"
            waiting = set()
        else:
            assert not waiting
            waiting = set(asked)


def decided(kind: str, budget: int, messages: list[BaseMessage]) -> PreparedCall:
    return context_of(kind, budget)(messages, Decisions())


@often
@given(histories(valid=True), KINDS, BUDGETS)
def test_roles_stay_valid_for_openai_and_anthropic(messages: Any, kind: str, budget: int) -> None:
    shown = list(decided(kind, budget, messages).messages)
    check_pairs(convert_to_messages(convert_to_openai_messages(shown)))
    after_results, before = (
        {b.id for a, b in pairwise(rows) if (a.type, b.type) == ("tool", "human")}
        for rows in (shown, messages)
    )
    assert after_results <= before, "Mistral refuses a person's message right after a result"
    if not open_calls(messages) or messages[-1].type == "tool":
        check_anthropic(shown)


@often
@given(histories(), KINDS, BUDGETS)
def test_any_history_keeps_pairs_order_budget_and_what_was_said_last(
    messages: Any, kind: str, budget: int
) -> None:
    before = deepcopy(messages)
    once = decided(kind, budget, messages)
    assert messages == before
    check_pairs(list(once.messages))
    check_budget(once, budget)
    ids = [m.id for m in once.messages]
    order = iter(m.id for m in messages)
    assert all(any(name == other for other in order) for name in ids)
    people = [m for m in messages if isinstance(m, HumanMessage)]
    assert people[-1] in without_note(once.messages)
    if open_calls(messages):
        last = next(m for m in reversed(messages) if isinstance(m, AIMessage))
        assert last in once.messages
    check_twice(once, kind, budget, messages)


def check_budget(result: PreparedCall, budget: int) -> None:
    """Check that it holds, or that the audit says by how much not and nothing is left that may go."""
    assert result.audit.tokens_after == size_of(result.messages)
    assert result.audit.over_by == max(size_of(result.messages) - budget, 0)
    if result.audit.over_by:
        people = [m for m in result.messages if isinstance(m, HumanMessage)]
        rounds = [m for m in result.messages if isinstance(m, AIMessage)]
        # The first request, the one that started the work, the last.
        assert len(people) <= 3
        assert len(rounds) <= 1
        for message in result.messages:
            if isinstance(message, ToolMessage) and isinstance(message.content, str):
                assert count_tokens(message.content) <= 20


def check_twice(once: PreparedCall, kind: str, budget: int, messages: Any) -> None:
    """Check that doing it again, on the result or with its decisions, changes nothing."""
    again = context_of(kind, budget)(list(once.messages), Decisions())
    # The scorer of need reads the thread: where messages are gone, it is another thread.
    is_whole = not any(row.fate == "left out" for row in once.audit.rows)
    if is_whole or (kind != "compress" and not once.audit.over_by):
        assert list(again.messages) == list(once.messages)
    if not once.audit.over_by:
        assert not again.audit.over_by
    same = context_of(kind, budget)(messages, once.decisions or Decisions())
    if not same.audit.is_cut:
        assert list(same.messages) == list(once.messages)


def test_a_result_that_was_shortened_before_is_not_shortened_again() -> None:
    rows = [{"id": i, "text": "harbour " * (1 + (i == 1))} for i in range(70)]
    call = {"name": "look", "args": {"at": "harbour"}, "id": "c"}
    messages = [
        HumanMessage("harbour", id="h"),
        AIMessage("", id="a", tool_calls=[call]),
        ToolMessage(json.dumps({"items": rows}), id="t", name="look", tool_call_id="c"),
    ]
    once = decided("compress", 200, messages).messages
    assert "[cut" in str(once[-1].content)
    again = context_of("compress", 200)(list(once), Decisions()).messages
    assert list(again) == list(once)


@often
@given(histories(valid=True, most=20), KINDS, BUDGETS)
def test_between_cuts_a_prompt_begins_with_the_one_before(
    messages: Any, kind: str, budget: int
) -> None:
    decisions = Decisions()
    last: list[BaseMessage] = []
    for end in range(1, len(messages) + 1):
        if isinstance(messages[end - 1], AIMessage):
            continue  # a model is called when people or tools have spoken
        if end < len(messages) and isinstance(messages[end], ToolMessage):
            continue
        result = context_of(kind, budget)(messages[:end], Decisions.of(decisions.plain()))
        shown = list(result.messages)
        if not result.audit.is_cut:
            assert [repr(m) for m in shown[: len(last)]] == [repr(m) for m in last]
        last, decisions = shown, result.decisions or Decisions()
        texts = sum(count_tokens(text) for _, text in decisions.frozen.values())
        assert texts <= budget or result.audit.over_by


@pytest.mark.parametrize("budget", [300, 3000])
def test_a_large_budget_shows_the_messages_themselves(budget: int) -> None:
    messages = [HumanMessage("hello", id="h"), AIMessage("hi", id="a"), HumanMessage("so?", id="g")]
    shown = decided("compress", budget, messages).messages
    assert all(a is b for a, b in zip(shown, messages, strict=True))


def test_a_row_without_its_prose_keeps_its_cells_and_its_place() -> None:
    prose = "it was sent and then it came back to us"
    rows = [{"id": f"K-{i}", "a": prose, "b": prose, "price": i + 0.5} for i in range(9)]
    text = outline(json.dumps({"data": {"rows": rows, "name": "x"}}))
    shown = select({"r": spans(text)}, {"r": np.ones(len(spans(text)), dtype=np.float32)}, 130)
    body = rendered("r", text, shown["r"], "recall")
    for i in range(9):
        assert f"\n  K-{i},…,…,{i}.5\n" in body


def test_a_part_of_an_item_keeps_the_item_s_first_value() -> None:
    pods = [{"meta": {"name": f"p{i}", "tags": {"a": 1}}, "images": [1, 2, [i]]} for i in range(3)]
    parts = spans(outline(json.dumps({"items": pods}, indent=1)))
    last = next(part for part in parts if "[2]" in part.text)
    assert (
        excerpt(parts, {last.number: last.visible_text})
        == "items:\n…\n - meta:\n    name: p2\n…\n   images:\n…\n    - [2]"
    )


def test_a_part_of_a_long_row_follows_its_beginning_and_cuts_no_number() -> None:
    rows = [{"id": f"K-{i}", "times": [1700000000 + i for i in range(200)]} for i in range(2)]
    parts = spans(outline(json.dumps({"rows": rows})))
    shown = {parts[-1].number: parts[-1].visible_text}
    header, _, first, gap, piece = excerpt(parts, shown).split("\n")
    assert (header, gap) == ("rows{id,times}:", "…")
    assert first.startswith(" K-1,[1700000000,")
    assert all(len(number) == 10 for number in piece.rstrip("]").split(","))
