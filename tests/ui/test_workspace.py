"""What a browser tab works with: it survives, it does not mix, and it can leave a step that hangs."""

import threading

import pytest

from stategate.graph import load_config
from stategate.stores.errors import UserError
from stategate.ui.app.agents import Agents
from stategate.ui.app.sessions import TabSessions
from stategate.ui.app.tabs.episode_view import draw
from stategate.ui.app.workspace import Workspaces
from tests.kit import updates

PLAIN = ["updater.kind=none", "embedder.kind=hashing", "context.kind=full", "memory=[short_term]"]


@pytest.fixture
def open_server(tmp_path, monkeypatch):
    """Return a function that makes a server's workspaces anew, over the same folder."""
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))

    def open_(*more):
        where = f"checkpoints={tmp_path / 'checkpoints.sqlite'}"
        config = load_config("webshop", [*PLAIN, where, *more])
        return Workspaces(config, Agents(config), TabSessions(tmp_path / "tabs"))

    return open_


def test_a_tab_is_found_again_with_its_steps_and_what_they_were_read_with(open_server):
    tab = open_server().of("one")
    tab.start({"goal": 3})
    tab.step()
    tab.swap({"context": {"kind": "query_rag", "budget": 150, "top_k": 2}})
    tab.step()
    again = open_server().of("one")
    assert [s.result.decision.action for s in again.trail] == [
        s.result.decision.action for s in tab.trail
    ]
    assert [s.result.context.text for s in again.trail] == [
        s.result.context.text for s in tab.trail
    ]
    assert again.config.context.kind == "query_rag"
    assert again.step().step == 2


def test_tabs_do_not_mix(open_server):
    server = open_server()
    first, second = server.of("one"), server.of("two")
    first.start({"goal": 1})
    second.start({"goal": 2})
    threads = [threading.Thread(target=tab.step) for tab in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert first.session.values["episode"]["goal"] == 1
    assert second.session.values["episode"]["goal"] == 2
    assert (len(first.trail), len(second.trail)) == (1, 1)
    assert server.of("one") is first
    with pytest.raises(UserError, match="reload"):
        server.of("")


def test_a_fork_keeps_its_past_and_cuts_its_future(open_server):
    tab = open_server().of("one")
    tab.start({"goal": 5})
    for _ in range(3):
        tab.step()
    before = tab.session
    tab.fork({"kind": "window", "budget": 300}, step=1)
    assert tab.session is not before
    assert len(tab.trail) == 1
    assert tab.config.context.kind == "window"
    tab.back()
    assert tab.session.values["steps"] == 0
    assert before.values["steps"] == 3


def test_a_step_that_hangs_is_left_and_never_seen_again(open_server, monkeypatch):
    tab = open_server().of("one")
    tab.start({"goal": 3})
    hanging, go_on = threading.Event(), threading.Event()
    slow = tab.session

    def hang():
        hanging.set()
        go_on.wait(10)
        return type(slow).step(slow)

    monkeypatch.setattr(slow, "step", hang)
    thread = threading.Thread(target=tab.step)
    thread.start()
    hanging.wait(10)
    with pytest.raises(UserError, match="a step is being taken"):
        tab.back()
    assert draw(tab).busy
    tab.abandon()
    tab.step()
    go_on.set()
    thread.join()
    assert len(tab.trail) == 1
    assert tab.session.values["steps"] == 1
    assert not draw(tab).busy


def test_a_mistake_leaves_the_episode_as_it_was(open_server):
    tab = open_server().of("one")
    with pytest.raises(UserError, match="no episode yet"):
        tab.step()
    tab.start({"goal": 3})
    for wrong in (lambda: tab.start({"goal": 10**6}), lambda: tab.act("click[nothing]"), tab.back):
        with pytest.raises(UserError):
            wrong()
    assert tab.session.values["episode"]["goal"] == 3
    assert tab.trail == []


def test_what_was_kept_for_a_plug_in_that_is_gone_begins_anew(tmp_path, open_server):
    open_server().of("one").start({"goal": 3})
    kept = TabSessions(tmp_path / "tabs")
    values = kept.read("one")
    values["config"]["context"] = {"kind": "no_longer_here"}
    kept.write("one", values)
    assert open_server().of("one").session is None


def test_old_tabs_are_removed_and_damaged_ones_are_unknown(tmp_path):
    tabs = TabSessions(tmp_path)
    tabs.write("a", {"x": 1})
    tabs.write("a", {"x": "\0"})
    tabs.write("c", {})
    assert TabSessions(tmp_path).read("a") == {"x": "\0"}
    assert tabs.read("b") == {}
    for file in tmp_path.iterdir():
        file.write_text("{")
    assert tabs.read("a") == {}
    assert tabs.prune() == 0
    assert tabs.prune(days=-1) == 2


def test_the_last_update_changes_nothing(open_server):
    """Gradio sends a generator's last update twice: the second would undo what came in between."""
    import gradio as gr

    from stategate.ui.app.tabs.common import App
    from stategate.ui.app.tabs.episode import EpisodeTab

    with gr.Blocks():
        episode = EpisodeTab(App(open_server(), gr.Textbox()), gr.HTML())
    for move in (episode.load, episode.take_step, episode.auto_run):
        *_, drawn, last = updates(move("one"))
        assert str(drawn[episode.page])
        assert list(last.values()) == [gr.skip()], move.__name__
