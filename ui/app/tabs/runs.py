"""The Runs tab: the findings, and any run directory with its table, tests, plots and episodes."""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from stategate.evals.core.reports import (
    Run,
    cells,
    find_runs,
    outcome_of,
    read_run,
    read_stories,
    unpack_runs,
)
from stategate.stores.home import cache as cached
from stategate.ui.app.guard import PUBLISHED, bounds
from stategate.ui.app.html import render, short
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, Update, choice, frame, on_event


@cache
def published() -> tuple[Path, ...]:
    """Return the folders of the published runs; those in archives are unpacked once a process."""
    return (PUBLISHED / "runs", unpack_runs(PUBLISHED / "runs", cached() / "published-runs"))


_HINT = (
    "A run directory is what stategate eval writes with --out. Choose one above, or make one: "
    "stategate eval worlds --goals 0-19 --out runs/first"
)
#: What is opened stands below the findings.
_SHOW = "() => document.querySelector('#sg-run').scrollIntoView({behavior: 'smooth'})"
_EPISODES = ["goal", "agent", "outcome", "reward", "steps", "tokens", "error"]


class RunsTab(common.Tab):
    """The tab's components and what they do."""

    def __init__(self, opened: gr.Tab) -> None:
        self.stories = common.clickable_html("stories")
        with gr.Row(elem_classes="sg-agentbar"):
            label = "Run directory (choose, search by typing, or write a path)"
            self.choice = choice(label, "run", allow_custom_value=True)
        self.status = common.status_line("run-status")
        self.facts = gr.HTML(render("parts.empty", "No run open", _HINT), elem_id="sg-run-facts")
        with gr.Column(visible=False) as self.panel:
            self.rows = frame("run-rows", "Results")
            self.tests = frame("run-tests", "Paired tests")
            self.episodes = frame("episodes", "Episodes", _EPISODES, show_search="filter")
        outputs = [self.status, self.facts, self.panel, self.rows, self.tests, self.episodes]
        opened.select(self.choices, None, [self.choice, self.stories], **QUIET)
        self.stories.click(self.pick, None, [self.choice], **QUIET)
        opening = self.choice.change(self.open, [self.choice], outputs, **QUIET)
        opening.then(None, js=_SHOW, **QUIET)

    def choices(self) -> Update:
        """List the runs there are, and tell the stories of the published ones."""
        # A run is called by its name and that of the folder it lies in.
        runs = find_runs([Path("runs"), *published()])
        folders = [("/".join(folder.parts[-2:]), str(folder)) for folder in runs]
        return {
            self.choice: gr.update(choices=folders),
            self.stories: render("runs.stories", _stories()),
        }

    def pick(self, event: gr.EventData) -> str:
        """Choose the run of a story."""
        return common.chosen(event, "pick")

    def idle(self, *values: object) -> Update:
        """Return what is drawn where no run is open."""
        return {
            self.facts: render("parts.empty", "No run open", _HINT),
            self.panel: gr.update(visible=False),
        }

    @on_event
    def open(self, folder: str | None) -> Update:
        """Open a run directory; where that fails, nothing of the run before is left."""
        if not folder:
            return self.idle()
        run = read_run(bounds.require_place(folder))
        episodes = list(map(_episode, run.episodes))
        update: Update = {
            self.panel: gr.update(visible=True),
            self.facts: facts_of(run),
            self.episodes: gr.update(value=episodes, visible=bool(episodes)),
        }
        for name, frame_ in (("rows", self.rows), ("tests", self.tests)):
            heads, data = cells(run.summary.get(name) or ())
            value = {"headers": heads, "data": data} if data else None
            update[frame_] = gr.update(value=value, visible=bool(data))
        return update


@cache
def _stories() -> list[dict[str, Any]]:
    return read_stories(PUBLISHED / "stories.yaml", published())


def facts_of(run: Run) -> Markup:
    """Draw what a run was: the command that makes it again, commit, seed, data, its plots."""
    facts = {name: run.args.get(name) for name in ("command", "commit", "seed", "max_steps")}
    if any(run.folder.is_relative_to(root) for root in published()):  # the finding's, or none
        told = (story["command"] for story in _stories() if story["run"] == run.folder)
        facts["command"] = next(told, "")
    data = run.args.get("data")
    if isinstance(data, Mapping):
        facts["data"] = f"{data.get('name', '')} ({str(data.get('sha256', ''))[:12]})"
    facts_of_run = [(name, value) for name, value in facts.items() if value not in (None, "")]
    plots = [(p.name, b64encode(p.read_bytes()).decode("ascii")) for p in run.pictures[:6]]
    return render("runs.run", run.folder.name, facts_of_run, plots)


def _episode(row: Mapping[str, Any]) -> list[object]:
    values = [round(row.get("reward") or 0.0, 3), row.get("steps"), row.get("tokens")]
    place = [row.get("goal"), row.get("agent"), outcome_of(row)]
    return [*place, *values, short(row.get("error") or "", 120)]
