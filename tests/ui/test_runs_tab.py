"""The Runs tab without a browser: every published run opens, stories tell their run's own figures."""

import json
import shutil

import gradio as gr
import pytest
import yaml

from stategate.evals.core.run_directory import find_runs, read_stories
from stategate.stores.errors import UserError
from stategate.ui.app.tabs.runs import ROOTS, RunsTab

PUBLISHED = ROOTS[-1]


@pytest.fixture(scope="module")
def runs_tab():
    with gr.Blocks():
        return RunsTab()


def test_every_published_run_opens_under_its_own_name(runs_tab):
    folders = find_runs([PUBLISHED])
    assert len(folders) >= 6
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


def test_six_stories_tell_the_figures_of_their_runs(tmp_path):
    stories = read_stories(PUBLISHED)
    assert len(stories) == 6
    rows = json.loads((PUBLISHED / "webshop-rule-rich" / "summary.json").read_text())["rows"]
    full, rag = (next(r["success"] for r in rows if r["agent"] == a) for a in ("full", "query_rag"))
    assert stories[0].title == f"Dropping buttons costs {100 * (full - rag):.0f} points"
    assert all(len(story.bars) >= 2 for story in stories)
    # Another run under the same name tells another figure; a run that is gone is no story.
    page = yaml.safe_load((PUBLISHED.parent / "stories.yaml").read_text())
    (tmp_path / "stories.yaml").write_text(yaml.safe_dump(page))
    folder = tmp_path / "runs" / "webshop-rule-rich"
    shutil.copytree(PUBLISHED / "webshop-rule-rich", folder)
    summary = json.loads((folder / "summary.json").read_text())
    for row in summary["rows"]:
        row["success"] = {"full": 0.5, "query_rag": 0.2}.get(row["agent"], 0.0)
    (folder / "summary.json").write_text(json.dumps(summary))
    assert [s.title for s in read_stories(tmp_path / "runs")] == [
        "Dropping buttons costs 30 points"
    ]
    summary["rows"] = []
    (folder / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(UserError, match="no success of 'full'"):
        read_stories(tmp_path / "runs")
