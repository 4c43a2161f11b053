"""One tab's conversation: it keeps to its own memory, and takes files."""

import pytest

from stategate.graph import load_config
from stategate.stores.errors import UserError
from stategate.ui.app.agents import Agents
from stategate.ui.app.tabs.common import App
from stategate.ui.app.tabs.qa import sources_of

ZORB = "# Zorbling\n\nThe zorbling is a lamp made in Quentin Bay. It hums at 440 hertz.\n"


@pytest.fixture
def server(tmp_path, home):
    where = f"checkpoints={tmp_path / 'checkpoints.sqlite'}"
    config = load_config("webshop", ["embedder.kind=hashing", "updater.kind=none", where])
    return App(Agents(config))


def add(talk, *files):
    """Add files to a conversation; returns what was added."""
    return talk.add_files([str(file) for file in files])


@pytest.fixture
def talk(server, tmp_path):
    made = server.of("one").conversation
    file = tmp_path / "zorb.md"
    file.write_text(ZORB)
    add(made, file)
    return made


def test_a_question_over_a_file_and_the_a_new_conversation(talk, server):
    result = talk.ask("At how many hertz does the zorbling hum?")
    assert "440" in result.decision.action
    assert [m["role"] for m in talk.messages] == ["user", "assistant"]
    chunks = talk.config.env.source(result.observation, talk.graph.agent.resources).all()
    assert "zorb.md" in sources_of(result.context, chunks)
    assert server.of("one").conversation is talk
    assert server.of("two").conversation.messages == []
    talk.restart()
    assert talk.messages == []


def test_choices_that_do_not_fit_are_refused_and_forgotten(talk):
    before = dict(talk.settings)
    with pytest.raises(UserError):
        talk.choose(actor="nobody")
    assert talk.settings == before
    with pytest.raises(UserError, match="empty"):
        talk.ask("  ")


def test_files_that_cannot_be_read_are_told_and_a_second_file_is_added(talk, tmp_path):
    bad = tmp_path / "bad.pdf"
    bad.write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"bad\.pdf"):
        add(talk, bad)
    more = tmp_path / "more.txt"
    more.write_text("Gloops live in Zanzibar.")
    added = add(talk, more, bad)
    assert added.added == ["more.txt"]
    assert [skipped.id for skipped in added.skipped] == ["bad.pdf"]


def test_a_server_that_answers_questions_uses_its_own_stores_in_its_tabs(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))
    memory, traces = str(tmp_path / "m.sqlite"), str(tmp_path / "t.sqlite")
    config = load_config(
        "cluster",
        [
            "embedder.kind=hashing",
            "env.vectors=null",
            f"checkpoints={tmp_path / 'c.sqlite'}",
            f"context.memory.place.url={memory}",
            f"memory=[conversation, {{kind: long_term, place: {{url: '{memory}'}}}},"
            f" {{kind: trace, path: '{traces}'}}]",
        ],
    )
    agents = Agents(config)
    talk = App(agents).of("one").conversation
    talk.ask("My boat is called Halcyon.")
    (fact,) = agents.memory.open().facts(agents.memory.namespace)
    assert fact.question == "My boat is called Halcyon."
    assert str(agents.places().traces) == traces
    assert not (tmp_path / "home" / "long_term.sqlite").exists()
