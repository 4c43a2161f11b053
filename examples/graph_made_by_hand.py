"""A graph made by hand: the same memory as a hook before the model.

python -m examples.graph_made_by_hand
"""

from typing import Any

from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from examples.scripted import Scripted
from stategate.graph.middleware import ContextMiddleware


@tool
def read_log(day: int) -> str:
    """Return the log of a day."""
    lines = [f"2026-03-{day:02d} 10:{i:02d}:00 INFO worker: nothing happened" for i in range(60)]
    lines[30] = f"2026-03-{day:02d} 10:30:00 ERROR pump: pressure fell to {day} bar"
    return "\n".join(lines)


def make_graph(model: Any) -> Any:
    """Return the compiled graph: model and tools in turn, until the model calls none."""
    memory = ContextMiddleware(kind="compress", budget=3000)

    def call_model(state: MessagesState) -> dict[str, Any]:
        read = memory.hook(state)["llm_input_messages"]
        print(f"{len(state['messages'])} messages, {sum(len(m.text) for m in read):,} letters read")
        return {"messages": [model.invoke(read)]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", call_model)
    builder.add_node("tools", ToolNode([read_log, *memory.tools]))  # with `recall`
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile()


def main() -> str:
    """Ask the graph and return its answer."""
    calls = [("read_log", {"day": day}) for day in range(1, 8)]
    model = Scripted.of(calls, "Lowest on day 1, at 1 bar.")  # or init_chat_model(…).bind_tools(…)
    question = "On which day was the error of the pump at the lowest pressure?"
    out = make_graph(model).invoke({"messages": [{"role": "user", "content": question}]})
    print(out["messages"][-1].text)
    return str(out["messages"][-1].text)


if __name__ == "__main__":
    main()
