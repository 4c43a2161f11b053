"""One tab's conversation: it goes on after a reload, keeps to its own memory, and takes files."""

import pytest

from stategate.graph import load_config
from stategate.stores.errors import UserError
from stategate.stores.home import this_user
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.memory.records import Namespace
from stategate.ui.app.agents import Agents
from stategate.ui.app.conversation import Conversations
from stategate.ui.app.render.context import render_sources
from stategate.ui.app.render.memories import layout, render_entities, render_facts, render_rows
from stategate.ui.app.tab_sessions import TabSessions

ZORB = "# Zorbling\n\nThe zorbling is a lamp made in Quentin Bay. It hums at 440 hertz.\n"


@pytest.fixture
def open_server(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))

    def open_():
        where = f"checkpoints={tmp_path / 'checkpoints.sqlite'}"
        config = load_config("webshop", ["embedder.kind=hashing", "updater.kind=none", where])
        return Conversations(
            Agents(config), lambda tab: config, TabSessions(tmp_path / "tabs.sqlite")
        )

    return open_


def quiet(*facts):
    """Hear of progress and say nothing."""


@pytest.fixture
def talk(open_server, tmp_path):
    made = open_server().of("one")
    file = tmp_path / "zorb.md"
    file.write_text(ZORB)
    made.add_files([str(file)], quiet)
    return made


def test_a_question_over_a_file_and_the_conversation_after_a_restart(talk, open_server):
    result = talk.ask("At how many hertz does the zorbling hum?")
    assert "440" in result.decision.action
    assert [m["role"] for m in talk.messages] == ["user", "assistant"]
    chunks = talk.config.env.source(result.observation, talk.graph.agent.bound().resources).all()
    drawn = render_sources(result.context, 2000, chunks, "recall", 1.0, "nearest: <b>x</b>")
    assert "nearest: &lt;b&gt;x" in drawn
    assert "zorb.md" in drawn
    assert "This is the first turn" in drawn
    again = open_server().of("one")
    assert again.messages == talk.messages
    assert again.settings["corpus"] == talk.settings["corpus"]
    again.restart()
    assert again.messages == []


def test_a_question_that_hangs_is_left_with_the_turns_before_it(talk):
    talk.ask("Where is the zorbling made?")
    before, thread = talk.messages, talk.thread
    talk.abandon()
    assert talk.thread != thread
    assert talk.messages == before
    assert "440" in talk.ask("At how many hertz does the zorbling hum?").decision.action
    assert len(talk.messages) == 4


def test_tabs_have_memories_of_their_own(talk, open_server):
    talk.ask("Where is the zorbling made?")
    other = open_server().of("two")
    assert other.settings["user"] != talk.settings["user"]
    memory = open_long_term()
    assert len(memory.facts(Namespace(talk.settings["user"]))) == 1
    assert memory.facts(Namespace(other.settings["user"])) == []


def test_tabs_of_one_browser_share_a_memory_and_two_browsers_none(open_server, tmp_path):
    server = open_server()
    owners = {"one": "a", "two": "a", "three": "b"}
    for tab, owner in owners.items():
        TabSessions(tmp_path / "tabs.sqlite").write(f"{tab}/owner", {"owner": owner})
    whose = [server.of(tab).config.memory[1].place.user for tab in owners]
    assert whose[0] == whose[1] != whose[2]
    assert this_user() not in whose


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
        talk.add_files([str(bad)], quiet)
    more = tmp_path / "more.txt"
    more.write_text("Gloops live in Zanzibar.")
    seen = []
    changes, passages = talk.add_files([str(more), str(bad)], lambda *facts: seen.append(facts))
    assert changes.added == ["more.txt"]
    assert [skipped.id for skipped in changes.skipped] == ["bad.pdf"]
    assert passages == 2
    assert {what for what, _, _ in seen} >= {"reading more.txt", "embedding passages"}

    def stop(*facts):
        raise UserError("stopped")

    with pytest.raises(UserError, match="stopped"):
        talk.add_files([str(more)], stop)


