"""The middleware beside what agents bring: orphans, pictures, tools as mappings, approvals."""

import json
import time
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from pydantic import create_model

from stategate.envs.messages.history import names_of, tokens_in
from stategate.evals.replay import orphans_in
from stategate.graph.middleware import ContextMiddleware, recalled
from stategate.nodes.build_context.messages import planner
from stategate.nodes.build_context.messages.need import RECENT, load_scorer
from stategate.stores.errors import UserError
from tests.graph.test_middleware import (
    ASK,
    THREAD,
    WORDS,
    Recorder,
    agent_of,
    look_round,
    messages_read,
    read_page,
    size_of,
    working_thread,
)
from tests.kit import Scripted


def test_a_result_without_its_call_is_noted_and_can_be_recalled() -> None:
    asked, result = look_round(1)
    messages = [HumanMessage("Look."), asked, HumanMessage("Still there?"), result]
    messages += [AIMessage("Yes."), HumanMessage("Which seal?")]
    shown = messages_read(messages)
    assert [message.type for message in shown] == ["human", "human", "ai", "human"]
    assert shown[0].text.startswith("Look.\n\n[left out 1 earlier message;")
    assert "SEAL-1" in recalled("SEAL-1", messages, 2000)


def test_an_image_without_words_goes_last_and_its_note_says_what_it_was() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    said = [HumanMessage("Plan a trip. " + WORDS, id="h"), AIMessage("Where to?", id="x")]
    said += [
        HumanMessage([image], id="image"),
        AIMessage(WORDS, id="y"),
        HumanMessage(WORDS, id="w"),
    ]
    messages = [*said, *(m for n in range(30) for m in look_round(n)), HumanMessage("Go on.")]
    assert "image" in [m.id for m in messages_read(messages, budget=4000)]
    note = next(m for m in messages_read(messages, budget=1800) if "left out" in m.text)
    assert "[no text]" in note.text
    name = note.text.partition(' "[no text]"')[0][-5:]
    assert recalled(name, messages, 900) == "human: [no text]"


@pytest.mark.parametrize("name", ["look", "recall"])
def test_a_preview_is_what_the_call_reads(name: str) -> None:
    given = [read_page, StructuredTool.from_function(lambda n: "", name=name, description="Ours.")]
    model, middleware = Recorder(calls=9), ContextMiddleware(budget=2000)
    ended = create_agent(model, given, middleware=[middleware], system_prompt="Read.").invoke(ASK)
    shown = middleware.preview(ended["messages"][:-1], SystemMessage("Read."), given)
    assert list(shown.messages) == model.prompts[-1][1:]


def test_a_long_text_in_a_block_of_another_kind_counts() -> None:
    asked, result = look_round(1)
    block = {"type": "search_result", "content": [{"type": "text", "text": f"{WORDS} " * 100}]}
    messages = [HumanMessage("Look."), asked, result.model_copy(update={"content": [block]})]
    shown = ContextMiddleware(budget=4000).preview(messages)
    assert shown.messages[-1] is messages[-1], "no empty text is added: providers refuse it"
    assert shown.audit.over_by > tokens_in(WORDS) * 80


def test_a_bound_model_answers_without_tools() -> None:
    model = FakeListChatModel(responses=["fine"])
    for bound in (model.with_config(tags=["x"]), model.with_retry()):
        agent = create_agent(cast(Any, bound), [], middleware=[ContextMiddleware()])
        assert agent.invoke(ASK)["messages"][-1].text == "fine"


def test_a_graph_whose_state_is_a_model_recalls() -> None:
    tools, state = ToolNode(ContextMiddleware().tools), create_model("State", messages=list[Any])
    graph = StateGraph(state).add_node("tools", tools).add_edge(START, "tools").compile()
    asked = {"name": "recall", "args": {"id": "took"}, "id": "r"}
    messages = [*look_round(1), AIMessage("", tool_calls=[asked])]
    assert "OX-0001" in graph.invoke({"messages": messages})["messages"][-1].text
    shaped = ContextMiddleware(budget=900)
    assert shaped.hook(state(messages=messages)) == shaped.hook({"messages": messages})


def test_of_several_messages_each_gets_its_share_of_the_room() -> None:
    messages = [message for number in (1, 2) for message in look_round(number, 400)]
    names = names_of(messages)
    shown = recalled(f"{names[1]} {names[3]}", messages, 300)
    assert "OX-0001" in shown
    assert "OX-0002" in shown
    assert tokens_in(shown) < 400


def test_of_a_very_long_thread_the_beginning_and_the_recent_messages_are_scored() -> None:
    messages = [HumanMessage("Look."), *(m for n in range(RECENT) for m in look_round(n, 1))]
    _, facts = load_scorer("need").read(messages)
    assert "Look" in facts.task
    assert facts.results <= RECENT // 2


def test_messages_of_one_id_and_calls_of_one_id_are_all_read() -> None:
    messages: list[Any] = [HumanMessage("Look at all.", id="x")]
    for number in range(12):
        asked, result = look_round(number, 60, "call_0")
        calls = AIMessage("", tool_calls=2 * asked.tool_calls)
        messages += [m.model_copy(update={"id": "x"}) for m in (calls, result, result)]
        shown = ContextMiddleware(budget=2500).preview(messages)
        assert [m.type for m in shown.messages[-3:]] == ["ai", "tool", "tool"]
        assert orphans_in(shown.messages) == 0
    assert not shown.audit.over_by


