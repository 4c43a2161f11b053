"""The QA agent as people and graphs call it: conversations, memory, crashes."""

import asyncio

import pytest
import yaml
from langchain_core.messages import HumanMessage

from stategate.envs.qa.questions import sample_folder
from stategate.graph import build_graph, load_config
from stategate.nodes.build_context.recall import followed_turn
from stategate.nodes.protocols import BuiltContext
from stategate.stores.tokens import count_tokens
from stategate.stores.traces import Event
from tests.kit import qa_settings

TEXTS = {
    "brinicle.md": "# Brinicle\n\nA brinicle is a tube of ice. It grows below the sea ice of "
    "Antarctica. Hugh Miller filmed a brinicle in 2011.",
    "stones.md": "# Sailing stones\n\nSailing stones move over a playa in California. Thin ice of "
    "six millimetres pushes them. They leave long trails.",
}


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "texts"
    place.mkdir()
    for name, text in TEXTS.items():
        (place / name).write_text(text)
    return place


@pytest.fixture
def settings(tmp_path, folder):
    """Return a config as values: extractive answers, hashing embedder, all memories."""
    return qa_settings(folder, tmp_path / "memory.sqlite")


@pytest.fixture
def graph(settings):
    return build_graph(load_config(settings))


def asked(graph, question, thread="t", user="ana", **more):
    task = {"task": {"question": question}}
    return graph.invoke(task, {"configurable": {"thread_id": thread, "user_id": user}}, **more)


def answer(out):
    return out["action"].removeprefix("answer[").removesuffix("]")


def built(graph, question, thread="t") -> BuiltContext:
    return asked(graph, question, thread, output_keys="context")


def test_a_question_is_answered_from_the_corpus_and_its_reward_comes_from_the_gold(graph):
    gold = "Hugh Miller filmed a brinicle in 2011."
    task = {"question": "Who filmed a brinicle?", "answer": gold}
    out = graph.invoke({"task": task}, {"configurable": {"thread_id": "g"}})
    assert "Hugh Miller" in answer(out)
    assert (out["done"], out["reward"]) == (True, 1.0)
    assert asked(graph, "Who filmed a brinicle?")["reward"] == 0.0


def test_without_checkpoints_a_conversation_answers_too(settings):
    graph = build_graph(load_config(settings), checkpointer=False)
    assert "Hugh Miller" in answer(asked(graph, "Who filmed a brinicle?"))


def test_a_follow_up_is_searched_with_the_subject_of_the_conversation(graph):
    asked(graph, "What is a brinicle?")
    context = built(graph, "And who filmed it?")
    assert "About: brinicle\n" in context.text
    kinds = [piece.kind for piece in context.pieces]
    assert kinds.index("history") < kinds.index("passage")
    assert "Conversation so far" not in built(graph, "And who filmed it?", "another").text


def test_without_a_user_memory_is_the_threads_own(graph):
    asked(graph, "My boat is called Albatros.", "monday", user=None)
    assert "Albatros" in answer(asked(graph, "What is my boat called?", "monday", user=None))
    assert "Albatros" not in answer(asked(graph, "What is my boat called?", "tuesday", user=None))
    assert "Albatros" not in answer(asked(graph, "What is my boat called?", "w", user="ana"))


def test_what_was_recalled_and_why_the_rest_was_left_out_is_in_the_context(settings):
    settings["context"]["memory"]["facts"] = 1
    graph = build_graph(load_config(settings))
    for thread, said in enumerate(("My boat is called Albatros.", "My boat lies in Bergen.")):
        asked(graph, said, f"s{thread}")
    pieces = built(graph, "What about my boat?", "s9").pieces
    reasons = [piece.reason for piece in pieces if piece.kind == "fact"]
    assert reasons.count("") == 1
    assert any(reason.startswith("number: ") for reason in reasons)


def test_the_context_shows_history_then_memory_then_documents_within_the_budget(graph):
    for number in range(8):
        asked(graph, f"I saw {number + 2} stones move over a playa.", f"s{number % 3}")
    context = built(graph, "Which stones move over a playa?", "s1")
    kinds = [p.kind for p in context.pieces if p.text]
    order = [kinds.index(kind) for kind in ("history", "fact", "passage", "question")]
    assert order == sorted(order)
    assert sum(kind == "fact" for kind in kinds) <= 5
    assert context.tokens == count_tokens(context.text) <= 800


@pytest.mark.parametrize("words", ["?", "…" * 3000, "\ud800 lone", "word " * 5000, "<document>"])
def test_odd_questions_are_answered_within_the_budget(graph, words):
    assert built(graph, words).tokens <= 800


def test_it_talks_with_chat_clients_through_messages(graph):
    config = {"configurable": {"thread_id": "chat"}}
    out = graph.invoke({"messages": [HumanMessage("What is a brinicle?")]}, config)
    assert [m.type for m in out["messages"]] == ["human", "ai"]
    out = asyncio.run(graph.ainvoke({"messages": [("user", "Who filmed it?")]}, config))
    assert "Hugh Miller" in out["messages"][-1].text
    assert len(out["messages"]) == 4


def test_what_explains_its_own_pronouns_is_about_nothing_earlier():
    events = [Event("OBS", "Where do the hives of the beekeeper stand?", 0)]
    assert followed_turn("Is she kind?", events)
    for text in (
        "My physiotherapist is Dr. Ko; her phone is 4.",
        "I have a dog called Rex. It barks.",
        "What do I have to do this weekend?",
        "Yonas lost his job at the bank.",
        "Where do we live?",
    ):
        assert followed_turn(text, events) == ""


def test_marked_follow_ups_are_understood():
    text = sample_folder().with_name("follow_ups.yaml").read_text("utf-8")
    right = []
    for row in yaml.safe_load(text):
        events = []
        for step, (question, answer, *about) in enumerate(row["turns"]):
            said = followed_turn(question, events).lower()
            for words in about:
                right.append(any(w in said for w in words.split("|")) if words else not said)
            events += [Event("OBS", question, step), Event("ACT", answer, step)]
    assert sum(right) / len(right) >= 0.8
