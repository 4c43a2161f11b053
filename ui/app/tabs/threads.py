"""The Threads tab: any agent's thread, and what each builder would have shown call by call."""

from dataclasses import dataclass
from typing import Any

import gradio as gr
from langchain_core.messages import AIMessage, BaseMessage

from stategate.envs.messages.history import calls_text, key_of, text_of, tokens_of
from stategate.evals.replay import BILLERS, NOTHING, Reading, Replay, calls_in, replay
from stategate.graph.exported import read_messages
from stategate.stores.tokens import count_tokens
from stategate.ui.app.context import cuts
from stategate.ui.app.guard import bounds
from stategate.ui.app.html import short
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, Update, button, choice, frame, telling

_KINDS = ["compress", "window", "full", "query_rag", "recall"]
_MOST = 20_000  # characters of a message that are drawn
_HINT = "A JSON file, or a checkpoint database and a thread (agent.sqlite#thread-1)"


@dataclass
class Opened:
    """What one browser tab looks at: a thread, and how each builder reads it."""

    messages: list[BaseMessage]
    replays: list[Replay]

    def history(self, number: int) -> list[BaseMessage]:
        """Return the messages before call ``number`` (from 0), but for the system's."""
        start = int(self.messages[0].type == "system")
        return self.messages[start : calls_in(self.messages)[number]]


