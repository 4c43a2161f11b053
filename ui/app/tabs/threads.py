"""The Threads tab: any agent's thread, and what each builder would have shown call by call."""

from dataclasses import dataclass

import gradio as gr
from langchain_core.messages import AIMessage, BaseMessage

from stategate.envs.messages.history import calls_text, key_of, text_of, tokens_of
from stategate.envs.messages.needs import calls_in
from stategate.evals.arms import NOTHING, ORACLE, Reading
from stategate.evals.replay import BILLERS, Readable, Replay, replay
from stategate.graph.exported import read_messages
from stategate.nodes.build_context.messages.decisions import Row
from stategate.stores.tokens import count_tokens
from stategate.ui.app.context import cuts
from stategate.ui.app.guard import bounds
from stategate.ui.app.html import short
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, Update, button, choice, frame, on_event

_KINDS = ["compress", "compress:need=", "window", "full", "query_rag"]
_KINDS += ["last", "clear", "mask", "summary", ORACLE]
_COLUMNS = ["builder", "tokens read", *BILLERS, "of nothing", "cuts", "calls over the budget"]
_COLUMNS += ["needed values readable", "of results alone", "recalls that would mend it"]
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
            label = "File, or database#thread"
            self.where = common.box(label, "msg-where", 260, value=where, scale=3, info=_HINT)
            self.kinds = choice(
                "Builders to compare with none",
                "msg-kinds",
                choices=_KINDS,
                value=["compress"],
                multiselect=True,
                scale=2,
            )
            self.budget = gr.Number(
                8000, label="Budget (tokens)", elem_id="sg-msg-budget", precision=0, minimum=100
            )
        self.open_button = button("Show", "msg-open", 90, variant="primary")
        self.status = gr.HTML(elem_id="sg-msg-status")
        with gr.Column(visible=False) as self.panel:
            models = " and ".join(BILLERS.values())
            self.summary = frame(
                "msg-summary",
                f"The whole thread, billed by the rules of prefix caching at the rates of {models}",
                _COLUMNS,
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

    def idle(self) -> Update:
        """Return what is drawn where no thread is open: nothing of the one before."""
        return {self.panel: gr.update(visible=False), self.state: None}

    @on_event
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
            self.summary: [_bill(messages, one, opened.replays[0]) for one in opened.replays],
            self.call: slider,
            **self.look(opened, count),
        }

    @on_event
    def look(self, opened: Opened | None, number: float) -> Update:
        """Show another call."""
        if opened is None:
            return {}
        call = min(max(int(number), 1), len(opened.replays[0].readings)) - 1
        history = opened.history(call)
        readings = [one.readings[call] for one in opened.replays]
        heads = [
            f"{one.kind}: {reading.audit.tokens_after:,} tokens"
            for one, reading in zip(opened.replays, readings, strict=True)
        ]
        rows = [
            [
                place + 1,
                message.type,
                short(_text(message), 90),
                *(_fate(reading, message, place) for reading in readings),
            ]
            for place, message in enumerate(history)
        ]
        return {
            self.table: {"headers": ["#", "role", "text", *heads], "data": rows},
            **self._read(opened, call, len(rows) - 1, len(readings) - 1),
        }

    @on_event
    def pick(self, opened: Opened | None, number: float, event: gr.SelectData) -> Update:
        """Show a message as the builder of the clicked column shows it."""
        if opened is None:
            return {}
        builder = max(int(event.index[1]) - 3, 0)
        return self._read(opened, int(number) - 1, int(event.row_value[0]) - 1, builder)

    def _read(self, opened: Opened, call: int, place: int, builder: int) -> Update:
        message, one = opened.history(call)[place], opened.replays[builder]
        reading = one.readings[call]
        whole = _text(message)[:_MOST]
        visible = next((m for m in reading.messages if m.id == message.id), None)
        parts = [(whole, True)] if visible is None else cuts(whole, _text(visible)[:_MOST])
        row = _row(reading, message, place)
        why = f" ({row.why})" if row is not None and row.why else ""
        label = f"Message {place + 1} as {one.kind} shows it: {_fate(reading, message, place)}{why}"
        value = [(text, "left out" if is_cut else None) for text, is_cut in parts]
        return {self.reading: gr.update(value=value, label=label)}

    def wire(self, blocks: gr.Blocks) -> None:
        """Connect events; a thread that was named is opened as soon as the page is there."""
        inputs = [self.where, self.kinds, self.budget]
        for opens in (self.open_button.click, self.where.submit):
            opens(self.open, inputs, self.outputs, **QUIET)
        looked, thread_and_call = [self.table, self.reading, self.status], [self.state, self.call]
        for looks in (self.call.release, self.call.change):
            looks(self.look, thread_and_call, looked, **QUIET)
        self.table.select(self.pick, thread_and_call, looked, **QUIET)
        if self.where.value:
            blocks.load(self.open, inputs, self.outputs, **QUIET)


def _bill(messages: list[BaseMessage], one: Replay, nothing: Replay) -> list[str]:
    """Return the row of one builder's bill; shares are of doing nothing."""
    share = one.bill.dollars["anthropic"] / (nothing.bill.dollars["anthropic"] or 1.0)
    dollars = [f"${one.bill.dollars[biller]:.4f}" for biller in BILLERS]
    audits = [reading.audit for reading in one.readings]
    counts = [sum(a.is_cut for a in audits), sum(bool(a.over_by) for a in audits)]
    needs = Readable.of(messages, one)
    readable = [
        f"{needs.readable_needs} of {needs.needs}",
        f"{needs.tool_readable} of {needs.tool_needs}",
    ]
    bill = [one.kind, f"{one.tokens:,}", *dollars, f"{100 * share:.0f} %"]
    return [*bill, *map(str, counts), *readable, str(needs.recalls)]


def _row(reading: Reading, message: BaseMessage, place: int) -> Row | None:
    """Return what one call's audit says of a message, None where it says nothing."""
    key = key_of(message, place)
    return next((row for row in reading.audit.rows if row.key == key), None)


def _fate(reading: Reading, message: BaseMessage, place: int) -> str:
    """Return how much of a message one call showed."""
    row = _row(reading, message, place)
    if row is None:
        return f"{tokens_of(message, count_tokens):,} tokens"
    return f"{row.tokens_after:,} of {row.tokens_before:,}, {row.fate}"


def _text(message: BaseMessage) -> str:
    called = calls_text(message) if isinstance(message, AIMessage) else ""
    return "\n".join(part for part in (text_of(message), called) if part) or "(nothing)"
