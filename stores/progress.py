"""Progress of long work on standard error: a bar on a terminal, elsewhere a line now and then.

    for part in Progress(parts, "index", unit="passage"): ...

prints "stategate: index: 512 of 2,000 passages, 12 s so far, about 35 s left" where nobody sees a bar.
What ends within two seconds shows nothing.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from typing import Any

from tqdm import tqdm

#: Takes a line, what is done, and the total, None where that is unknown.
Report = Callable[[str, float, float | None], None]

#: Seconds until the first line, and between lines.
PATIENCE, _EVERY = 2.0, 10.0
_report: ContextVar[Report | None] = ContextVar("report", default=None)
#: What goes on, the outermost first.
_active: "list[Progress]" = []


class Progress(tqdm):  # type: ignore[type-arg]
    """tqdm's bar with our look; ``look`` are its options, such as ``unit`` (in the singular)."""

    def __init__(
        self,
        items: Iterable[Any] | None = None,
        what: str = "",
        total: int | None = None,
        **look: Any,
    ) -> None:
        is_drawn = sys.stderr.isatty()
        place = {"file": sys.stderr} if is_drawn else {"file": StringIO(), "mininterval": 1e9}
        super().__init__(items, what, total=total, delay=PATIENCE, **{**look, **place})
        self._ended, self._report = threading.Event(), _report.get()
        if self.disable:
            return
        _active.append(self)
        self._send()
        if not is_drawn or self._report:
            threading.Thread(target=self._tick, args=(is_drawn,), daemon=True).start()

    def close(self) -> None:
        """End it."""
        if not self.disable and self in _active:
            _active.remove(self)
            self._ended.set()
        super().close()

    def line(self) -> str:
        """Return what is done of how much, since when, and for how long still."""
        what, seconds = self.desc.removesuffix(": ") or "working", time.time() - self.start_t
        if self.total:
            scale = 1e-6 if self.unit == "B" else float(self.unit_scale or 1)
            unit = "MB" if self.unit == "B" else f"{self.unit}s"
            what += f": {self.n * scale:,.0f} of {self.total * scale:,.0f} {unit}"
        what += f", {seconds:.0f} s so far"
        if self.total and self.n > self.initial:
            left = seconds * max(self.total - self.n, 0) / (self.n - self.initial)
            what += f", about {left:.0f} s left"
        return what

    def _tick(self, is_drawn: bool) -> None:
        wait = PATIENCE
        while not self._ended.wait(wait):
            wait = _EVERY
            self._send()
            # One line for all that goes on: of the outermost that is counted.
            if not is_drawn and self in _active[:1]:
                bar = next((bar for bar in list(_active) if bar.total), self)
                sys.stderr.write(f"stategate: {bar.line()}\n")

    def _send(self) -> None:
        if self._report is not None:
            self._report(self.line(), self.n, self.total)


@contextmanager
def reports_to(report: Report) -> Iterator[None]:
    """Send the lines of what this context begins to ``report``, too, the first one at once."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)
