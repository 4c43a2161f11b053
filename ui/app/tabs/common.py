"""What all tabs share: the server's workspaces, long moves under watch, and errors as messages."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from importlib.resources import files
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any, TypeVar, cast

import gradio as gr
from markupsafe import Markup

from stategate.stores.errors import UserError, describe_error, error_with_type
from stategate.ui.app.render.html import macros, note
from stategate.ui.app.workspace import Workspace, Workspaces

#: Seconds before a move that is still going on says so, and between two such messages.
PATIENCE, BEAT = 0.25, 0.5


def asset(name: str) -> str:
    """Return a file of ``ui/app/assets`` as text."""
    return files("stategate.ui.app").joinpath("assets", name).read_text(encoding="utf-8")


#: Clicks and forms inside drawn HTML become events.
EVENTS_JS = asset("events.js")
#: Saves a text as a file of the browser's.
SAVE_JS = asset("save.js")
#: How every event of a tab is wired: no bar over the components, no public API.
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

#: What an event changes: the new value of each component.
Update = dict[Any, Any]


@dataclass
class App:
    """One server: its tabs' workspaces, and the component that names the tab in every event."""

    workspaces: Workspaces
    tab: Any = None

    def of(self, tab: str | None) -> Workspace:
        """Return the workspace of a browser tab."""
        return self.workspaces.of(tab)


class Tab:
    """A tab with a place for messages."""

    status: Any

    def rest(self, error: BaseException) -> Update:
        """Return what else an error of a long move changes, such as its buttons."""
        return {}

    def parts(self) -> list[Any]:
        """Return every component that the tab holds."""
        return [part for part in vars(self).values() if isinstance(part, gr.blocks.Block)]


Method = TypeVar("Method", bound=Callable[..., Any])


def telling(method: Method) -> Method:
    """Let an error of a tab's method be the message in its ``status``.

    A method that yields ends as the tab's ``rest(error)`` says: without the buttons of a long move.
    """
    if isgeneratorfunction(method):

        @wraps(method)
        def watched(self: Tab, *args: Any) -> Iterator[Update]:
            try:
                yield from method(self, *args)
            except Exception as error:
                yield {**self.rest(error), self.status: failed(error)}
            yield nothing(self)

        return watched  # type: ignore[return-value]

    @wraps(method)
    def guarded(self: Tab, *args: Any) -> Update:
        try:
            return cast(Update, method(self, *args))
        except Exception as error:  # whatever a node or a store raises must not end the page
            return {self.status: failed(error)}

    return guarded  # type: ignore[return-value]


def nothing(tab: Tab) -> Update:
    """Return the update that changes nothing: the last one of everything that yields.

    Gradio sends a generator's last update once more when it ends, which may be after the next move has
    drawn the tab: a page drawn twice would stand over what came since.
    """
    return {tab.status: gr.skip()}


def exported(name: str, noun: str, write: Callable[[Path], int]) -> tuple[str, Markup]:
    """Return a file's name and text for ``save.js``, and a message; ``write`` returns the count."""
    with tempfile.TemporaryDirectory() as folder:
        count = write(Path(folder) / name)
        text = (Path(folder) / name).read_text(encoding="utf-8")
    return f"{name}\n{text}", note(f"{count} {noun} exported.", "good")


def button(label: str, name: str, width: int, **more: Any) -> Any:
    """Return a button as wide as it needs to be, called ``sg-NAME``."""
    settings: dict[str, Any] = {"size": "md", "scale": 0, "min_width": width, **more}
    return gr.Button(label, elem_id=f"sg-{name}", **settings)


def box(label: str, name: str, width: int = 220, **more: Any) -> Any:
    """Return a box for text, called ``sg-NAME``."""
    return gr.Textbox(label=label, elem_id=f"sg-{name}", lines=1, min_width=width, **more)


def choice(label: str, name: str, width: int = 220, **more: Any) -> Any:
    """Return a list to choose from, called ``sg-NAME``; nothing is chosen yet."""
    settings: dict[str, Any] = {"choices": [], "value": None, **more}
    return gr.Dropdown(label=label, elem_id=f"sg-{name}", min_width=width, **settings)