def test_a_fact_is_edited_found_by_its_new_words_and_keeps_where_it_came_from(talk):
    talk.ask("At how many hertz does the zorbling hum?")
    memory, mine = open_long_term(), Namespace(talk.settings["user"])
    embedder = talk.graph.agent.bound().resources.embedder
    [fact] = memory.facts(mine)
    how = {"embed": embedder.embed, "embedder": embedder.name}
    new = {"question": "Who paints gloops?", "answer": "Ada paints gloops.", "salience": 0.9}
    memory.edit(mine, fact.id, **new, **how)
    [after] = memory.facts(mine)
    assert (after.answer, after.turns) == ("Ada paints gloops.", fact.turns)
    vector = embedder.embed(["Who paints gloops?"])[0]
    assert memory.search(mine, vector, embedder.name, 1, 0.0)[0].score > 0.5
    for wrong in ({"answer": " "}, {"salience": 2.0}):
        with pytest.raises(UserError):
            memory.edit(mine, fact.id, **{**new, **wrong}, **how)
    with pytest.raises(UserError, match="no fact"):
        memory.edit(Namespace("somebody else"), fact.id, **new, **how)


def test_memories_are_drawn_safely(talk):
    from stategate.stores.bank.bank import Row
    from stategate.stores.memory.extraction import Entity, Relation
    from stategate.stores.memory.recall import SIGNALS
    from stategate.stores.memory.records import Candidate, Fact
    from stategate.ui.app.render.memories import render_timeline, render_why

    evil = "<img src=x>"
    turn = {"thread_id": evil, "step": 2, "at": 0.0}
    fact = Fact(7, evil, evil, 0.5, True, 0.0, 0.0, 2, 0.3, (8,), (turn,))
    drawn = render_facts([fact], 3)
    assert "<img" not in drawn
    assert 'data-drop="7"' in drawn
    assert "asked 2×" in drawn
    why = render_why([Candidate(7, evil, 1.0, dict.fromkeys(SIGNALS, 0.5), "budget: 9 tokens")])
    assert "<img" not in why
    assert "budget: 9 tokens" in why
    state = {
        "subject": evil,
        "relation": "lives in",
        "value": evil,
        "negated": False,
        "valid_from": 0.0,
        "valid_to": 86400.0,
        "closed_by": 8,
        "fact_id": 7,
    }
    line = render_timeline([state])
    assert "<img" not in line
    assert "1970-01-02 00:00 (#8)" in " ".join(line.split())
    assert "#8" in drawn
    a, b = Entity("location", evil), Entity("person", "Ada")
    graph = render_entities([a, b], [Relation(b, "lives_in", a)], "Ada")
    assert "<img" not in graph
    assert graph.count("<circle") == 2
    assert graph.count("<line") == 1
    row = Row("r1", evil, 3.0, {"state": evil, "action": evil, "experience": evil, "episode": "e"})
    rows = render_rows([row], 1, {"kind": "state"}, {"r1": 0.5})
    assert "<img" not in rows
    assert "episode e" in rows


@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_a_graphs_layout_is_inside_and_the_same_each_time(count):
    edges = [(i, i + 1) for i in range(count - 1)]
    first = layout(count, edges, 600, 400)
    assert first == layout(count, edges, 600, 400)
    assert len(first) == count
    assert all(0 <= x <= 600 and 0 <= y <= 400 for x, y in first)
    assert len(set(first)) == count


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
    talk = Conversations(agents, lambda tab: config, None).of("one")
    talk.ask("My boat is called Halcyon.")
    (fact,) = agents.memory().facts(Namespace(talk.settings["user"]))
    assert fact.question == "My boat is called Halcyon."
    assert str(agents.places().traces) == traces
    assert not (tmp_path / "home" / "long_term.sqlite").exists()
