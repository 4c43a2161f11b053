"""What all tabs share: the server's workspaces, long moves under watch, and errors as messages."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from importlib.resources import files
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any, TypeVar, cast

import gradio as gr
from markupsafe import Markup

from stategate.stores.errors import ModelUnavailable, UserError, describe_error, error_with_type
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


Method = TypeVar("Method", bound=Callable[..., Any])


def telling(method: Method) -> Method:
    """Let an error of a tab's method be the message in its ``status``.

    A method that yields ends as the tab's ``rest(error)``, if it has one, says: without the buttons of
    a long move.
    """
    if isgeneratorfunction(method):

        @wraps(method)
        def watched(self: Any, *args: Any) -> Iterator[Update]:
            try:
                yield from method(self, *args)
            except Exception as error:
                rest: Callable[..., Update] = getattr(self, "rest", lambda error: {})
                yield {**rest(error), self.status: failed(error)}
            yield nothing(self)

        return watched  # type: ignore[return-value]

    @wraps(method)
    def guarded(self: Any, *args: Any) -> Update:
        try:
            return cast(Update, method(self, *args))
        except Exception as error:  # whatever a node or a store raises must not end the page
            return {self.status: failed(error)}

    return guarded  # type: ignore[return-value]


def nothing(tab: Any) -> Update:
    """Return the update that changes nothing: the last one of everything that yields.

    Gradio sends a generator's last update once more when it ends, which may be after the next move has
    drawn the tab: a page drawn twice would stand over what came since.
    """
    return {tab.status: gr.skip()}


def file_of(tab: Any, name: str, noun: str, write: Callable[[Path], int]) -> dict[Any, Any]:
    """Hand what ``write`` writes (it returns of how many) to the browser, through a tab's ``text``."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            count = write(Path(folder) / name)
            text = (Path(folder) / name).read_text(encoding="utf-8")
    except UserError as error:
        return {tab.status: failed(error), tab.text: ""}
    return {tab.text: f"{name}\n{text}", tab.status: note(f"{count} {noun} exported.", "good")}


def button(label: str, name: str, width: int, **more: Any) -> Any:
    """Return a button as wide as it needs to be, called ``sg-NAME``."""
    settings: dict[str, Any] = {"size": "md", "scale": 0, "min_width": width, **more}
    return gr.Button(label, elem_id=f"sg-{name}", **settings)


def progress_line(watch: "Watch", label: str, done: int, total: int) -> Markup:
    """Draw how far a long move is."""
    return working(label, watch.since) + macros("parts").progress(done, total)


def leaving(holder: Any) -> Callable[[], bool]:
    """Return what says whether the move that now begins was left (see ``abandon``)."""
    epoch = holder.epoch
    return lambda: bool(holder.epoch != epoch)


def data_of(event: Any) -> dict[str, Any]:
    """Return what an HTML element's event carried."""
    carried = getattr(event, "_data", None)
    return carried if isinstance(carried, dict) else {}


def problem_of(error: BaseException) -> str:
    """Tell an error in one line."""
    return (
        describe_error(error, 1000) if isinstance(error, UserError) else error_with_type(error, 300)
    )


def worth_retrying(error: BaseException) -> bool:
    """Say whether the same move may succeed when it is made again."""
    return isinstance(error, ModelUnavailable) or not isinstance(error, UserError)


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
        self._label = label
        self._is_left = is_left
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