def number(label: str, name: str, value: Any, **more: Any) -> Any:
    """Return a box for a number, called ``sg-NAME``; without fractions unless told otherwise."""
    settings: dict[str, Any] = {"precision": 0, "min_width": 120, **more}
    return gr.Number(value, label=label, elem_id=f"sg-{name}", **settings)


def radio(label: str, name: str, width: int = 220, **more: Any) -> Any:
    """Return a choice that shows everything there is to choose, called ``sg-NAME``."""
    settings: dict[str, Any] = {"min_width": width, "scale": 2, **more}
    return gr.Radio(label=label, elem_id=f"sg-{name}", **settings)


def upload(label: str, name: str, width: int, **more: Any) -> Any:
    """Return a button that takes files, called ``sg-NAME``."""
    settings: dict[str, Any] = {"size": "md", "scale": 0, "min_width": width, **more}
    return gr.UploadButton(label, elem_id=f"sg-{name}", **settings)


def budget(name: str, value: int) -> Any:
    """Return the slider for the tokens that a context may have, called ``sg-NAME``."""
    how: dict[str, Any] = {"label": "Budget (tokens)", "min_width": 220, "scale": 2}
    return gr.Slider(20, 2000, value=value, step=10, elem_id=f"sg-{name}", **how)


def drawn(name: str, value: Any = None) -> Any:
    """Return a place for drawn HTML whose buttons and forms are events, called ``sg-NAME``."""
    return gr.HTML(value, js_on_load=EVENTS_JS, elem_id=f"sg-{name}")


def frame(name: str, label: str, headers: Sequence[str], **more: Any) -> Any:
    """Return a table that is only looked at, called ``sg-NAME``."""
    settings: dict[str, Any] = {"wrap": True, "interactive": False, "buttons": [], **more}
    return gr.Dataframe(
        headers=list(headers) or None, label=label, elem_id=f"sg-{name}", **settings
    )


@contextmanager
def beside(scale: int = 5) -> Iterator[None]:
    """Lay what is made inside as one column of a stage."""
    with gr.Column(scale=scale, min_width=320):
        yield


def leaving(holder: Any) -> Callable[[], bool]:
    """Return a function that says whether the move that now begins was left (see ``abandon``)."""
    epoch = holder.epoch
    return lambda: bool(holder.epoch != epoch)


def data_of(event: gr.EventData) -> dict[str, Any]:
    """Return what an HTML element's event carried."""
    carried = event._data
    return carried if isinstance(carried, dict) else {}


def problem_of(error: BaseException) -> str:
    """Tell an error in one line."""
    return (
        describe_error(error, 1000) if isinstance(error, UserError) else error_with_type(error, 300)
    )


def working(label: str, since: float) -> Markup:
    """Draw that something goes on, and for how long."""
    return macros("parts").working(label, time.monotonic() - since)


def failed(error: BaseException) -> Markup:
    """Draw an error as a message."""
    return note(problem_of(error), "bad", "That did not work.")


class Watch:
    """A move in a thread of its own: iterate over it to learn that it still goes on.

    ``is_left`` says that nobody waits for it any more: the iteration ends, and the thread by itself.
    """

    def __init__(
        self, move: Callable[[], Any], label: str, is_left: Callable[[], bool] = lambda: False
    ) -> None:
        self._label, self._is_left = label, is_left
        self._future: Future[Any] = Future()
        self.since = time.monotonic()
        threading.Thread(target=self._run, args=(move,), daemon=True).start()

    def _run(self, move: Callable[[], Any]) -> None:
        try:
            self._future.set_result(move())
        except BaseException as error:  # told to whoever watches
            self._future.set_exception(error)

    @property
    def result(self) -> Any:
        """What the move returned, None while it goes on."""
        return self._future.result() if self._future.done() else None

    def __iter__(self) -> Iterator[Markup]:
        """Yield a message now and then until the move ends; raises what it raised."""
        wait = PATIENCE
        while True:
            with suppress(TimeoutError):
                self._future.exception(wait)
            if self._is_left():
                return
            if self._future.done():
                break
            yield working(self._label, self.since)
            wait = BEAT
        self._future.result()


class Progress:
    """How far a long move is, drawn as a line and a bar."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> Markup:
        """Draw that ``done`` of ``total`` are done."""
        line = working(f"{what}: {done} of {total}", self._since)
        return line + macros("parts").progress(done, total)
