"""The Threads tab: any agent's thread, and what each builder would have shown call by call."""

from pathlib import Path

import gradio as gr
from langchain_core.messages import AIMessage, BaseMessage

from stategate.envs.messages.history import calls_text, text_of, tokens_of
from stategate.envs.messages.needs import calls_in
from stategate.evals.arms import NOTHING, ORACLE, Reading
from stategate.evals.core.reports import cells
from stategate.evals.replay import BILLERS, Replay, metrics_of, replay
from stategate.graph.exported import read_messages
from stategate.stores.errors import UserError
from stategate.ui.app.guard import MADE_UP, bounds
from stategate.ui.app.html import short
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, Update, button, choice, frame, on_event

_KINDS = ["compress", "compress:need=", "window", "full", "query_rag"]
_KINDS += ["last", "clear", "mask", "summary", ORACLE]
#: The metrics of ``stategate replay`` that the summary shows.
_METRICS = "model_tokens dollars_anthropic dollars_openai cached_share over_budget needs readable"
_METRICS += " tool_needs readable_tool recalls"
_MOST, _WIDE = 300, 1070  # characters of a message that a cell shows; pixels of all builders
_HINT = "A JSON file or a checkpoint database; #2 or #thread-1 after it names one of its threads"
_UPLOAD, _FILES = "Upload a file", [".json", ".jsonl", ".gz", ".sqlite", ".db"]


class ThreadsTab(common.Tab):
    """The tab's components and what they do."""

    def __init__(self) -> None:
        with gr.Row(elem_classes="sg-agentbar"):
            first = {"info": _HINT, "value": f"{MADE_UP}#1"}  # something to look at
            self.where = common.box("File, or database#thread", "msg-where", 260, scale=3, **first)
            self.kinds = choice(
                "Builders to compare with the untouched thread",
                "msg-kinds",
                choices=_KINDS,
                value=["compress"],
                multiselect=True,
                scale=2,
            )
            self.budget = gr.Number(
                8000, label="Budget (tokens)", elem_id="sg-msg-budget", precision=0, minimum=100
            )
        with gr.Row(elem_classes="sg-controls"):
            self.open_button = button("Show", "msg-open", 90, variant="primary")
            self.upload = button(_UPLOAD, "msg-upload", 150, gr.UploadButton, file_types=_FILES)
        self.status = common.status_line("msg-status")
        with gr.Column(visible=False) as self.panel:
            models = " and ".join(BILLERS.values())
            label = (
                f"The whole thread, billed by the rules of prefix caching at the rates of {models}"
            )
            widths = [110] * (len(_METRICS.split()) + 1)
            self.summary = frame("msg-summary", label, column_widths=widths)
            self.call = gr.Slider(1, 2, value=1, step=1, label="Call", elem_id="sg-msg-slider")
            self.table = frame("msg-call", "Each message as each builder shows it", ["#"])
        self.state = gr.State(None)
        how = [self.where, self.kinds, self.budget, self.upload]
        what = {"fn": self.open, "inputs": how, "outputs": self.parts(), **QUIET}
        gr.on([self.open_button.click, self.where.submit], **what)
        self.upload.upload(lambda: "", None, [self.where], **QUIET).then(**what)
        for looks in (self.call.release, self.call.change):
            looks(self.look, [self.state, self.call], [self.table, self.status], **QUIET)

    def idle(self, *values: object) -> Update:
        """Return what is drawn where no thread is open: nothing of the one before."""
        return {self.panel: gr.update(visible=False), self.state: None}

    @on_event
    def open(
        self, where: str | None, kinds: list[str], budget: float | None, uploaded: str | None = None
    ) -> Update:
        """Read the thread and let every builder read it; show the last call.

        ``where`` names a file; nothing, or a thread alone (``#2``), is the uploaded one.
        """
        if not budget:
            raise UserError("say how many tokens a prompt may have")
        place = (where or "").strip()
        if uploaded and place[:1] in ("", "#"):
            try:
                messages = read_messages(uploaded + place)
            except UserError as error:  # the person knows the file by its own name
                raise UserError(str(error).replace(uploaded, Path(uploaded).name)) from None
        elif place[:1] not in ("", "#"):
            messages = read_messages(bounds.require_place(place))
        else:
            raise UserError("name a file of messages or a database, or upload a file")
        # Messages need names to be followed through a builder; an export has none, or repeats them.
        messages = [m.model_copy(update={"id": f"m{i}"}) for i, m in enumerate(messages)]
        names = [NOTHING, *(kind for kind in kinds if kind != NOTHING)]
        replays = [replay(messages, kind, int(budget)) for kind in names]
        rows = []
        for one in replays:
            bill = metrics_of(messages, one)
            rows.append({"builder": one.kind, **{key: bill.get(key) for key in _METRICS.split()}})
        heads, data = cells(rows)
        count = len(replays[0].readings)
        return {
            self.state: (messages, replays),
            self.panel: gr.update(visible=True),
            self.upload: gr.update(
                label=f"Uploaded: {Path(uploaded).name}" if uploaded else _UPLOAD
            ),
            self.summary: gr.update(value={"headers": heads, "data": data}),
            self.call: gr.update(maximum=max(count, 2), value=count, label=f"Call (of {count})"),
            **self.look((messages, replays), count),
        }

    @on_event
    def look(self, opened: tuple[list[BaseMessage], list[Replay]] | None, number: float) -> Update:
        """Show another call of the thread that is ``opened``, as each builder reads it."""
        if opened is None:
            return {}
        messages, replays = opened
        call = min(max(int(number), 1), len(replays[0].readings)) - 1
        start = int(messages[0].type == "system")
        history = messages[start : calls_in(messages)[call]]
        readings = [one.readings[call] for one in replays]
        sizes = (f"{reading.audit.tokens_after:,} tokens" for reading in readings)
        heads = [f"{one.kind}: {size}" for one, size in zip(replays, sizes, strict=True)]
        rows = [
            [place + 1, message.type, *(_shown(reading, message) for reading in readings)]
            for place, message in enumerate(history)
        ]
        table = {"headers": ["#", "role", *heads], "data": rows}
        width = max(_WIDE // len(heads), 260)  # all builders side by side, where there is room
        return {self.table: gr.update(value=table, column_widths=[44, 80, *[width] * len(heads)])}


def _shown(reading: Reading, message: BaseMessage) -> str:
    """Return how much of a message one call showed, why, and the text itself, cut to a cell."""
    row = next((row for row in reading.audit.rows if row.key == message.id), None)
    fate = f"{tokens_of(message):,} tokens"
    if row is not None:
        why = f" ({row.why})" if row.why else ""
        fate = f"{row.tokens_after:,} of {row.tokens_before:,} tokens, {row.fate}{why}"
    visible = next((m for m in reading.messages if m.id == message.id), None)
    if visible is None:
        return fate
    called = calls_text(visible) if isinstance(visible, AIMessage) else ""
    text = " ".join(filter(None, (text_of(visible), called))) or "(nothing)"
    return f"{fate}: {short(text, _MOST)}"
