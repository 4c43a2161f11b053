"""Progress of long work on standard error: a bar on a terminal, elsewhere a line now and then.

    for part in Progress(parts, "index", unit="passage"): ...

prints "stategate: index: 512 of 2000 passages, 00:12 so far, 00:35 left" where nobody sees a bar.
What ends within two seconds shows nothing.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from typing import Any

from tqdm import tqdm

#: Takes a line, and the share that is done (0 where it is unknown).
Report = Callable[[str, float], None]

#: Seconds until the first line, and between lines.
PATIENCE, _EVERY = 2.0, 10.0
_report: ContextVar[Report | None] = ContextVar("report", default=None)
#: What goes on by identity (tqdm's bars are equal where their places are), the outermost first.
_active: "dict[int, Progress]" = {}


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
        super().__init__(items, what or "working", total=total, delay=PATIENCE, **{**look, **place})
        self._ended, self._report = threading.Event(), _report.get()
        if self.disable:
            return
        _active[id(self)] = self
        if not is_drawn or self._report:
            threading.Thread(target=self._tick, args=(is_drawn,), daemon=True).start()

    def __iter__(self) -> Iterator[Any]:
        """Yield the items; tqdm itself counts them only when it draws."""
        with self:
            for item in self.iterable:
                yield item
                self.update()

    def close(self) -> None:
        """End it."""
        if _active.pop(id(self), None) is not None:
            self._ended.set()
        super().close()

    def line(self) -> str:
        """Return what is done of how much, since when, and for how long still."""
        units = "B" if self.unit == "B" else "{unit}s"
        count = f"{{n_fmt}} of {{total_fmt}} {units}, " if self.total else ""
        left = ", {remaining} left" if self.total and self.n > self.initial else ""
        form = f"{{desc}}: {count}{{elapsed}} so far{left}"
        return str(self.format_meter(**{**self.format_dict, "bar_format": form, "ncols": None}))

    def _tick(self, is_drawn: bool) -> None:
        wait = PATIENCE
        while not self._ended.wait(wait):
            wait = _EVERY
            # One line for all that goes on in a call, by the outermost.
            bars = [bar for bar in list(_active.values()) if bar._report is self._report]
            if not bars or bars[0] is not self:
                continue
            line = "; ".join(bar.line() for bar in bars if bar.total) or bars[-1].line()
            if not is_drawn:
                sys.stderr.write(f"stategate: {line}\n")
            if self._report is not None:
                self._report(line, self.n / self.total if self.total else 0.0)


@contextmanager
def reports_to(report: Report) -> Iterator[None]:
    """Send the lines about what this context begins to ``report``, too."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)
