"""The Memory tab without a browser: wishes stand first, and a search says why it shows what it does."""

import gradio as gr

from stategate.graph import load_config
from stategate.nodes.models.embedders import HashingEmbedder
from stategate.nodes.retrieval.remember import Memory
from stategate.ui.app.agents import Agents
from stategate.ui.app.tabs.memory import MemoryTab


def test_wishes_stand_first_and_a_search_says_why(home):
    agents = Agents(load_config("ui", ["embedder.kind=hashing", "updater.kind=none"]))
    place = agents.memory.namespace
    memory = Memory(embedder=HashingEmbedder(), user=place.user, agent=place.agent)
    for text in ("Always answer in metric units.", "My boat is called Albatros.", "I keep bees."):
        memory.remember(text)
    with gr.Blocks():
        tab = MemoryTab(agents)
    said = [row[1] for row in tab.show()[tab.facts]["value"]]
    assert said == ["Always answer in metric units.", "I keep bees.", "My boat is called Albatros."]
    found = tab.look(f"{place.user} / {place.agent}", "What is my boat called?")[tab.facts]
    assert found["value"][0][1] == "My boat is called Albatros."
    assert found["value"][0][-1]