class ThreadsTab(common.Tab):
    """The tab's components and what they do."""

    def __init__(self, where: str = "") -> None:
        with gr.Row(elem_classes="sg-agentbar"):
            how: dict[str, Any] = {"multiselect": True, "scale": 2}
            label = "File, or database#thread"
            self.where = common.box(label, "msg-where", 260, value=where, scale=3, info=_HINT)
            label, start = "Builders to compare with none", ["compress"]
            self.kinds = choice(label, "msg-kinds", choices=_KINDS, value=start, **how)
            limit: dict[str, Any] = {"precision": 0, "minimum": 100, "min_width": 120}
            self.budget = gr.Number(8000, label="Budget (tokens)", elem_id="sg-msg-budget", **limit)
        self.open_button = button("Show", "msg-open", 90, variant="primary")
        self.status = gr.HTML(elem_id="sg-msg-status")
        with gr.Column(visible=False) as self.panel:
            models = " and ".join(BILLERS.values())
            self.summary = frame(
                "msg-summary",
                f"The whole thread, billed by the rules of prefix caching at the rates of {models}",
                ["builder", "tokens read", *BILLERS, "of nothing", "cuts", "calls over the budget"],
            )
            self.call = gr.Slider(1, 2, value=1, step=1, label="Call", elem_id="sg-msg-slider")
            self.table = frame(
                "msg-call", "Click a cell to read the message as that builder shows it", ["#"]
            )
            self.reading = gr.HighlightedText(
                label="The message",
                elem_id="sg-msg-reading",
                show_inline_category=False,
                show_legend=True,
                color_map={"left out": "#e11d48"},
            )
        self.state = gr.State(None)
        self.outputs = [self.status, self.panel, self.summary, self.call, self.table]
        self.outputs += [self.reading, self.state]

    @telling
    def open(self, where: str | None, kinds: list[str], budget: float) -> Update:
        """Read the thread and let every builder read it; show the last call."""
        messages = read_messages(bounds.require_place((where or "").strip()))
        # Messages need names to be followed through a builder; an export often has none.
        messages = [
            m if m.id else m.model_copy(update={"id": f"m{i}"}) for i, m in enumerate(messages)
        ]
        names = [NOTHING, *(kind for kind in kinds if kind != NOTHING)]
        opened = Opened(messages, [replay(messages, kind, int(budget)) for kind in names])
        count = len(opened.replays[0].readings)
        slider = gr.update(maximum=max(count, 2), value=count, label=f"Call (of {count})")
        return {
            self.state: opened,
            self.panel: gr.update(visible=True),
            self.summary: [_bill(one, opened.replays[0]) for one in opened.replays],
            self.call: slider,
            **self.look(opened, count),
        }

    @telling
    def look(self, opened: Opened | None, number: float) -> Update:
        """Show another call."""
        if opened is None:
            return {self.status: ""}
        at = min(max(int(number), 1), len(opened.replays[0].readings)) - 1
        history = opened.history(at)
        readings = [one.readings[at] for one in opened.replays]
        heads = [
            f"{one.kind}: {readings[i].audit.tokens_after:,} tokens"
            for i, one in enumerate(opened.replays)
        ]
        rows = [
            [
                place + 1,
                message.type,
                short(_text(message), 90),
                *(_fate(r, message, place) for r in readings),
            ]
            for place, message in enumerate(history)
        ]
        table = {"headers": ["#", "role", "text", *heads], "data": rows}
        return {
            self.status: "",
            self.table: table,
            **self._read(opened, at, len(rows) - 1, len(readings) - 1),
        }

    @telling
    def pick(self, opened: Opened | None, number: float, event: gr.SelectData) -> Update:
        """Show a message as the builder of the clicked column shows it."""
        if opened is None:
            return {self.status: ""}
        builder = max(int(event.index[1]) - 3, 0)
        return self._read(opened, int(number) - 1, int(event.row_value[0]) - 1, builder)

    def _read(self, opened: Opened, at: int, place: int, builder: int) -> Update:
        message, one = opened.history(at)[place], opened.replays[builder]
        reading = one.readings[at]
        whole = _text(message)[:_MOST]
        shown = next((m for m in reading.messages if m.id == message.id), None)
        parts = [(whole, True)] if shown is None else cuts(whole, _text(shown)[:_MOST])
        row = next((r for r in reading.audit.rows if r.key == key_of(message, place)), None)
        why = f" ({row.why})" if row is not None and row.why else ""
        label = f"Message {place + 1} as {one.kind} shows it: {_fate(reading, message, place)}{why}"
        value = [(text, "left out" if is_cut else None) for text, is_cut in parts]
        return {self.reading: gr.update(value=value, label=label)}

    def wire(self, blocks: Any) -> None:
        """Connect events; a thread that was named is opened as soon as the page is there."""
        inputs = [self.where, self.kinds, self.budget]
        for opens in (self.open_button.click, self.where.submit):
            opens(self.open, inputs, self.outputs, **QUIET)
        looked, asked = [self.table, self.reading, self.status], [self.state, self.call]
        for looks in (self.call.release, self.call.change):
            looks(self.look, asked, looked, **QUIET)
        self.table.select(self.pick, asked, looked, **QUIET)
        if self.where.value:
            blocks.load(self.open, inputs, self.outputs, **QUIET)


def _bill(one: Replay, nothing: Replay) -> list[str]:
    """Return the row of one builder's bill; shares are of doing nothing."""
    share = one.dollars["anthropic"] / (nothing.dollars["anthropic"] or 1.0)
    dollars = [f"${one.dollars[biller]:.4f}" for biller in BILLERS]
    audits = [reading.audit for reading in one.readings]
    counts = [sum(a.is_cut for a in audits), sum(bool(a.over_by) for a in audits)]
    return [one.kind, f"{one.tokens:,}", *dollars, f"{100 * share:.0f} %", *map(str, counts)]


def _fate(reading: Reading, message: BaseMessage, place: int) -> str:
    """Return how much of a message one call showed."""
    row = next((r for r in reading.audit.rows if r.key == key_of(message, place)), None)
    if row is None:
        return f"{tokens_of(message, count_tokens):,} tokens"
    return f"{row.tokens_after:,} of {row.tokens_before:,}, {row.fate}"


def _text(message: BaseMessage) -> str:
    called = calls_text(message) if isinstance(message, AIMessage) else ""
    return "\n".join(part for part in (text_of(message), called) if part) or "(nothing)"
