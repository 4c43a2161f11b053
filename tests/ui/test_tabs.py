"""The app's tabs without a browser, and what a newcomer ran into there."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
import yaml

from stategate.evals.core.reports import find_runs, read_run, read_stories
from stategate.graph import Session, build_graph, load_config
from stategate.graph.config import presets
from stategate.nodes.models.embedders import HashingEmbedder
from stategate.nodes.protocols import SLOTS
from stategate.nodes.registry import registry
from stategate.nodes.retrieval.remember import Memory
from stategate.stores.bank import Bank, bank_place, known_banks
from stategate.stores.corpus.corpus import corpus_names
from stategate.stores.errors import UserError, describe_error
from stategate.stores.home import home
from stategate.ui.app.agents import Agents
from stategate.ui.app.context import cuts
from stategate.ui.app.guard import MADE_UP, PUBLISHED, bounds
from stategate.ui.app.html import render
from stategate.ui.app.tabs.common import App
from stategate.ui.app.tabs.episode import MORE, EpisodeTab, quick, task_of
from stategate.ui.app.tabs.memory import MemoryTab
from stategate.ui.app.tabs.runs import RunsTab, published
from stategate.ui.app.tabs.settings import SettingsTab, as_yaml, config_of
from stategate.ui.app.tabs.threads import ThreadsTab
from stategate.ui.app.workspace import Workspace
from tests.evals.test_replay import OPENAI

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(scope="module")
def runs_tab():
    with gr.Blocks(), gr.Tab() as tab:
        return RunsTab(tab)


def test_every_published_run_opens_under_its_own_name(runs_tab):
    folders = find_runs(published())
    assert len(folders) > 80
    for folder in folders:
        update = runs_tab.open(str(folder))
        assert f">{folder.name}<" in str(update[runs_tab.facts]), (
            folder.name,
            update[runs_tab.status],
        )


def test_a_run_that_cannot_be_drawn_leaves_nothing_of_the_one_before(runs_tab, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "args.json").write_text('{"command": "x"}')
    (broken / "summary.json").write_text('{"rows": [{"agent": "full", "success": 1.0}, 3]}')
    update = runs_tab.open(str(broken))
    assert "did not work" in str(update[runs_tab.status])
    assert update[runs_tab.panel]["visible"] is False


def test_runs_tells_the_findings_of_the_readme():
    page, roots = PUBLISHED / "stories.yaml", published()
    stories = read_stories(page, roots)
    readme = (PUBLISHED.parents[1] / "README.md").read_text("utf-8")
    found = readme[readme.index("| finding |") : readme.index("[Comparison")]
    pages = re.findall(r"\n\| \[.*?\]\(docs/results/(\w+)\.md\)", found)
    runs = [next(iter(row["bars"])) for row in yaml.safe_load(page.read_text())]
    assert [re.split("[/-]", run)[0] for run in runs] == pages
    assert all(len(story["bars"]) >= 2 for story in stories)
    bars = {name: shown for name, _, shown in stories[1]["bars"]}
    assert bars["compress"] == "99.3 % ± 0.7"
    assert "99.3 %" in stories[1]["text"]
    for story in stories:  # a difference stands there with README's interval
        assert all(
            figure in found for figure in re.findall(r"[\d.]+ points \[.*?\]", story["text"])
        )
    assert "57.5" not in stories[-1]["text"]


def shown(value, like):
    """Write a value with as many decimals as the figure ``like``."""
    return f"{value:.{len(like.partition('.')[2])}f}"


@pytest.mark.parametrize(
    "story", yaml.safe_load((PUBLISHED / "stories.yaml").read_text()), ids=lambda row: row["title"]
)
def test_every_figure_of_a_finding_stands_in_its_run(story):
    metric, rows = story["metric"], []
    for name, bars in story["bars"].items():
        folder = next(root / name for root in published() if (root / name).is_dir())
        summary = read_run(folder).summary["rows"]
        overall = [row for row in summary if row.get("dataset", "average") == "average"]
        for agent, label in bars.values():
            row = next(row for row in overall if row["agent"] == agent and metric in row)
            rows.append(row)
            spread = f" ± {100 * row[f'{metric}_se']:.1f}" if f"{metric}_se" in row else ""
            assert label == f"{100 * row[metric]:.1f} %{spread}"
    figures = re.findall(r"\d[\d,.]*\d|\d", story["text"])
    assert len(figures) == len(story["figures"])
    for figure, source in zip(figures, story["figures"], strict=True):
        name, _, number = source.partition(" ")
        if number:
            value = rows[int(number) - 1][name]
            assert figure == shown(100 * value if name in (metric, "bill") else value, figure)
        else:
            assert figure == source


def test_a_published_run_shows_no_command_but_one_that_runs(runs_tab, tmp_path):
    folders = {folder.name: folder for folder in find_runs(published())}
    old = runs_tab.open(str(folders["alfworld-dev"]))[runs_tab.facts]
    assert "allocator=uniform" not in old
    again = runs_tab.open(str(folders["alfworld-one-policy"]))[runs_tab.facts]
    assert "stategate eval worlds --config alfworld" in again
    mine = tmp_path / "mine"
    shutil.copytree(folders["alfworld-dev"], mine)
    assert "allocator=uniform" in runs_tab.open(str(mine))[runs_tab.facts]


def test_wishes_stand_first_and_a_search_says_why(home):
    agents = Agents(load_config("ui", ["embedder.kind=hashing", "updater.kind=none"]))
    with gr.Blocks(), gr.Tab() as opened:
        tab = MemoryTab(agents, opened)
    empty = tab.look("")
    assert "stategate chat" in str(empty[tab.status])
    assert not empty[tab.facts]["visible"]
    memory = Memory(embedder=HashingEmbedder(), user=agents.memory.owner)
    for text in ("Always answer in metric units.", "My boat is called Albatros.", "I keep bees."):
        memory.remember(text)
    said = [row[1] for row in tab.look("")[tab.facts]["value"]]
    assert said == ["Always answer in metric units.", "I keep bees.", "My boat is called Albatros."]
    found = tab.look("What is my boat called?")[tab.facts]
    assert found["value"][0][1] == "My boat is called Albatros."
    assert found["value"][0][-1]
    said, chance, why = (found["value"][-1][i] for i in (1, -2, -1))
    assert (said, chance) == ("Always answer in metric units.", "")
    assert "with every question" in why


@pytest.mark.parametrize("preset", presets())
def test_a_preset_survives_its_text(preset, tmp_path):
    text = as_yaml(load_config(preset))
    assert config_of(text) == load_config(preset)
    file = tmp_path / "agent.yaml"
    file.write_text(text)
    assert load_config(file) == load_config(preset)


@pytest.mark.parametrize(
    ("text", "problem"), [("[", "no YAML"), ("7", "fills each slot"), ("context: nope", "nope")]
)
def test_what_is_no_config_is_told(text, problem):
    with pytest.raises(UserError, match=problem):
        config_of(text)


def test_another_world_brings_what_was_not_edited_and_what_does_not_fit_is_refused():
    app = App(Agents(load_config("ui")))
    workspace, alfworld = app.of("one"), load_config("alfworld")
    with gr.Blocks(), gr.Tabs() as places, gr.Tab() as opened:
        app.tab = gr.Textbox()
        tab = SettingsTab(app, EpisodeTab(app, gr.HTML()), opened, places)
    tab.use("one", as_yaml(load_config("webshop")))
    assert workspace.config == load_config("webshop")
    world = {"env": {"kind": "alfworld"}}
    update = tab.use("one", yaml.safe_dump(yaml.safe_load(as_yaml(workspace.config)) | world))
    assert "slots that you did not edit take alfworld" in str(update[tab.status])
    assert workspace.config.model_copy(update={"env": alfworld.env}) == alfworld
    for change in ("alfworld webshop", "webshop alfworld", "full compress", "compress window"):
        old, new = change.split()
        text = as_yaml(workspace.config).replace(f"kind: {old}", f"kind: {new}")
        assert "Applied" in str(tab.use("one", text)[tab.status]), "one word is edited"
        assert f"kind: {new}" in as_yaml(workspace.config)
    tab.use("one", "{env: alfworld, actor: policy, updater: none, context: full}")
    assert (workspace.config.actor.kind, workspace.config.context.kind) == ("policy", "full")
    assert workspace.config.memory == alfworld.memory
    wrong = str(tab.use("one", "{env: alfworld, context: recall}")[tab.status])
    assert "context.kind=recall is made for" in wrong
    assert workspace.config.context.kind == "full"
    with pytest.raises(UserError, match="made for"):
        workspace.conversation.configure(config_of("{env: qa, actor: rule}"))


def test_a_wrong_corpus_or_file_changes_nothing(tmp_path):
    talk = Workspace(Agents(load_config("ui"))).conversation
    for name in ("2024", "a b", "null"):
        with pytest.raises(UserError, match=r"corpora: sample\)"):
            talk.choose(corpus=name)
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF nothing")
    with pytest.raises(UserError, match="nothing could be read"):
        talk.add_files([str(broken)])
    assert (talk.corpus, corpus_names()) == ("sample", [])


def test_an_error_is_cut_between_words():
    told = describe_error(UserError("a line of words " * 30))
    assert (len(told) <= 160, told.endswith(("a…", "line…", "of…", "words…"))) == (True, True)
    assert len(describe_error(UserError("cannot read " + "x" * 300))) == 160


def test_every_kind_is_explained():
    drawn = render("frame.kinds", SLOTS, registry(), "context")
    for slot in SLOTS:
        for name in registry().slots[slot]:
            assert f"<b>{name}</b>" in drawn


@pytest.fixture
def tab() -> Any:
    with gr.Blocks():
        return ThreadsTab()


def test_an_uploaded_file_is_shown_and_one_of_its_threads_is_named(
    tab: Any, tmp_path: Path
) -> None:
    where = tmp_path / "threads.jsonl"
    where.write_text("".join(json.dumps(thread) + "\n" for thread in (OPENAI[:2], OPENAI)))
    many = tab.open("", ["compress"], 2000, str(where))
    assert "'threads.jsonl' there are: 1, 2" in str(many[tab.status]).replace("&#39;", "'")
    assert many[tab.panel]["visible"] is False
    assert "line 1" in str(tab.open("#2", ["compress"], 2000, str(where))[tab.table])


def test_the_thread_that_ships_is_shown_at_one_press(tab: Any, monkeypatch) -> None:
    monkeypatch.setattr(bounds, "is_local", False)
    update = tab.open(tab.where.value, tab.kinds.value, tab.budget.value)
    assert update[tab.panel]["visible"]
    assert [row[0] for row in update[tab.summary]["value"]["data"]] == ["nothing", "compress"]
    with pytest.raises(UserError, match="outside of this app"):
        bounds.require_place(str(MADE_UP.parent / "passages.jsonl"))


def test_a_wish_of_ones_own_ends_without_a_figure_and_says_why():
    words = ["updater.kind=none", "embedder.kind=hashing", "actor.kind=rule"]
    session = Session(build_graph(load_config("webshop", words)), "t", task={"instruction": "tea"})
    session.run()
    assert "nobody can score it" in session.observation.info["outcome"]["unscored"]


def test_cuts_stand_where_they_were_made():
    whole = "Lamp, red shade, with a long cord, 12 inches"
    stretches = cuts(whole, "Lamp, with a cord,")
    shown = "".join(text for text, gone in stretches if not gone)
    assert shown.split() == "Lamp, with a cord,".split()
    assert "red shade," in " ".join(text for text, gone in stretches if gone)


def test_only_what_fits_the_world_is_offered_each_with_a_hint():
    config = load_config("webshop")
    few, all_ = (quick("context", config, is_whole=whole)["choices"] for whole in (False, True))
    assert few == ["full", "window", "retrieve", "compress", MORE]
    assert len(all_) > len(few)
    actors, contexts = (
        quick(slot, config, is_whole=True)["choices"] for slot in ("actor", "context")
    )
    assert not {"answer", "extract", "human"} & set(actors)
    assert ("recall" in contexts, "experience" in contexts) == (False, True)
    assert contexts[:4] == ["full", "window", "retrieve", "compress"]
    rooms = quick("actor", load_config("alfworld"))["choices"]
    assert "policy" in rooms
    assert not {"rule", "extract"} & set(rooms)
    for slot in SLOTS:
        for name, kind in registry().slots[slot].items():
            assert 5 < len(kind.hint()) < 110, f"{slot} {name}: {kind.hint()}"


def test_a_task_is_named_by_its_number_or_told_in_words():
    tasks = [{"goal": 0}, {"goal": 1}]
    assert task_of(1, tasks) == task_of("#1", tasks) == tasks[1]
    assert task_of("#1 a lamp", tasks) == {"goal": 1, "say": "a lamp"}
    assert task_of("a lamp", tasks) == {"instruction": "a lamp"}
    with pytest.raises(UserError, match="no task 99: there are tasks 0 to 1"):
        task_of("99", tasks)


def test_a_bank_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = bank_place(None)
    assert place == home() / "banks" / "state" == bank_place("state")
    assert str(bank_place("banks/mine")) == "banks/mine"
    assert known_banks() == []
    Bank(place, "state", None, create=True)
    assert known_banks() == [place]