@pytest.mark.parametrize("lengths", [(250_000, 0), (0, 250_000)], ids=["request", "call"])
def test_a_huge_request_or_call_costs_little(lengths: tuple[int, int]) -> None:
    request, text = (
        "".join(f"row {i} holds {i * 7}\n" for i in range(length)) for length in lengths
    )
    messages = [HumanMessage(request), *look_round(1), *look_round(3)]
    cast(AIMessage, messages[1]).tool_calls[0]["args"] = {"text": text}
    started = time.process_time()
    messages_read(messages, budget=4000)
    assert time.process_time() - started < 1.0


def test_a_tool_that_is_given_as_a_mapping_keeps_its_name_recall() -> None:
    model = Recorder(calls=0)
    given = {"type": "function", "function": {"name": "recall", "parameters": {"type": "object"}}}
    bound: list[Any] = []
    object.__setattr__(model, "bind_tools", lambda tools, **_: bound.extend(tools) or model)
    create_agent(model, [given], middleware=[ContextMiddleware()]).invoke(ASK)
    assert given in bound
    assert [one.name for one in bound if one is not given] == ["recall_message"]


def test_a_person_approves_edits_and_rejects_calls() -> None:
    model = Recorder(calls=4, prompts=[])
    asks: Any = HumanInTheLoopMiddleware(interrupt_on={"read_page": True})
    agent = agent_of(model, [ContextMiddleware(budget=1500), asks], checkpointer=InMemorySaver())
    agent.invoke(ASK, THREAD)
    edited = {"type": "edit", "edited_action": {"name": "read_page", "args": {"number": 9}}}
    for decision in ({"type": "approve"}, edited, {"type": "reject", "message": "no"}):
        out = agent.invoke(Command(resume={"decisions": [decision]}), THREAD)
    out = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert out["messages"][-1].text == "done"
    assert size_of(model.prompts[-1]) < 0.5 * size_of(out["messages"])
    assert any("no" in m.text for m in model.prompts[-1] if isinstance(m, ToolMessage))


def test_without_the_scorer_that_ships_words_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = working_thread()
    by_words = messages_read(thread, budget=2000, need="")

    def missing(name: str) -> Any:
        raise UserError(f"no checkpoint '{name}'")

    monkeypatch.setattr(planner, "load_scorer", missing)
    assert messages_read(thread, budget=2000) == by_words
    with pytest.raises(UserError, match="no checkpoint 'mine'"):
        ContextMiddleware(need="mine")


def test_an_image_of_a_result_comes_back_with_it() -> None:
    image = {"type": "image", "base64": "A" * 400, "mime_type": "image/png"}

    @tool
    def look(number: int) -> list[Any]:
        """Look at a page."""
        return [{"type": "text", "text": WORDS}, image]

    name = names_of([ToolMessage("", tool_call_id="call-0")])[0]
    model = Scripted.of([("look", {"number": 1}), ("recall", {"id": name})], "done")
    memory = ContextMiddleware(budget=8000, max_new_result=50)
    agent = create_agent(model, [look], middleware=[memory])
    recalled_result = agent.invoke(ASK)["messages"][-2]
    assert recalled_result.content == [{"type": "text", "text": WORDS}, image]


LOG = "\n".join(f"[{i}/900] Compiling object_{i}.cpp" for i in range(900))
USERS = json.dumps({"users": [{"id": i, "is_active": bool(i % 7)} for i in range(3000)]})
ARTICLE = "\n\n".join(
    f"The harbour was quiet when the committee met on {day} evening. Supporters of the new breakwater "
    "said that it would protect the fleet from winter storms, while its opponents feared that it would "
    "change the currents. The mayor told the meeting that the engineers had persuaded her."
    for day in ("Monday", "Tuesday", "Thursday", "Friday", "Sunday")
)


@pytest.mark.parametrize(
    ("ask", "text", "needed"),
    [
        ("Why did it fail?", f"{LOG}\nld: error: undefined symbol", "ld: error: undefined symbol"),
        ("Which users left?", USERS, "2999"),
        (
            "Summarise it.",
            ARTICLE,
            "Sunday evening. Supporters of the new breakwater said that it would",
        ),
    ],
)
def test_a_new_result_shows_its_ends_and_its_prose_where_nothing_else_is_in_it(
    ask: str, text: str, needed: str
) -> None:
    asked, result = look_round(1)
    messages = [HumanMessage(ask), asked, result.model_copy(update={"content": text})]
    assert needed in messages_read(messages, budget=8000)[-1].text


def test_the_note_of_a_huge_result_counts_all_that_no_model_reads() -> None:
    asked, result = look_round(1)
    huge = "\n".join(f"line {i}" for i in range(30_000))
    messages = [HumanMessage("Go."), asked, result.model_copy(update={"content": huge})]
    how: dict[str, Any] = {"kind": "full", "budget": 400_000, "max_new_result": 100_000}
    note = messages_read(messages, **how)[-1].text.rpartition("[cut ")[2]
    assert int(note.split()[0]) > tokens_in(huge) / 3


PAGE = "<html><head><title>T</title></head><body><h1>Prices</h1>" + "".join(
    f'<p class="row" data-n="{i}">Item {i} costs <b>{i} coins</b>.</p>' for i in range(160)
)


def test_of_html_the_visible_text_is_read_and_the_note_says_what_is_missing() -> None:
    asked, result = look_round(1)
    messages = [HumanMessage("Prices?"), asked, result.model_copy(update={"content": PAGE})]
    shown = messages_read(messages, budget=8000)[-1].text
    assert "Item 7 costs 7 coins" in shown
    assert "<" not in shown
    assert "[cut " in shown
    assert PAGE in recalled(names_of(messages)[-1], messages, 4000)
    assert messages_read(messages, budget=8000, keep_whole=["look"])[-1].text == PAGE
    short = result.model_copy(
        update={"content": f"{PAGE[:400]}</p>"}
    )  # its attributes may be needed
    assert messages_read([*messages[:2], short], budget=8000)[-1].text == short.content
