"""Read HTML and PDF in a child process, within limits of time, memory, pages and text.

A file from outside can keep a parser busy for hours or fill the memory, whatever its size. The child
reads one file after another; where one takes too long or too much, the child ends, the file is
reported, and the next file gets another child.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from importlib.util import find_spec

from stategate.stores.corpus.formats import Unreadable, html_text, mail_text, pdf_text
from stategate.stores.errors import require_extra

SECONDS, MEMORY, PAGES, CHARACTERS = 20.0, 2 << 30, 5_000, 20_000_000


@dataclass
class Limits:
    """What one file may take: seconds, bytes of memory, pages of a PDF, characters of text."""

    seconds: float = SECONDS
    memory: int = MEMORY
    pages: int = PAGES
    characters: int = CHARACTERS


class Reader:
    """One child process, started when it is needed. Threads take turns."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._turn = threading.Lock()

    def read(self, raw: bytes, suffix: str, charset: str | None = None) -> tuple[str, str]:
        """Return title and text of a page (".html") or a PDF. Raises ``Unreadable``."""
        package = "pypdf" if suffix == ".pdf" else "bs4"
        with require_extra("qa"):
            if find_spec(package) is None:
                __import__(package)
        with self._turn:
            child = self._running()
            late = threading.Event()

            def stop() -> None:
                late.set()
                child.kill()

            timer = threading.Timer(self.limits.seconds, stop)
            timer.start()
            try:
                if child.stdin is None or child.stdout is None:
                    raise EOFError
                child.stdin.write(json.dumps([suffix, charset, len(raw)]).encode() + b"\n" + raw)
                child.stdin.flush()
                answer = json.loads(child.stdout.readline())
            except (OSError, EOFError, ValueError):
                self.close()
                if late.is_set():
                    raise Unreadable(f"reading it takes over {self.limits.seconds:.0f} s") from None
                limit = f"{self.limits.memory / 1e9:.0f} GB of memory"
                raise Unreadable(f"reading it ends the reader (limit: {limit})") from None
            finally:
                timer.cancel()
        if "problem" in answer:
            raise Unreadable(str(answer["problem"]))
        return str(answer["title"]), str(answer["text"])

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None and self._owner == os.getpid():
            child.kill()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()
            child.wait()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._child is None or self._owner != os.getpid() or self._child.poll() is not None:
            limits = json.dumps(vars(self.limits))
            code = (
                "import sys; from stategate.stores.corpus import reader; reader.serve(sys.argv[1])"
            )
            paths = os.pathsep.join(path or "." for path in sys.path)
            self._child = subprocess.Popen(  # noqa: S603 - this very Python
                [sys.executable, "-c", code, limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
            )
            self._owner = os.getpid()
            atexit.register(self.close)
        return self._child


#: What this process reads files with.
shared = Reader()


def serve(settings: str) -> None:
    """Answer requests on standard input until it ends: the child's own part."""
    limits = Limits(**json.loads(settings))
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints is no answer
    _confine(limits)
    while True:
        head = source.readline()
        if not head:
            return
        suffix, charset, size = json.loads(head)
        raw = source.read(size)
        try:
            if suffix == ".pdf":
                title, text = pdf_text(raw, limits.pages, limits.characters)
            elif suffix == ".eml":
                title, text = mail_text(raw)
            else:
                title, text = html_text(raw, charset)
            if len(text) > limits.characters:
                problem = f"more than {limits.characters / 1e6:.0f} million characters of text"
                raise Unreadable(problem)
            answer = {"title": title, "text": text}
        except Unreadable as problem:
            answer = {"problem": str(problem)}
        except RecursionError:
            answer = {"problem": "its parts are nested too deeply"}
        print(json.dumps(answer), file=target, flush=True)


def _confine(limits: Limits) -> None:
    """Let the system hold the child to its memory, and end it where its parent is gone."""
    try:
        import resource
        import signal
    except ImportError:  # not on this system: the parent's clock remains
        return
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime + 3600)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
