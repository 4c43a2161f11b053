"""What all tabs share: the server's workspaces, components by name, and errors as messages."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from importlib.resources import files
from typing import Any, TypeVar

import gradio as gr
from gradio.blocks import Block
from markupsafe import Markup

from stategate.stores.errors import UserError, describe_error, error_with_type, missing_extra
from stategate.stores.progress import reports_to
from stategate.ui.app.agents import Agents
from stategate.ui.app.html import macros, note
from stategate.ui.app.workspace import Workspace


def asset(name: str) -> str:
    """Return a file of ``ui/app/assets`` as text."""
    return files("stategate.ui.app").joinpath("assets", name).read_text(encoding="utf-8")


#: How every event of a tab is wired: no bar over the components, no public API.
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

T = TypeVar("T")
#: What an event changes: the new value of each component.
Update = dict[Block, Any]
#: What a long move changes as it goes on.
Updates = AsyncIterator[Update]
#: Threads of all tabs' moves. A model that hangs holds one until its deadline: there are many.
_MOVES = ThreadPoolExecutor(64, "move")
#: Seconds after which a move that still goes on says so, and between two looks at it.
PATIENCE = 0.25


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
            self._open.setdefault(tab, Workspace(tab, self.agents))
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

    def busy(self) -> Update:
        """Return what is drawn while a long event goes on, such as buttons that are off."""
        return {}

    async def make(self, label: str, move: Callable[..., Update], *args: object) -> Updates:
        """Yield that a long move goes on, and then what it changes."""
        made: Update = {self.status: ""}
        async for status in moving(label, lambda: made.update(move(*args))):
            yield {**self.busy(), self.status: status}
        yield made

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
            return {self.status: "", **method(self, *self.inputs(values))}
        except Exception as error:  # whatever a node or a store raises must not end the page
            return self.recovered(error, values)

    return guarded


def on_move(label: str) -> Callable[[Callable[..., Update]], Callable[..., Updates]]:
    """Let a tab's long method answer an event, as :func:`on_event` does; meanwhile ``label`` is drawn.

    ``{0}`` in it is what the method is called with first.
    """

    def decorate(method: Callable[..., Update]) -> Callable[..., Updates]:
        @wraps(method)
        def moved(self: Tab, *values: Any) -> Updates:
            return self.make(label.format(*values), method, self, *values)

        return on_moves(moved)

    return decorate


def on_moves(method: Callable[..., Updates]) -> Callable[..., Updates]:
    """Let a tab's method answer an event with update after update, as :func:`on_event` does with one.

    It ends with one that changes nothing: Gradio sends the last update twice, which may be after the
    next move has drawn the tab.
    """

    @wraps(method)
    async def guarded(self: Tab, *values: Any) -> Updates:
        try:
            async for update in method(self, *await in_thread(self.inputs, values)):
                yield update
        except Exception as error:
            yield await in_thread(self.recovered, error, values)
        yield {self.status: gr.skip()}

    return guarded


async def moving(label: str, move: Callable[..., object], *args: object) -> AsyncIterator[Markup]:
    """Make a long move in a thread of its own; where its page is closed it ends there by itself.

    Yields, now and then, what to draw while it goes on: ``label``, or how far it is. Two quick updates
    of one component reach the page in either order: a move that ends at once yields nothing, and what
    is drawn stands for :data:`PATIENCE` seconds. Raises what the move raises.
    """
    lines = [label]

    def run() -> None:
        with reports_to(lines.append):
            move(*args)

    task = asyncio.ensure_future(in_thread(run))
    await asyncio.wait([task], timeout=PATIENCE)
    while not task.done():
        yield working(lines[-1])
        await asyncio.sleep(PATIENCE)
    await task


async def in_thread(call: Callable[..., T], *args: object) -> T:
    """Return what ``call`` returns in another thread: the server answers others meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_MOVES, call, *args)


def button(label: str, name: str, width: int, **more: Any) -> gr.Button:
    """Return a button as wide as it needs to be, called ``sg-NAME``."""
    settings: dict[str, Any] = {"size": "md", "scale": 0, "min_width": width, **more}
    return gr.Button(label, elem_id=f"sg-{name}", **settings)


def box(label: str, name: str, width: int = 220, **more: Any) -> gr.Textbox:
    """Return a box for text, called ``sg-NAME``."""
    return gr.Textbox(label=label, elem_id=f"sg-{name}", lines=1, min_width=width, **more)


def bare_box(hint: str, name: str, scale: int) -> gr.Textbox:
    """Return a box for text that stands in a row of buttons, its label inside."""
    how: dict[str, Any] = {"show_label": False, "container": False, "scale": scale}
    return box(hint, name, 200, placeholder=hint, **how)


def choice(label: str, name: str, width: int = 220, **more: Any) -> gr.Dropdown:
    """Return a list to choose from, called ``sg-NAME``; nothing is chosen yet."""
    settings: dict[str, Any] = {"choices": [], "value": None, **more}
    return gr.Dropdown(label=label, elem_id=f"sg-{name}", min_width=width, **settings)


def radio(label: str, name: str, width: int = 220, **more: Any) -> gr.Radio:
    """Return a choice that shows everything there is to choose, called ``sg-NAME``."""
    settings: dict[str, Any] = {"min_width": width, "scale": 2, **more}
    return gr.Radio(label=label, elem_id=f"sg-{name}", **settings)


def budget(name: str, value: int) -> gr.Slider:
    """Return the slider for the tokens that a context may have, called ``sg-NAME``."""
    how: dict[str, Any] = {"label": "Budget (tokens)", "min_width": 220, "scale": 2}
    # From 0 on: what is typed is read letter by letter.
    return gr.Slider(0, 2000, value=value, step=10, elem_id=f"sg-{name}", **how)


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


def working(label: str) -> Markup:
    """Draw that something goes on."""
    return macros("parts").working(label)


def failed(error: BaseException) -> Markup:
    """Draw an error as a message."""
    return note(problem_of(error), "bad", "That did not work.")
