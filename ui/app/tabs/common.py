"""What all tabs share: the server's workspaces, components by name, and errors as messages."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import wraps
from importlib.resources import files
from typing import Any

import gradio as gr
from gradio.blocks import Block
from markupsafe import Markup

from stategate.stores.errors import UserError, describe_error, error_with_type, missing_extra
from stategate.stores.progress import Report, reports_to
from stategate.ui.app.agents import Agents
from stategate.ui.app.html import note
from stategate.ui.app.workspace import Workspace


def asset(name: str) -> str:
    """Return a file of ``ui/app/assets`` as text."""
    return files("stategate.ui.app").joinpath("assets", name).read_text(encoding="utf-8")


#: How every event of a tab is wired: no bar over the components, no public API.
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


def shown_on(status: gr.HTML) -> dict[str, Any]:
    """Return how a long event is wired: Gradio says in ``status`` that it goes on, and for how long."""
    return {**QUIET, "show_progress": "minimal", "show_progress_on": status}


#: What an event changes: the new value of each component.
Update = dict[Block, Any]
#: What a long move changes as it goes on.
Updates = Iterator[Update]


@dataclass
class App:
    """One server: its browser tabs' workspaces, and the component that names the tab in events."""

    agents: Agents
    tab: gr.Textbox = field(init=False)
    _open: dict[str, Workspace] = field(default_factory=dict)

    def of(self, tab: str | None) -> Workspace:
        """Return the workspace of a browser tab. Raises ``UserError`` for a page without a name."""
        if not tab:
            raise UserError("this page has lost its name: reload it")
        if tab not in self._open:
            self._open.setdefault(tab, Workspace(self.agents))
        return self._open[tab]


class Tab:
    """A tab with a place for messages."""

    status: gr.HTML

    def idle(self, *values: object) -> Update:
        """Return what an error changes beside the message; ``values`` are those of its event."""
        return {}

    def recovered(self, error: Exception, values: tuple[Any, ...]) -> Update:
        """Return what an error of an event draws."""
        idle: Update = {}
        with suppress(Exception):  # what failed may fail again
            idle = self.idle(*values)
        return {**idle, self.status: failed(error)}

    def parts(self) -> list[Block]:
        """Return every component that the tab holds."""
        return [part for part in vars(self).values() if isinstance(part, Block)]

    def inputs(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what a method of the tab is called with for the values of an event."""
        return values


class AgentTab(Tab):
    """A tab whose events name a browser tab; its methods get that tab's workspace."""

    app: App

    def inputs(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the workspace of the browser tab that an event names, and its other values."""
        return (self.app.of(values[0]), *values[1:])


def on_event(method: Callable[..., Update]) -> Callable[..., Update]:
    """Let a tab's method answer an event; its error, or nothing, is the message in ``status``."""

    @wraps(method)
    def guarded(self: Tab, *values: Any) -> Update:
        try:
            with reports_to(_progress_of_event()):
                return {self.status: "", **method(self, *self.inputs(values))}
        except Exception as error:  # whatever a node or a store raises must not end the page
            return self.recovered(error, values)

    return guarded


def on_events(method: Callable[..., Updates]) -> Callable[..., Updates]:
    """Let a tab's generator answer an event with update after update, as :func:`on_event` does.

    It ends with one that changes nothing: Gradio sends the last update twice, which may be after the
    next move has drawn the tab.
    """

    @wraps(method)
    def guarded(self: Tab, *values: Any) -> Updates:
        try:
            yield from method(self, *self.inputs(values))
        except Exception as error:
            yield self.recovered(error, values)
        yield {self.status: gr.skip()}

    return guarded


def _progress_of_event() -> Report:
    """Return what shows a line of progress beside the event that is answered, from any thread."""
    context = copy_context()
    return lambda line, share: context.copy().run(gr.Progress(), share, line)


class PlayingTab(AgentTab):
    """A tab that takes several steps in a row, until its button ``stop`` is pressed."""

    stop: gr.Button

    @on_event
    def halt(self, workspace: Workspace) -> Update:
        """Let a run end after the step that is being taken; what came is drawn."""
        workspace.is_stopping = True
        return {self.status: gr.skip(), self.stop: gr.update(interactive=False)}


def button(
    label: str, name: str, width: int, kind: Any = gr.Button, scale: int | None = 0, **more: Any
) -> Any:
    """Return a button of a ``kind`` of Gradio's, as wide as it needs to be, called ``sg-NAME``."""
    return kind(label, elem_id=f"sg-{name}", size="md", scale=scale, min_width=width, **more)


def box(label: str, name: str, width: int = 220, **more: Any) -> gr.Textbox:
    """Return a box for text, called ``sg-NAME``."""
    return gr.Textbox(label=label, elem_id=f"sg-{name}", lines=1, min_width=width, **more)


def choice(label: str, name: str, width: int = 220, **more: Any) -> gr.Dropdown:
    """Return a list to choose from, called ``sg-NAME``; nothing is chosen yet."""
    settings: dict[str, Any] = {"choices": [], "value": None, **more}
    return gr.Dropdown(label=label, elem_id=f"sg-{name}", min_width=width, **settings)


def radio(label: str, name: str, width: int = 220, scale: int = 2, **more: Any) -> gr.Radio:
    """Return a choice that shows everything there is to choose, called ``sg-NAME``."""
    return gr.Radio(label=label, elem_id=f"sg-{name}", min_width=width, scale=scale, **more)


def budget(name: str, value: int) -> gr.Slider:
    """Return the slider for the tokens that a context may have, called ``sg-NAME``."""
    how: dict[str, Any] = {"label": "Budget (tokens)", "min_width": 220, "scale": 2}
    # From 0 on: what is typed is read letter by letter.
    return gr.Slider(0, 2000, value=value, step=10, elem_id=f"sg-{name}", **how)


def status_line(name: str) -> gr.HTML:
    """Return the line for messages and for what goes on, called ``sg-NAME``."""
    return gr.HTML(elem_id=f"sg-{name}", elem_classes="sg-status")


def clickable_html(name: str) -> gr.HTML:
    """Return a place for drawn HTML whose buttons and forms are events, called ``sg-NAME``."""
    return gr.HTML(js_on_load=asset("events.js"), elem_id=f"sg-{name}")


def frame(name: str, label: str, headers: Sequence[str] = (), **more: Any) -> gr.Dataframe:
    """Return a table that is only looked at, called ``sg-NAME``."""
    how: dict[str, Any] = {"wrap": True, "interactive": False, "buttons": [], **more}
    return gr.Dataframe(headers=list(headers) or None, label=label, elem_id=f"sg-{name}", **how)


def chosen(event: gr.EventData, key: str) -> str:
    """Return what a clicked element carries under ``key``, "" where it carries nothing."""
    carried = event._data
    return str(carried.get(key, "")) if isinstance(carried, dict) else ""


def number_of(event: gr.EventData, key: str, below: int) -> int | None:
    """Return the number under ``key`` of a clicked element, None for any other than 0 to ``below``."""
    text = chosen(event, key)
    return int(text) if text.isdigit() and int(text) < below else None


def problem_of(error: BaseException) -> str:
    """Tell an error in one line."""
    error = missing_extra(error) or error
    is_known = isinstance(error, UserError)
    return describe_error(error, 1000) if is_known else error_with_type(error, 300)


def failed(error: BaseException) -> Markup:
    """Draw an error as a message."""
    return note(problem_of(error), "bad", "That did not work.")
