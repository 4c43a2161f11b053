"""The Messages tab: any agent's thread, and what each builder would have shown call by call."""

from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from stategate.evals.replay.threads import NOTHING, Replay, calls_in, replay
from stategate.graph.exported import from_plain, read_messages
from stategate.stores.errors import UserError
from stategate.stores.files import parse_json
from stategate.ui.app.render.html import empty
from stategate.ui.app.render.messages import render_call, render_summary
from stategate.ui.app.tabs.common import QUIET, App, Update, button, telling

_KINDS = ["compress", "window", "full", "query_rag", "recall"]
_HINT = (
    "Paste an exported list of messages, or name a JSON file, or a checkpoint database and a thread "
    "(agent.sqlite#thread-1); then choose builders and a budget."
)


@dataclass
class Opened:
    """What one browser tab looks at."""

    messages: list[Any]
    replays: list[Replay] = field(default_factory=list)


class MessagesTab:
    """The tab's components and what they do."""

    def __init__(self, app: App, where: str = "") -> None:
        self.app = app
        with gr.Row(elem_classes="sg-agentbar"):
            self.where = gr.Textbox(
                where,
                label="File, or database#thread",
                elem_id="sg-msg-where",
                scale=3,
                min_width=260,
            )
            self.kinds = gr.Dropdown(
                _KINDS,
                value=["compress"],
                multiselect=True,
                label="Builders beside nothing",
                elem_id="sg-msg-kinds",
                scale=2,
                min_width=220,
            )
            self.budget = gr.Number(
                8000,
                label="Budget (tokens)",
                minimum=100,
                precision=0,
                elem_id="sg-msg-budget",
                min_width=120,
            )
            self.open_button = button("Show", "msg-open", 90, variant="primary")
        with gr.Accordion("Or paste messages", open=False):
            self.pasted = gr.Textbox(label="Messages as JSON", lines=5, elem_id="sg-msg-pasted")
        self.status = gr.HTML(elem_id="sg-msg-status")
        self.summary = gr.HTML(empty("No thread open", _HINT), elem_id="sg-msg-summary")
        self.call = gr.Slider(
            1, 2, value=1, step=1, label="Call", elem_id="sg-msg-call", visible=False
        )
        self.reading = gr.HTML(elem_id="sg-msg-reading")
        self.state = gr.State(None)

    @telling
    def open(
        self, where: str | None, pasted: str | None, kinds: list[str], budget: float
    ) -> Update:
        """Read the thread and let every builder read it; show the last call."""
        messages = (
            _pasted(pasted) if (pasted or "").strip() else read_messages((where or "").strip())
        )
        # Messages need names to be followed through a builder; an export often has none.
        messages = [
            m if m.id else m.model_copy(update={"id": f"m{i}"}) for i, m in enumerate(messages)
        ]
        names = [NOTHING, *(kind for kind in kinds if kind != NOTHING)]
        opened = Opened(messages, [replay(messages, kind, int(budget)) for kind in names])
        count = len(opened.replays[0].readings)
        return {
            self.status: "",
            self.state: opened,
            self.summary: render_summary(opened.replays),
            self.call: gr.update(
                minimum=1,
                maximum=max(count, 2),
                value=count,
                visible=True,
                label=f"Call (of {count})",
            ),
            self.reading: self._drawn(opened, count),
        }

    @telling
    def look(self, opened: Opened | None, number: float) -> Update:
        """Show another call."""
        if opened is None:
            return {self.reading: ""}
        return {self.reading: self._drawn(opened, int(number)), self.status: ""}

    @staticmethod
    def _drawn(opened: Opened, number: int) -> Any:
        places = calls_in(opened.messages)
        number = min(max(number, 1), len(places))
        start = int(opened.messages[0].type == "system")
        history = opened.messages[start : places[number - 1]]
        return render_call(opened.replays, number - 1, history)

    def wire(self) -> None:
        """Connect events."""
        self.inputs = [self.where, self.pasted, self.kinds, self.budget]
        self.outputs = [self.status, self.state, self.summary, self.call, self.reading]
        self.open_button.click(self.open, self.inputs, self.outputs, **QUIET)
        self.where.submit(self.open, self.inputs, self.outputs, **QUIET)
        looked = [self.reading, self.status]
        self.call.release(self.look, [self.state, self.call], looked, **QUIET)
        self.call.change(self.look, [self.state, self.call], looked, **QUIET)

    def load(self, blocks: Any) -> None:
        """Open the thread that was named as soon as the page is there."""
        blocks.load(self.open, self.inputs, self.outputs, **QUIET)


def _pasted(text: str | None) -> list[Any]:
    try:
        values = parse_json(text or "")
    except ValueError:
        raise UserError("what was pasted is no JSON: paste a list of messages") from None
    return from_plain(values, "what was pasted")
