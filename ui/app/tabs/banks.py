"""Banks of experience: browse, search, edit, forget and export their rows, with their provenance."""

from pathlib import Path
from typing import Any

import gradio as gr

from stategate.stores.bank.bank import export_rows, open_bank
from stategate.stores.bank.places import known_banks
from stategate.stores.errors import UserError
from stategate.ui.app.guard import bounds
from stategate.ui.app.render.html import empty, note
from stategate.ui.app.render.memories import render_rows
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import (
    EVENTS_JS,
    QUIET,
    SAVE_JS,
    App,
    Update,
    button,
    data_of,
    telling,
)
from stategate.ui.memory import nearest_rows

#: Rows shown at once.
SHOWN = 12


class BanksPanel:
    """The panel's components and what they do."""

    def __init__(self, app: App) -> None:
        self.app = app
        with gr.Row():
            self.choice = gr.Dropdown(
                [],
                label="Bank (choose, or type its folder)",
                scale=2,
                allow_custom_value=True,
                elem_id="sg-bank",
                min_width=200,
            )
            self.words = gr.Textbox(
                label="Search by meaning (empty: most worth)",
                lines=1,
                scale=3,
                elem_id="sg-bank-words",
                min_width=200,
            )
            self.find = button("Show", "bank-find", 90, variant="primary")
            self.export = button("Export", "bank-export", 90)
        self.status = gr.HTML(elem_id="sg-bank-status")
        with gr.Group(visible=False) as self.editor:
            self.advice = gr.Textbox(label="Advice", lines=2, elem_id="sg-bank-advice")
            self.worth = gr.Slider(0, 10, step=0.1, label="Worth (q)", elem_id="sg-bank-q")
            self.save = gr.Button("Save", variant="primary", size="md", elem_id="sg-bank-save")
        self.rows = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-bank-rows")
        self.edited = gr.State(None)
        self.text = gr.Textbox(visible="hidden")

    def choices(self) -> Any:
        """List the banks there are."""
        return gr.update(choices=[str(folder) for folder in known_banks()])

    @telling
    def look(self, tab: str, folder: str | None, words: str) -> Update:
        """Show the rows of most worth, or the nearest to ``words``."""
        if not folder:
            hint = "`stategate bank build` makes one from recorded episodes."
            return {self.rows: empty("No bank open", hint), self.status: ""}
        bank = open_bank(_inside(folder))
        if (words or "").strip():
            workspace = self.app.of(tab)
            hits = nearest_rows(_inside(folder), words, SHOWN, workspace.resources, workspace.world)
            rows, scores = [hit.row for hit in hits], {hit.row.id: hit.score for hit in hits}
        else:
            rows, scores = sorted(bank.rows(), key=lambda row: (-row.q, row.n))[:SHOWN], {}
        facts = {"kind": bank.kind, "made with": bank.makes(), "rows": len(bank)}
        drawn = render_rows(rows, len(bank), facts, scores)
        return {self.rows: drawn, self.status: "", self.editor: gr.update(visible=False)}

    @telling
    def touch(self, tab: str, folder: str | None, words: str, event: gr.EventData) -> Update:
        """Edit or forget the row whose button was pressed."""
        data = data_of(event)
        bank = open_bank(_inside(folder))
        if "drop" in data:
            bank.remove([bank.row(str(data["drop"])).n])
            forgotten = note("1 row forgotten.", "good")
            return {**self.look(tab, folder, words), self.status: forgotten}
        row = bank.row(str(data.get("fact", "")))
        return {
            self.editor: gr.update(visible=True),
            self.advice: str(row.data.get("experience") or ""),
            self.worth: row.q,
            self.edited: row.id,
            self.status: note(f"Editing row {row.id}.", "info"),
        }

    @telling
    def store(
        self, tab: str, folder: str | None, words: str, row: str | None, advice: str, worth: float
    ) -> Update:
        """Write an edited row."""
        if not row:
            raise UserError("choose a row to edit first")
        bank = open_bank(_inside(folder))
        is_same = advice == str(bank.row(row).data.get("experience") or "")
        changes = {} if is_same else {"experience": advice, "by": "edited"}
        bank.change(row, q=worth, **changes)
        return {**self.look(tab, folder, words), self.status: note("The row is changed.", "good")}

    def write_out(self, folder: str | None) -> Update:
        """Hand the rows to the browser as a file."""
        return common.file_of(
            self, "bank.jsonl", "rows", lambda path: export_rows(open_bank(_inside(folder)), path)
        )

    def wire(self) -> None:
        """Connect the panel's own events."""
        seen = [self.app.tab, self.choice, self.words]
        places = [self.rows, self.status, self.editor]
        self.find.click(self.look, seen, places, **QUIET)
        self.choice.change(self.look, seen, places, **QUIET)
        self.words.submit(self.look, seen, places, **QUIET)
        self.rows.click(self.touch, seen, [*places, self.advice, self.worth, self.edited], **QUIET)
        self.save.click(self.store, [*seen, self.edited, self.advice, self.worth], places, **QUIET)
        out = self.export.click(self.write_out, [self.choice], [self.text, self.status], **QUIET)
        out.success(None, [self.text], None, js=SAVE_JS)


def _inside(folder: str | None) -> Path:
    """Return a bank's folder where browsers may name one. Raises ``UserError``."""
    if not folder:
        raise UserError("which bank? Choose one, or type its folder")
    return bounds.require_inside(folder)
