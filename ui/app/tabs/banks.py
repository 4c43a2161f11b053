"""Banks of experience: browse, search, edit, forget and export their rows, with their provenance."""

from typing import Any

import gradio as gr

from stategate.stores.bank.bank import Row, export_rows, known_banks, open_bank
from stategate.stores.errors import UserError
from stategate.ui.app.guard import bounds
from stategate.ui.app.render.html import note, short
from stategate.ui.app.tabs.common import (
    QUIET,
    SAVE_JS,
    App,
    Tab,
    Update,
    button,
    exported,
    frame,
    telling,
)
from stategate.ui.memory import nearest_rows

#: Rows shown at once.
SHOWN = 30
_ROWS = ["id", "state or question", "moves", "advice", "worth", "used", "from", "likeness"]


class BanksPanel(Tab):
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
        with gr.Row(elem_classes="sg-controls"):
            self.find = button("Show", "bank-find", 90, variant="primary")
            self.export = button("Export", "bank-export", 90)
        self.status = gr.HTML(elem_id="sg-bank-status")
        with gr.Group(visible=False) as self.editor:
            self.advice = gr.Textbox(label="Advice", lines=2, elem_id="sg-bank-advice")
            self.worth = gr.Slider(0, 10, step=0.1, label="Worth (q)", elem_id="sg-bank-q")
            with gr.Row(elem_classes="sg-controls"):
                self.save = button("Save", "bank-save", 90, variant="primary")
                self.forget = button("Forget this row", "bank-forget", 140, variant="stop")
        self.rows = frame("bank-rows", "Rows (click one to edit or forget it)", _ROWS)
        self.edited = gr.State("")
        self.text = gr.Textbox(visible="hidden")

    @telling
    def look(self, tab: str, folder: str | None, words: str) -> Update:
        """Show the rows of most worth, or the nearest to ``words``."""
        if not folder:
            hint = "`stategate bank build` makes a bank from recorded episodes."
            return {self.rows: [], self.status: note(hint)}
        place = _place(folder)
        bank = open_bank(place)
        scores: dict[str, float] = {}
        if (words or "").strip():
            workspace = self.app.of(tab)
            hits = nearest_rows(place, words, SHOWN, workspace.agent.resources, workspace.world)
            rows, scores = [hit.row for hit in hits], {hit.row.id: hit.score for hit in hits}
        else:
            rows = sorted(bank.rows(), key=lambda row: (-row.q, row.n))[:SHOWN]
        label = f"{len(rows)} of {len(bank):,} rows: {bank.kind} bank made with {bank.makes()}"
        shown = [_row(row, scores.get(row.id)) for row in rows]
        closed = {self.status: "", self.editor: gr.update(visible=False)}
        return {self.rows: gr.update(value=shown, label=label), **closed}

    @telling
    def edit(self, folder: str | None, event: gr.SelectData) -> Update:
        """Open the row that was clicked."""
        row = open_bank(_place(folder)).row(str(event.row_value[0]))
        return {
            self.editor: gr.update(visible=True),
            self.advice: str(row.data.get("experience") or ""),
            self.worth: row.q,
            self.edited: row.id,
            self.status: note(f"Editing row {row.id}."),
        }

    @telling
    def drop(self, tab: str, folder: str | None, words: str, row: str) -> Update:
        """Forget the row that is open."""
        bank = open_bank(_place(folder))
        bank.remove([bank.row(row).n])
        return {**self.look(tab, folder, words), self.status: note("1 row forgotten.", "good")}

    @telling
    def store(
        self, tab: str, folder: str | None, words: str, row: str, advice: str, worth: float
    ) -> Update:
        """Write an edited row."""
        bank = open_bank(_place(folder))
        is_same = advice == str(bank.row(row).data.get("experience") or "")
        changes = {} if is_same else {"experience": advice, "by": "edited"}
        bank.change(row, q=worth, **changes)
        return {**self.look(tab, folder, words), self.status: note("The row is changed.", "good")}

    @telling
    def write_out(self, folder: str | None) -> Update:
        """Hand the rows to the browser as a file."""
        bank = open_bank(_place(folder))
        text, told = exported("bank.jsonl", "rows", lambda path: export_rows(bank, path))
        return {self.text: text, self.status: told}

    def wire(self, opened: Any) -> None:
        """Connect the panel's own events; ``opened`` is the tab that holds it."""
        seen = [self.app.tab, self.choice, self.words]
        places, how = [self.rows, self.status, self.editor], QUIET
        opened.select(
            lambda: gr.update(choices=list(map(str, known_banks()))), None, [self.choice], **how
        )
        for event in (self.find.click, self.choice.change, self.words.submit):
            event(self.look, seen, places, **how)
        boxes = [self.advice, self.worth, self.edited]
        self.rows.select(self.edit, [self.choice], [*places, *boxes], **how)
        self.save.click(self.store, [*seen, self.edited, self.advice, self.worth], places, **how)
        self.forget.click(self.drop, [*seen, self.edited], places, **how)
        out = self.export.click(self.write_out, [self.choice], [self.text, self.status], **how)
        out.success(None, [self.text], None, js=SAVE_JS)


def _place(folder: str | None) -> str:
    """Return a bank's folder where browsers may name one. Raises ``UserError``."""
    if not folder:
        raise UserError("which bank? Choose one, or type its folder")
    return bounds.require_place(folder)


def _row(row: Row, likeness: float | None) -> list[Any]:
    """Return what a table shows of a row: what it was drawn from, its advice, and its worth."""
    data = row.data
    origin = {"episode": data.get("episode"), "step": data.get("step", data.get("t"))}
    origin |= {"by": data.get("by"), "task": row.task}
    known = [f"{name} {value}" for name, value in origin.items() if value not in (None, "")]
    plan = data.get("plan")
    return [
        row.id,
        short(data.get("state") or data.get("question") or "", 240),
        short(" → ".join(map(str, plan)) if plan else data.get("action", ""), 160),
        short(data.get("experience") or "", 300),
        f"{row.q:.2f}",
        f"{row.uses}×, earned {row.helped:.2f}" if row.uses else "",
        ", ".join(known),
        "" if likeness is None else f"{likeness:.2f}",
    ]
