"""``create_agent`` with the middleware: three lines make any agent's prompts small and cache-stable.

    OPENAI_API_KEY=… python -m examples.agent_with_memory "Which planet here has the most moons?"

Without a key a scripted model takes its place, so that the example runs anywhere.
"""

import os
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from examples.scripted import Scripted
from stategate.graph.middleware import ContextMiddleware

PLANETS = {"mars": 2, "earth": 1, "jupiter": 97, "saturn": 274, "neptune": 16}


@tool
def read_about(planet: str) -> str:
    """Return the encyclopedia's long article about a planet."""
    filler = "\n".join(f"Paragraph {i}: much has been written about {planet}." for i in range(80))
    return f"{filler}\n{planet.title()} has {PLANETS[planet.lower()]} known moons.\n{filler}"


def main(question: str, model: Any = None) -> str:
    """Ask the agent, print what each call read, and return its answer."""
    if model is None and os.environ.get("OPENAI_API_KEY"):
        model = "openai:gpt-5-mini"
    calls = [("read_about", {"planet": planet}) for planet in PLANETS]
    model = model or Scripted.of(calls, "Saturn, with 274 known moons.")
    memory = ContextMiddleware(kind="compress", budget=4000)
    agent: Any = create_agent(
        model, [read_about], middleware=[memory], checkpointer=InMemorySaver()
    )
    inputs = {"messages": [{"role": "user", "content": question}]}
    config = {"configurable": {"thread_id": "planets"}}
    for event in agent.stream(inputs, config, stream_mode="custom"):
        if event["type"] == "stategate.context":
            print(f"{event['tokens_before']:6,} tokens of history, {event['tokens_after']:6,} read")
    answer = agent.get_state(config).values["messages"][-1].text
    print(answer)
    return str(answer)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "Which planet here has the most moons?")
