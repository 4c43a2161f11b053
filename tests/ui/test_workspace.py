"""What a browser tab works with: its moves take turns, and a mistake changes nothing."""

import threading

import pytest

from stategate.graph import Session, load_config
from stategate.stores.errors import UserError
from stategate.ui.app.agents import Agents
from stategate.ui.app.tabs.common import App

PLAIN = ["updater.kind=none", "embedder.kind=hashing", "context.kind=full", "memory=[short_term]"]


@pytest.fixture
def server(tmp_path, home):
    """A server's workspaces."""
    config = load_config("webshop", [*PLAIN, f"checkpoints={tmp_path / 'checkpoints.sqlite'}"])
    return App(Agents(config))


def test_moves_take_turns_and_playing_out_can_be_stopped(server, monkeypatch):
    tab = server.of("one")
    tab.start({"goal": 3})
    taken, go_on, step = threading.Event(), threading.Event(), Session.step

    def slow(session, on_text=None):
        taken.set()
        go_on.wait(10)
        return step(session, on_text)

    monkeypatch.setattr(Session, "step", slow)
    endings = []
    playing = threading.Thread(target=lambda: endings.append(tab.play_out({"kind": "full"}, None)))
    playing.start()
    taken.wait(10)
    tab.is_stopping = True
    go_on.set()
    playing.join()
    assert (endings[0]["steps"], endings[0]["done"]) == (1, False)
    assert tab.step().step == 0
    assert len(tab.trail) == 1


def test_a_mistake_leaves_the_episode_as_it_was(server):
    tab = server.of("one")
    with pytest.raises(UserError, match="reload"):
        server.of("")
    with pytest.raises(UserError, match="no episode yet"):
        tab.step()
    tab.start({"goal": 3})
    for wrong in (lambda: tab.start({"goal": 10**6}), lambda: tab.step("click[nothing]"), tab.back):
        with pytest.raises(UserError):
            wrong()
    lost = load_config("alfworld", ["env.data=/nonexistent"])
    with pytest.raises(UserError, match="no folder"):
        tab.configure(lost)
    assert tab.session.values["episode"]["goal"] == 3
    assert tab.trail == []


def test_the_last_update_changes_nothing(server):
    """Gradio sends a generator's last update twice: the second would undo what came in between."""
    import gradio as gr

    from stategate.ui.app.tabs.episode import EpisodeTab

    with gr.Blocks():
        server.tab = gr.Textbox()
        episode = EpisodeTab(server, gr.HTML())
    for move in (episode.load, episode.take_step):
        assert str(move("one")[episode.page])
    *_, drawn, last = episode.auto_run("one")
    assert str(drawn[episode.page])
    assert list(last.values()) == [gr.skip()]


def test_choices_and_files_that_do_not_fit_are_refused_and_forgotten(server, tmp_path):
    talk = server.of("one").conversation
    before = talk.config
    bad = tmp_path / "bad.pdf"
    bad.write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"bad\.pdf"):
        talk.add_files([str(bad)])
    with pytest.raises(UserError):
        talk.choose(actor="nobody")
    with pytest.raises(UserError, match="no corpus or folder 'lost'"):
        talk.choose(corpus="lost")
    assert talk.config == before
    with pytest.raises(UserError, match="empty"):
        talk.ask("  ")


def test_a_server_that_answers_questions_uses_its_own_stores_in_its_tabs(tmp_path, home):
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
    (fact,) = agents.memory.open().facts(agents.memory.owner)
    assert fact.text == "My boat is called Halcyon."
    assert str(agents.traces) == traces
    assert not (home / "long_term.sqlite").exists()
