"""Another agent's thread: the bill of each builder, and the messages of one call side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage
from markupsafe import Markup

from stategate.envs.messages.history import calls_text, key_of, text_of, tokens_of
from stategate.evals.replay.billing import BILLERS
from stategate.evals.replay.threads import Reading, Replay
from stategate.nodes.build_context.messages.audit import Row
from stategate.stores.tokens import count_tokens
from stategate.ui.app.render.html import macros

_MOST = 20_000  # characters of a message that are drawn


@dataclass(frozen=True)
class Line:
    """A message as it is drawn; ``fate`` is a CSS class, ``says`` tells it in words."""

    role: str
    text: str
    size: str
    fate: str
    says: str
    why: str = ""


def render_summary(replays: Sequence[Replay]) -> Markup:
    """Draw the whole thread's bill by builder; shares are of the first one's."""
    whole = replays[0].dollars["anthropic"] or 1.0
    rows = [
        {
            "kind": one.kind,
            "tokens": one.tokens,
            **one.dollars,
            "share": one.dollars["anthropic"] / whole,
            "cuts": sum(r.audit.is_cut for r in one.readings),
            "over": sum(bool(r.audit.over_by) for r in one.readings),
            "models": " and ".join(BILLERS.values()),
        }
        for one in replays
    ]
    return macros("messages").summary(rows, len(replays[0].readings))


def render_call(replays: Sequence[Replay], number: int, history: Sequence[BaseMessage]) -> Markup:
    """Draw call ``number`` (from 0) through each builder, beside each other."""
    columns = []
    for one in replays:
        reading = one.readings[number]
        columns.append(
            {
                "kind": one.kind,
                "tokens": reading.audit.tokens_after,
                "dollars": reading.dollars["anthropic"],
                "audit": reading.audit,
                "lines": _lines(reading, history),
            }
        )
    return macros("messages").calls(columns)


def _lines(reading: Reading, history: Sequence[BaseMessage]) -> list[Line]:
    """Return the call's messages in order, those that are left out in their places."""
    rows = {row.key: row for row in reading.audit.rows}
    shown = {key_of(message, -1): message for message in reading.messages if message.id}
    lines: list[Line] = []
    for place, message in enumerate(history):
        key = key_of(message, place)
        row = rows.get(key)
        lines.append(_line(shown.get(key, message), message, row))
    tails = [m for m in reading.messages if str(m.id or "").startswith("stategate-tail-")]
    return [*lines, *(_line(m, m, None, "brought back") for m in tails)]


def _line(shown: BaseMessage, whole: BaseMessage, row: Row | None, says: str = "") -> Line:
    size = tokens_of(whole, count_tokens) if row is None else row.tokens_before
    if row is None:
        text = (_text(shown) or "(nothing)")[:_MOST]
        return Line(shown.type, text, f"{size:,} tokens", "brought" if says else "whole", says)
    is_out = row.fate in ("left out", "orphan")
    text = _text(whole if is_out else shown)[:_MOST]
    kept = f"{row.tokens_after:,} of {row.tokens_before:,} tokens"
    fate = "out" if is_out else "short"
    return Line(shown.type, text, kept, fate, row.fate, row.why)


def _text(message: BaseMessage) -> str:
    said = text_of(message)
    called = calls_text(message) if isinstance(message, AIMessage) else ""
    return "\n".join(part for part in (said, called) if part)
