"""Generated agent tasks: solvable with everything shown, billed by the providers' rules, comparable."""

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from stategate.evals.agents.arms import arms_of, middleware_of
from stategate.evals.agents.billing import Bill
from stategate.evals.agents.reader import orphans_in, read
from stategate.evals.agents.replay import NOTHING, replay
from stategate.evals.agents.run import run_agents
from stategate.evals.agents.tasks import FAMILIES, families_of, make_task
from stategate.graph.exported import from_plain, read_messages
from stategate.stores.errors import UserError


@pytest.mark.parametrize("family", FAMILIES)
def test_every_fact_can_be_read_where_all_is_shown(family: str) -> None:
    for seed in range(5):
        task = make_task(family, seed)
        assert 20 <= len(task.steps) <= 80
        assert task == make_task(family, seed)
        shown = [ToolMessage(s.result, tool_call_id=str(i)) for i, s in enumerate(task.steps)]
        for fact in task.facts:
            assert read(fact, shown, task.entities) == fact.value
        for fact in (step.needs for step in task.steps if step.needs is not None):
            assert read(fact, shown[: fact.step + 1], task.entities) == fact.value
        first = [f for f in task.facts if f.step < len(shown) - 1]
        without = [m for i, m in enumerate(shown) if i not in {f.step for f in first}]
        for fact in first:
            assert read(fact, without, task.entities) != fact.value


def test_held_out_families_are_other_ones() -> None:
    dev, test = ({FAMILIES[n].form for n in families_of(split)} for split in ("dev", "test"))
    assert test - dev >= {"log", "markdown", "html", "yaml"}
    assert not set(families_of("dev")) & set(families_of("test"))


def test_a_repeated_prefix_is_billed_at_a_tenth_and_a_changed_one_is_not() -> None:
    first = [HumanMessage("word " * 3000)]
    more = [*first, AIMessage("yes"), HumanMessage("and?")]
    other = [HumanMessage("other " * 3000), AIMessage("yes"), HumanMessage("and?")]
    rates = {"in": 3e-6, "write": 3.75e-6, "read": 0.3e-6, "out": 15e-6}
    bills = []
    for second in (more, other):
        bill = Bill(0)
        bill.call(first, AIMessage("yes"))
        once = bill.dollars["anthropic"]
        bill.call(second, AIMessage("no"))
        bills.append(bill.dollars["anthropic"] - once)
        assert once == pytest.approx(3004 * rates["write"] + 5 * rates["out"], rel=0.01)
    assert bills[0] == pytest.approx(3004 * rates["read"] + 10 * rates["write"], rel=0.1)
    assert bills[1] > 9 * bills[0]


def test_orphans_are_counted() -> None:
    call = AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}])
    assert orphans_in([call, ToolMessage("x", tool_call_id="1")]) == 0
    assert orphans_in([ToolMessage("x", tool_call_id="1")]) == 1
    assert orphans_in([call, HumanMessage("so?")]) == 1


def test_arms_play_the_same_tasks(tmp_path: Path) -> None:
    arms = ("nothing", "last", "clear", "summarize", "compress")
    summary = run_agents(str(tmp_path / "run"), "dev", 1, arms, 4000, ("json",))
    rows = {row["agent"]: row for row in summary["rows"] if "family" not in row}
    assert set(rows) == set(arms)
    assert rows["nothing"]["success"] == rows["compress"]["success"] == 1.0
    assert rows["compress"]["cost_anthropic"] < 0.6
    assert all(row["orphans"] == 0 and not row["errors"] for row in rows.values())
    with pytest.raises(UserError, match="no arm 'other'"):
        run_agents(str(tmp_path / "other"), "dev", 1, ("other",))


@pytest.mark.parametrize("is_second", [False, True])
def test_llmlingua_compresses_results_with_any_weights_of_its_kind(
    tmp_path: Path, is_second: bool
) -> None:
    """Either method's code path with a tiny model of random weights: what it keeps means nothing."""
    pytest.importorskip("llmlingua")
    import transformers as hf

    from stategate.evals.agents.lingua import Lingua

    weights = tmp_path / ("bert-base-multilingual-cased-tiny" if is_second else "causal-tiny")
    words = [*"abcdefghijklmnopqrstuvwxyz", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", *".,:;()\"'"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *(f"##{w}" for w in words)]
    weights.mkdir()
    (weights / "vocab.txt").write_text("\n".join(vocabulary))
    hf.BertTokenizerFast(vocab=str(weights / "vocab.txt"), do_lower_case=False).save_pretrained(
        weights
    )
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape |= {"vocab_size": len(vocabulary), "intermediate_size": 64}
    if is_second:
        hf.BertForTokenClassification(hf.BertConfig(num_labels=2, **shape)).save_pretrained(weights)
    else:
        causal = hf.LlamaConfig(pad_token_id=0, eos_token_id=3, **shape)
        hf.LlamaForCausalLM(causal).save_pretrained(weights)
    result = "\n".join(f"Line {i} of it says that the gate is A{i}." for i in range(90))
    messages = [
        HumanMessage("Read."),
        AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}]),
        ToolMessage(result, tool_call_id="1", id="t"),
    ]
    arm = middleware_of("llmlingua", 2000, Bill(0), str(weights))[0]
    assert isinstance(arm, Lingua)
    shown = arm.read(messages)
    assert [m.type for m in shown] == ["human", "ai", "tool"]
    assert 0 < len(shown[-1].text) < 0.6 * len(result)
    assert arm.read(messages) == shown  # what was compressed is not compressed anew
    for gone in (f"{weights}-gone", str(tmp_path)):
        with pytest.raises(UserError, match="no (weights|model)"):
            arms_of(["llmlingua"], gone)


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


def test_exports_are_read_in_any_form(tmp_path: Path) -> None:
    from langchain_core.messages import messages_to_dict

    messages = from_plain(OPENAI)
    for name, values in {
        "a": OPENAI,
        "b": {"messages": OPENAI},
        "c": {"values": {"messages": OPENAI}},
        "d": messages_to_dict(messages),
        "e": [m.model_dump() for m in messages],
    }.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(values))
        found = read_messages(str(path))
        assert [m.type for m in found] == ["human", "ai", "tool", "ai"]
        assert found[1].tool_calls[0]["args"] == {"n": 1}
    for bad in ("{", "[]", '{"a": 1}', '[{"role": "king", "content": "x"}]'):
        (tmp_path / "bad.json").write_text(bad)
        with pytest.raises(UserError):
            read_messages(str(tmp_path / "bad.json"))


def test_a_thread_is_read_again_through_another_builder() -> None:
    messages = from_plain(OPENAI)
    plain, short = (replay(messages, kind, 2000) for kind in (NOTHING, "compress"))
    assert len(plain.readings) == len(short.readings) == 2
    assert short.tokens < plain.tokens / 2
    assert short.dollars["anthropic"] < plain.dollars["anthropic"]
    with pytest.raises(UserError, match="no model said"):
        replay(messages[:1], "compress", 2000)
