"""Equal thread ids: in one process after another, at once, and of two users."""

import pytest

from stategate.graph import Session, build_graph, load_config
from stategate.stores.errors import UserError
from stategate.stores.home import this_user, thread_of
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.trace_store import TraceStore
from tests.kit import qa_settings, run_processes

THINGS = ("brinicle", "snailfish", "geyser")


@pytest.fixture
def settings(tmp_path, home):
    folder = tmp_path / "texts"
    folder.mkdir()
    for thing in THINGS:
        text = f"# {thing.title()}\n\nA {thing} is a thing of the sea."
        (folder / f"{thing}.md").write_text(text)
    made = qa_settings(folder, tmp_path / "memory.sqlite")
    made["memory"].append({"kind": "trace", "path": str(tmp_path / "traces.sqlite")})
    return {**made, "checkpoints": str(tmp_path / "checkpoints.sqlite")}


def _ask(settings, things, user):
    graph = build_graph(load_config(settings))
    for thing in things:
        Session(graph, thread_of(user, "t"), user=user).ask(f"I saw a {thing}.")


def asked(settings, user=None):
    memory = open_long_term(settings["memory"][1]["place"]["url"])
    facts = memory.facts(user or this_user())
    return sorted(fact.text.partition(" (about: ")[0] for fact in facts)


def test_two_at_once_on_one_thread_lose_no_turn(settings):
    assert run_processes(_ask, [(settings, THINGS, this_user())] * 2) == [0, 0]
    assert len(asked(settings)) == 6
    episodes = TraceStore(settings["memory"][2]["path"]).episodes()
    assert sorted(row["instruction"] for row in episodes) == asked(settings)
    assert len({row["episode_id"] for row in episodes}) == 6
    assert {row["thread_id"] for row in episodes} == {"t"}
    graph = build_graph(load_config(settings))
    values = graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert values["episodes"] == 6
    assert len(values["events"]) == 12


def test_the_same_thread_of_another_user_is_another_thread(settings):
    _ask(settings, THINGS[:1], user="alice")
    _ask(settings, THINGS[1:2], user="bob")
    graph = build_graph(load_config(settings))
    for user, thing in (("alice", "brinicle"), ("bob", "snailfish")):
        thread = {"configurable": {"thread_id": thread_of(user, "t")}}
        words = str(graph.get_state(thread).values["messages"])
        assert thing in words
        assert not any(other in words for other in THINGS if other != thing)
        assert asked(settings, user) == [f"I saw a {thing}."]
    me = this_user()
    threads = [("a", "b/c"), ("a/b", "c"), (me, "user=a/b/c"), ("default", "t"), (me, "t")]
    assert len({thread_of(user, name) for user, name in threads}) == 5


@pytest.mark.parametrize("name", ["a\0b", "a\udcffb"])
def test_a_name_that_no_store_takes_is_refused_in_one_line(name):
    graph = build_graph({"actor": "rule", "max_steps": 2})
    for ask in (
        lambda: graph.invoke({"task": {"goal": 3}}, {"configurable": {"thread_id": name}}),
        lambda: Session(graph, name),
    ):
        with pytest.raises(UserError, match="name another one"):
            ask()
