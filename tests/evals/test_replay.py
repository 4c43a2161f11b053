"""Recorded threads under other arms: prompts, bills, what calls needed; exports in any form."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from stategate.evals import settings as evaluations
from stategate.evals.core.reports import summary_text
from stategate.evals.replay import Replay, replay
from stategate.graph.exported import from_plain
from stategate.stores.errors import UserError

OPENAI = [
    {"role": "user", "content": "Read."},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"n": 1}'}}
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "c",
        "content": "\n".join(f"line {i} of it" for i in range(900)),
    },
    {"role": "assistant", "content": "Done."},
]


def test_a_repeated_prefix_is_billed_at_a_tenth_and_a_changed_one_is_not():
    first = [HumanMessage("word " * 3000)]
    more = [*first, AIMessage("yes"), HumanMessage("and?")]
    other = [HumanMessage("other " * 3000), AIMessage("yes"), HumanMessage("and?")]
    rates = {"in": 3e-6, "write": 3.75e-6, "read": 0.3e-6, "out": 15e-6}
    bills = []
    for second in (more, other):
        bill = Replay("nothing")
        bill.bill_call(first, AIMessage("yes"))
        once = bill.dollars["anthropic"]
        bill.bill_call(second, AIMessage("no"))
        bills.append(bill.dollars["anthropic"] - once)
        assert once == pytest.approx(3004 * rates["write"] + 5 * rates["out"], rel=0.01)
    assert bills[0] == pytest.approx(3004 * rates["read"] + 10 * rates["write"], rel=0.1)
    assert bills[1] > 9 * bills[0]


@pytest.mark.parametrize(
    "arm", ["clear:keep=x", "mask:kep=4", "last:keep=2", "summary:events=1", "compress@600:need=no"]
)
def test_an_arm_s_field_that_nobody_reads_is_refused(arm):
    with pytest.raises(UserError):
        replay(from_plain(OPENAI), arm, 2000)


def test_threads_are_measured_under_each_arm_and_go_on(tmp_path):
    later = {"id": "d", "function": {"name": "read", "arguments": '{"n": "line 777 of it"}'}}
    calls = [{**later, "type": "function"}]
    messages = [*OPENAI[:3], {"role": "assistant", "content": "", "tool_calls": calls}]
    lines = [{"id": i, "task": i // 2, "messages": messages} for i in range(4)]
    data = tmp_path / "threads.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arms = ("nothing", "last", "clear", "mask@1000:keep=1", "summary", "compress", "oracle")
    settings = evaluations.Replay(data=str(data), arms=arms, budget=1000, out=str(tmp_path / "run"))
    summary = settings.run()
    rows = {row["agent"]: row for row in summary["rows"]}
    assert set(rows) == set(arms)
    assert rows["nothing"]["readable_tool"] == 1.0
    assert rows["nothing"]["bill"] == 1.0
    assert rows["compress"]["bill"] < 1.0
    assert rows["oracle"]["readable_tool"] == 1.0
    assert rows["oracle"]["bill"] < rows["nothing"]["bill"]
    assert rows["mask@1000:keep=1"]["readable_tool"] == 1.0
    assert (tmp_path / "run" / "frontier.png").stat().st_size > 1000
    assert rows["compress"]["tokens_per_call"] < rows["nothing"]["tokens_per_call"] / 2
    assert all(row["orphans"] == 0 and not row["errors"] for row in rows.values())
    assert {row["tasks"] for row in rows.values()} == {2}
    assert settings.run() == summary
    table = summary_text(summary)
    assert max(map(len, table.splitlines())) <= 110
    assert "errors" not in table
    assert "errors" in summary_text({"rows": [{**rows["last"], "errors": 1}], "tests": []})
    with pytest.raises(UserError, match="500 tokens"):
        replay(from_plain(OPENAI), "compress@12", 2000)
    with pytest.raises(UserError, match="no model said"):
        replay(from_plain(messages[:1]), "compress", 2000)
    with pytest.raises(UserError):
        evaluations.Replay(data=str(data), arms=("other",), out=str(tmp_path / "other")).run()
