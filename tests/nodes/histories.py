"""Generated histories of agents: parallel calls, orphans, blocks of every sort, several turns."""

import json
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from stategate.envs.messages.history import calls_of

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
