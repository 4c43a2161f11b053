"""The middleware in a real ``create_agent``: what one call reads changes, the user's state does not."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import Field

from stategate.envs.messages.history import names_of
from stategate.graph.middleware import ContextMiddleware, recalled
from stategate.stores.errors import UserError
from stategate.stores.tokens import count_tokens
from tests.kit import Scripted


class Recorder(BaseChatModel):
    """A fake model that asks for ``calls`` pages, then ends; it keeps every prompt that it read."""

    calls: int = 12
    prompts: list[list[BaseMessage]] = Field(default_factory=list)
    tool: str = "read_page"

    @property
    def _llm_type(self) -> str:
        return "recorder"

    def bind_tools(self, tools: Sequence[Any], **extra: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **extra: Any) -> ChatResult:
        self.prompts.append(list(messages))
        # Counted by the last call that is shown: earlier ones may be left out.
        calls = [call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
        numbers = [call["args"]["number"] for call in calls if "number" in call["args"]]
        number = 1 + numbers[-1] if numbers else 0
        if number < self.calls:
            call = {"name": self.tool, "args": {"number": number}, "id": f"call_{number}"}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=reply)])


@tool
def read_page(number: int) -> str:
    """Return a page of the book."""
    lines = [f"Line {i} of page {number} says that item {number}-{i} is blue." for i in range(60)]
    return "\n".join(lines)


def agent_of(model: BaseChatModel, middleware: Sequence[Any], **extra: Any) -> Any:
    return create_agent(model, [read_page], middleware=list(middleware), **extra)


ASK = {"messages": [{"role": "user", "content": "Read the book. What colour is item 3-7?"}]}
THREAD: Any = {"configurable": {"thread_id": "t"}}


def call(name: str, id_: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id_}


def audits_of(events: Any) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == "stategate.context"]


def begins_with(later: Sequence[BaseMessage], earlier: Sequence[BaseMessage]) -> bool:
    """Say whether a prompt begins with the one before, byte for byte."""
    return [repr(m) for m in later[: len(earlier)]] == [repr(m) for m in earlier]


def messages_read(messages: Sequence[BaseMessage], **settings: Any) -> list[BaseMessage]:
    """Return what one call reads of ``messages``."""
    read: list[BaseMessage] = ContextMiddleware(**settings).hook({"messages": messages})[
        "llm_input_messages"
    ]
    return read


def size_of(messages: Sequence[BaseMessage]) -> int:
    return sum(len(str(m.content)) for m in messages)


@pytest.mark.parametrize("kind", ["compress", "window", "full"])
def test_a_call_reads_less_and_the_state_keeps_everything(kind: str) -> None:
    model = Recorder()
    agent = agent_of(model, [ContextMiddleware(kind=kind, budget=4000)])
    out = agent.invoke(ASK)
    results = [m for m in out["messages"] if isinstance(m, ToolMessage)]
    assert len(results) == 12
    assert all(m.text == read_page.invoke({"number": i}) for i, m in enumerate(results))
    assert size_of(model.prompts[-1]) < 0.6 * size_of(out["messages"])
    assert "stategate" not in out  # private


@pytest.mark.parametrize(
    "settings",
    [{"budget": 1500}, {"budget": 6000, "max_new_result": 3000, "need": ""}],
    ids=["by need", "by words"],
)
def test_what_was_shown_is_shown_again_until_a_cut(settings: dict[str, Any]) -> None:
    model = Recorder(calls=20, prompts=[])
    agent = agent_of(model, [ContextMiddleware(**settings)], checkpointer=InMemorySaver())
    audits = audits_of(agent.stream(ASK, THREAD, stream_mode="custom"))
    assert [a["type"] for a in audits] == ["stategate.context"] * 21
    cuts = [a["is_cut"] for a in audits]
    assert 2 <= sum(cuts) <= 6
    pairs = itertools.pairwise(model.prompts)
    assert [not begins_with(after, before) for before, after in pairs] == cuts[1:]
    assert all(a["tokens_after"] <= settings["budget"] and not a["over_by"] for a in audits)


def test_decisions_survive_resume_and_forks() -> None:
    model = Recorder(calls=12, prompts=[])
    saver = InMemorySaver()
    agent_of(model, [ContextMiddleware(budget=4000)], checkpointer=saver).invoke(ASK, THREAD)
    last = model.prompts[-1]
    agent = agent_of(model, [ContextMiddleware(budget=4000)], checkpointer=saver)  # a new process
    agent.invoke({"messages": [HumanMessage("And item 5-5?")]}, THREAD)
    assert begins_with(model.prompts[-1], last)
    states = agent.get_state_history(THREAD)
    back = next(s for s in states if len(s.values.get("messages", ())) == 1 + 2 * 8)
    read = len(model.prompts)
    agent.invoke(None, back.config)  # go on from eight calls ago
    assert begins_with(model.prompts[read], model.prompts[8])


def _breaks(*request: Any) -> Any:
    raise RuntimeError("no such thing")


def _hangs(*request: Any) -> Any:
    time.sleep(1.0)


@pytest.mark.parametrize(
    ("builder", "says"), [(_breaks, "no such thing"), (_hangs, "within 0.2 s")]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_builder_that_fails_never_stops_the_agent(
    builder: Any, says: str, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Recorder(calls=4, prompts=[])
    middleware = ContextMiddleware(budget=1200, timeout=0.2)
    monkeypatch.setattr(middleware.context, "_chosen", builder)
    agent = agent_of(model, [middleware])

    async def run() -> list[Any]:
        return [event async for event in agent.astream(ASK, stream_mode="custom")]

    audits = asyncio.run(run()) if is_async else audits_of(agent.stream(ASK, stream_mode="custom"))
    assert len(model.prompts) == 5  # each call reached the model, once
    assert any(says in audit["problem"] for audit in audits)
    assert size_of(model.prompts[-1]) > 4 * 2000  # untouched


def test_a_shortened_result_comes_back_whole() -> None:
    name = names_of([ToolMessage("", tool_call_id="call-0")])[0]
    model = Scripted.of([("read_page", {"number": 7}), ("recall", {"id": name})], "done")
    memory = ContextMiddleware(budget=4000, max_new_result=300)
    messages = agent_of(model, [memory]).invoke(ASK)["messages"]
    assert messages[4].text == read_page.invoke({"number": 7})
    shown = memory.preview(messages).messages
    assert f"recall {name}]" in shown[2].text
    assert shown[4] is messages[4]


def test_as_a_hook_decisions_are_kept_where_the_state_has_room_for_them() -> None:
    class State(MessagesState):
        llm_input_messages: list[Any]
        stategate: dict[str, Any]

    model = Recorder(calls=24, prompts=[])
    memory = ContextMiddleware(budget=800, recall=False)
    builder = StateGraph(State)
    builder.add_node("shorten", memory.hook)
    builder.add_node("model", lambda s: {"messages": [model.invoke(s["llm_input_messages"])]})
    builder.add_node("tools", ToolNode([read_page]))
    builder.add_edge(START, "shorten")
    builder.add_edge("shorten", "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "shorten")
    out = builder.compile().invoke(ASK)
    assert out["stategate"]["cuts"] >= 2
    same = [begins_with(after, before) for before, after in itertools.pairwise(model.prompts)]
    assert sum(same) >= len(same) - out["stategate"]["cuts"]


WORDS = " ".join(f"word{i}" for i in range(300))


def working_thread(calls: int = 60) -> list[BaseMessage]:
    """Return a short request, many calls with long results, and a short last word."""
    messages: list[BaseMessage] = [
        HumanMessage("Hello.", id="hello"),
        AIMessage("Hello, what can I do?", id="hi"),
        HumanMessage("Book the cheapest flight from Porto to Graz on the ninth.", id="request"),
    ]
    for number in range(calls):
        id_ = f"c{number}"
        messages.append(AIMessage("", tool_calls=[call("look", id_, n=number)], id=f"a{number}"))
        messages.append(ToolMessage(f"{number}: {WORDS}", tool_call_id=id_, id=f"t{number}"))
    return [*messages, AIMessage("A window seat?", id="q"), HumanMessage("Yes, please.", id="last")]


def look_round(number: int, lines: int = 20, id_: str = "") -> list[BaseMessage]:
    """Return a call and its result, which names order OX-0…number and ends with a line of its own."""
    text = "\n".join(f"line {i} of OX-{number:04d} took {i * 7} ms" for i in range(lines))
    return [
        AIMessage("", tool_calls=[call("look", id_ or f"c{number}", n=number)], id=f"a{number}"),
        ToolMessage(
            f"{text}\nSEAL-{number}", tool_call_id=id_ or f"c{number}", name="look", id=f"t{number}"
        ),
    ]


@pytest.mark.parametrize("budget", [4000, 8000])
def test_the_present_work_s_request_outlives_a_finished_one(budget: int) -> None:
    wordy = "The customer wrote about it on Monday. " * (budget // 36)
    finished = [HumanMessage(f"Audit the cargo. {wordy}", id="A")]
    finished += [message for n in range(20) for message in look_round(n)]
    present = [AIMessage("Done.", id="x"), HumanMessage(f"Refund INV-90417. {wordy}", id="B")]
    present += [message for n in range(20, 28) for message in look_round(n)]
    present += [AIMessage("By transfer?", id="q"), HumanMessage("As I said.", id="last")]
    present += [message for n in range(28, 43) for message in look_round(n)]
    messages = [HumanMessage("Hello.", id="hello"), AIMessage("Hi.", id="hi"), *finished, *present]
    shown = ContextMiddleware(budget=budget).preview(messages)
    assert {"hello", "B", "last"} <= {message.id for message in shown.messages}
    assert any("left out" in message.text for message in shown.messages)
    assert not shown.audit.over_by


def test_what_was_left_out_or_shortened_is_restored_by_its_id_or_name() -> None:
    memory, messages = ContextMiddleware(budget=2000), working_thread(40)
    before = memory.preview(messages)
    assert before.decisions is not None
    state = {"messages": messages, "stategate": before.decisions.plain()}
    rows = {row.key: row for row in before.audit.rows}
    assert (rows["t0"].fate, rows["t39"].fate) == ("left out", "shortened")
    for name, restored in (("t0", messages[3:5]), (rows["t39"].name, messages[82:83])):
        again = memory.hook(state | memory.restore(state, name))["llm_input_messages"]
        assert all(message in again for message in restored)
    with pytest.raises(UserError):
        memory.restore(state, "nobody")


@pytest.mark.parametrize("form", ["{}", "[cut 512 tokens: recall {}]", "recall({})", "id={}"])
def test_a_message_is_recalled_by_its_name_in_any_form(form: str) -> None:
    messages = working_thread()
    rows = ContextMiddleware(budget=2000).preview(messages).audit.rows
    name = next(row.name for row in rows if row.key == "t1")
    assert recalled(form.format(name), messages, 5000) == f"1: {WORDS}"
    assert "Book the cheapest" in recalled("flight to Graz", messages, 5000)


def test_recall_searches_neither_its_own_calls_nor_what_it_returned_but_names_them() -> None:
    messages = [HumanMessage("Go."), *look_round(1)]
    for number, words in enumerate(("zebra-quux", "SEAL-1")):
        messages.append(AIMessage("", tool_calls=[call("recall", f"r{number}", id=words)]))
        answer = recalled(words, messages, 500)
        assert ("SEAL-1" in answer) is (number == 1)
        assert answer.startswith("no earlier message") is (number == 0)
        messages.append(ToolMessage(answer, tool_call_id=f"r{number}", name="recall", id=words))
    later = [*messages, *(message for n in range(2, 30) for message in look_round(n))]
    rows = ContextMiddleware(budget=2000).preview(later).audit.rows
    name = next(row.name for row in rows if row.key == "SEAL-1")
    assert recalled(name, later, 2000) == messages[-1].text


def test_results_whose_calls_have_one_id_are_recalled_each() -> None:
    messages = [HumanMessage("Go.", id="h")]
    for number in range(12):
        messages += look_round(number, 60, "call_0")
        notes = [m.text[-6:-1] for m in messages_read(messages, budget=2500) if "[cut" in m.text]
    assert len(set(notes)) == len(notes) > 3
    for name, number in zip(notes, range(12 - len(notes), 12), strict=True):
        assert f"SEAL-{number}" in recalled(name, messages, 5000)


def test_a_pinned_message_stays_whole() -> None:
    messages = working_thread()
    pins: list[Any] = [{"t3"}, lambda message: message.id == "t3"]
    for pin in pins:
        assert messages[10] in messages_read(messages, budget=3000, pin=pin)
    marked = messages[10].model_copy(update={"additional_kwargs": {"stategate_pin": True}})
    assert marked in messages_read([*messages[:10], marked, *messages[11:]], budget=3000)


@pytest.mark.parametrize(
    "wrong",
    [{"pin": "t12"}, {"pin": 5}, {"need": "nofile"}, {"max_new_result": -5}, {"timeout": -1}],
    ids=str,
)
def test_a_setting_that_cannot_be_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        ContextMiddleware(**wrong)
    assert ContextMiddleware(budget="8000").context.settings.budget == 8000  # type: ignore[arg-type]


def test_a_prompt_above_the_budget_is_told(caplog: pytest.LogCaptureFixture) -> None:
    messages_read([HumanMessage(WORDS * 9)], budget=1234)
    assert "over 1234 tokens" in caplog.text


def test_a_huge_result_costs_little_and_never_reaches_the_model_whole() -> None:
    line = '{"id": %d, "text": "plain words of no use at all", "amount": 12.5}\n'
    huge = "".join(line % i for i in range(75_000))
    assert len(huge) > 5_000_000
    asked = AIMessage("", tool_calls=[call("look", "c")])
    messages = [HumanMessage("Go."), asked, ToolMessage(huge, tool_call_id="c")]
    messages_read(messages[:1])  # what is loaded once
    for settings in ({}, {"keep_whole": ["look"]}, {"pin": lambda message: True}):
        started = time.process_time()
        shown = messages_read(messages, budget=8000, **settings)
        assert time.process_time() - started < 3
        assert count_tokens(shown[-1].text) < 8000
    started = time.process_time()
    assert '"id": 40000,' in recalled("40000", messages, 4000)
    assert time.process_time() - started < 1


def test_tools_that_eat_the_budget_leave_the_task_and_some_results() -> None:
    system = SystemMessage("tool schema " * 3000)
    shown = ContextMiddleware(budget=4000).preview(working_thread(20), system).messages
    assert {"request", "last"} <= {message.id for message in shown}
    assert count_tokens("\n".join(m.text for m in shown if isinstance(m, ToolMessage))) > 100


def test_results_of_the_agents_own_recall_are_shortened_and_recalled_by_ours() -> None:
    @tool
    def recall(lot: str) -> str:
        """Recall a lot from its buyers."""
        return f"{read_page.invoke({'number': 1})}\nSEAL-{lot}"

    calls = [("recall", {"lot": "p0"}), ("recall_message", {"id": "SEAL-p0"})]
    model = Scripted.of(calls, "done")
    agent = create_agent(model, [recall], middleware=[ContextMiddleware(budget=2000)])
    stream = agent.stream({"messages": [HumanMessage("Go.")]}, stream_mode=["custom", "values"])
    events = list(stream)
    assert any(
        row["fate"] == "shortened" for e in events if e[0] == "custom" for row in e[1]["rows"]
    )
    own, ours = events[-1][1]["messages"][2:5:2]
    assert own.text == recall.invoke({"lot": "p0"})
    assert f"{names_of([own])[0]}:" in ours.text
    assert "SEAL-p0" in ours.text


def test_an_agent_without_tools_works_with_a_model_that_takes_none() -> None:
    agent = create_agent(
        FakeListChatModel(responses=["fine"]), [], middleware=[ContextMiddleware()]
    )
    assert agent.invoke({"messages": [HumanMessage("How are you?")]})["messages"][-1].text == "fine"


LONG = "\n".join(f"Line {i} says that item {i} is blue." for i in range(400))


def test_an_agent_as_a_subgraph_keeps_its_decisions() -> None:
    model = Recorder(calls=8, prompts=[])
    inner = agent_of(model, [ContextMiddleware(budget=2500)])
    builder = StateGraph(MessagesState)
    builder.add_node("agent", inner)
    builder.add_edge(START, "agent")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    graph.invoke(ASK, THREAD)
    assert "stategate" not in graph.get_state(THREAD).values
    graph.invoke({"messages": [HumanMessage("And item 4-4?")]}, THREAD)
    assert size_of(model.prompts[-1]) < 0.6 * size_of(graph.get_state(THREAD).values["messages"])


def test_messages_that_are_removed_are_forgotten() -> None:
    model = Recorder(calls=9, prompts=[])
    agent = agent_of(model, [ContextMiddleware(budget=2000)], checkpointer=InMemorySaver())
    agent.invoke(ASK, THREAD)
    gone = agent.get_state(THREAD).values["messages"][1:15]
    agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in gone]})
    audits = audits_of(
        agent.stream({"messages": [HumanMessage("So?")]}, THREAD, stream_mode="custom")
    )
    assert not audits[-1]["problem"]
    kept = agent.checkpointer.get(THREAD)["channel_values"]["stategate"]
    assert not set(kept["frozen"]) & {m.id for m in gone}


def test_blocks_that_are_no_text_and_what_stands_beside_one_pass_untouched() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}
    file = {"type": "file", "base64": "B" * 4000, "mime_type": "application/pdf"}
    text = {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}
    thinking = {"type": "thinking", "thinking": "Let me see.", "signature": "s" * 200}
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    made = {"type": "function_call", "id": "fc_1", "call_id": "c2", "name": "look"}
    made |= {"arguments": "{}"}
    messages: list[BaseMessage] = [
        HumanMessage([{"type": "text", "text": "What is it?"}, image, file], id="h"),
        AIMessage([thinking, use], tool_calls=[call("look", "c1", n=1)], id="a"),
        ToolMessage([text, image], tool_call_id="c1", id="t"),
        AIMessage([reasoning, made], tool_calls=[call("look", "c2")], id="b"),
        ToolMessage(LONG, tool_call_id="c2", id="u"),
    ]
    before = [repr(m) for m in messages]
    shown = messages_read(messages, budget=8000, low_watermark=0.8, max_new_result=300)
    assert [repr(m) for m in messages] == before
    assert all(shown[i] is messages[i] for i in (0, 1, 3))
    assert [m.id for m in shown] == ["h", "a", "t", "b", "u"]
    short: Any = shown[2].content
    assert image in short
    assert [{**block, "text": LONG} for block in short if block != image] == [text]
    assert len(shown[2].text) < len(LONG) / 2


def test_a_call_that_could_not_be_read_goes_where_nothing_answers_it() -> None:
    broken: Any = [{"name": "look", "args": "{oops", "id": "x", "error": "no JSON"}]
    said = AIMessage("I.", invalid_tool_calls=broken)
    shown = messages_read([HumanMessage("Look."), said, HumanMessage("And?")])
    assert isinstance(shown[1], AIMessage)
    assert not shown[1].invalid_tool_calls  # providers refuse a call that nothing answers


def test_a_new_result_shows_what_the_agent_said_it_looks_for_and_a_search_keeps_the_order() -> None:
    log = [f"2026-01-01 10:00:{i % 60:02} INFO pump {i} runs at {i * 7} turns" for i in range(400)]
    log[250] = "2026-01-01 10:04:10 INFO Quaymoor depot reports berth B3817"
    call = [{"name": "read", "args": {"path": "a"}, "id": "c1"}]
    said = AIMessage("I want the berth of Quaymoor depot.", tool_calls=call)
    messages = [HumanMessage("Work."), said, ToolMessage("\n".join(log), tool_call_id="c1")]
    for settings in ({}, {"need": ""}):
        prepared = ContextMiddleware(kind="compress", budget=4000, **settings).preview(messages)
        assert "B3817" in prepared.messages[-1].text
    again = [AIMessage("", tool_calls=[{**call[0], "id": "c2"}])]
    later = [*messages, *again, ToolMessage("Quaymoor depot: berth B9", tool_call_id="c2")]
    answer = recalled("Quaymoor depot berth", later, 4000)
    assert answer.index("B3817") < answer.index("B9")
