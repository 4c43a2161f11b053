"""Memory beside conversations: worlds that teach the next task, statements by a model, texts."""

import json
from types import SimpleNamespace

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from graph.build import build_graph
from graph.config import load_config
from nodes.models.embedders import Hashing
from nodes.observe.retriever import CorpusRetriever
from nodes.retrieval.statements import ModelStatements, statements_of
from stores.errors import UserError
from stores.memory.long_term import open_long_term
from stores.memory.records import Namespace


def world(tmp_path, user):
    place = {"url": str(tmp_path / "memory.sqlite"), "user": user}
    values = {
        "env": {"kind": "webshop", "data": "sample"}, "embedder": "hashing",
        "context": {"kind": "remembered", "budget": 2000, "memory": {"place": place}},
        "actor": {"kind": "rule"}, "max_steps": 20,
        "memory": [{"kind": "short_term"}, {"kind": "long_term", "place": place, "extractor": "rules"}],
    }  # fmt: skip
    return build_graph(load_config(values))


def contexts(graph, thread):
    where = {"configurable": {"thread_id": thread}}
    task = {"task": {"env": "webshop", "goal": 1}}
    seen = [
        update["build_context"]["context"]
        for update in graph.stream(task, where, stream_mode="updates")
        if "build_context" in update
    ]
    return "\n".join(m.content for context in seen for m in context.messages)


def test_what_a_task_settled_serves_the_next_one_of_the_same_user_alone(tmp_path):
    graph = world(tmp_path, "ana")
    assert "Remembered from before" not in contexts(graph, "first")
    settled = [
        f.question for f in open_long_term(str(tmp_path / "memory.sqlite")).facts(Namespace("ana"))
    ]
    assert settled
    assert all(" = " in text for text in settled)
    again = contexts(graph, "second")
    assert "Remembered from before" in again
    assert settled[0][:20] in again
    assert "Remembered from before" not in contexts(world(tmp_path, "bo"), "third")


def reader(*replies):
    model = GenericFakeChatModel(messages=iter([AIMessage(reply) for reply in replies]))
    return ModelStatements(SimpleNamespace(llm=model, llm_params=None))


def test_a_models_statements_are_read_with_times_and_what_it_makes_up_is_left_out():
    rows = [
        {"subject": "Ana", "relation": "lives in", "value": "Oslo", "negated": False,
         "is_state": True, "when": "last week"},
        {"subject": "Ana", "relation": "owns", "value": "yacht", "negated": False,
         "is_state": True, "when": ""},
    ]  # fmt: skip
    state = reader(json.dumps({"statements": rows}))
    [only] = state("I moved to Oslo last week.", "Ana", 1_685_020_440.0)
    assert (only.subject, only.relation, only.value, only.is_state) == (
        "Ana",
        "lives in",
        "Oslo",
        True,
    )
    assert only.valid_from is not None
    assert (state.usage.calls, state.fallbacks) == (1, 0)


@pytest.mark.parametrize("reply", ["no JSON", '{"statements": 3}', "[]"])
def test_where_a_models_reply_cannot_be_read_the_rules_read_the_turn(reply):
    state = reader(reply)
    [only] = state("I live in Oslo.", "Ana", 0.0)
    assert only.value == "Oslo"
    assert state.fallbacks == 1


def test_statements_by_a_model_need_one():
    with pytest.raises(UserError, match="model"):
        statements_of("model")


def test_a_retriever_over_texts_needs_no_corpus_and_shares_models():
    texts, titles = ["The boat is red.", "The cat sleeps."], ["Boat", "Cat"]
    retriever = CorpusRetriever.from_texts(texts, titles, k=1, embedder=Hashing())
    [found] = retriever.invoke("Where is the cat?")
    assert (found.page_content, found.metadata["title"]) == ("The cat sleeps.", "Cat")
    [red] = CorpusRetriever.from_texts(
        texts, titles, k=1, embedder=Hashing(), where={"title": "Boat"}
    ).invoke("the cat")
    assert red.metadata["title"] == "Boat"
    assert CorpusRetriever.from_texts([], embedder=Hashing()).invoke("x") == []
    with pytest.raises(UserError, match="titles"):
        CorpusRetriever.from_texts(texts, ["one"], embedder=Hashing())
