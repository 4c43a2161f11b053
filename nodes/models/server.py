"""The embedded model server: llama.cpp (package ``xllamacpp``) on loopback, behind a random key.

``serve(model)`` starts at most one server per model file for this process and returns it; later
calls share it. It speaks the OpenAI protocol, caches the last prompt (of the next one only the
part after the common prefix is read), and ends with the process that started it.

The library runs in a child process, tied to this one by a pipe. Within this process it has three
faults: loading a model blocks every Python thread, stopping in the middle of an
answer waits forever, and leaving it to the interpreter's exit crashes.
"""

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx2

from stategate.stores.errors import ModelUnavailable, UserError

_CHILD = Path(__file__).with_name("llama_child.py")
#: Bytes that llama.cpp needs beside the weights: compute buffers and vocabulary; and for each token of
#: context in a small model (one of 8 billion parameters needs four times that).
_OVERHEAD, _BYTES_PER_TOKEN = 350_000_000, 30_000


@dataclass
class LlamaServer:
    """A running server. ``base_url`` ends in /v1; the key is valid for this server only."""

    model: Path
    n_ctx: int
    base_url: str
    api_key: str = field(repr=False)
    process: "subprocess.Popen[str]" = field(repr=False)


#: This process's servers, by model file.
_running: dict[Path, LlamaServer] = {}
_lock = threading.Lock()


def serve(
    model: Path, *, n_ctx: int = 4096, threads: int | None = None, timeout: float = 120.0
) -> LlamaServer:
    """Return the server of a GGUF file, started if it is not running yet.

    A running server with at least ``n_ctx`` tokens of context is shared; a larger ``n_ctx`` starts a
    second one beside it (weights are memory-mapped, so they are shared too). ``threads`` defaults to
    the cores this process may use; ``timeout`` in seconds is how long a start may take.

    Raises ``UserError`` for a missing or damaged file, a context beyond the model's, too little memory,
    and a server that does not come up in time.
    """
    model = model.expanduser().resolve()
    with _lock:
        running = _running.get(model)
        is_up = running is not None and running.process.poll() is None
        if running is not None and is_up and running.n_ctx >= n_ctx:
            return running
        _check(model, n_ctx)
        server = _start(model, n_ctx, threads or _cores(), timeout)
        _running[model] = server
        return server


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check(model: Path, n_ctx: int) -> None:
    if not model.is_file():
        raise UserError(
            f"no model file at {model}: give the path of a .gguf file, or an asset's name"
        )
    with model.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise UserError(f"{model} is not a GGUF model: fetch it again")
    needed = model.stat().st_size + n_ctx * _BYTES_PER_TOKEN + _OVERHEAD
    free = _available_memory()
    if free is not None and needed > free:
        raise UserError(
            f"{model.name} needs about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are "
            "available: set llm.model=small or a smaller llm.n_ctx"
        )


def _available_memory() -> int | None:
    """Return the bytes that can be had without swapping, where the system tells."""
    with suppress(OSError):
        match = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
        return int(match[1]) * 1024 if match else None
    return None


def _start(model: Path, n_ctx: int, threads: int, timeout: float) -> LlamaServer:
    key = secrets.token_urlsafe(24)
    settings = {
        "model": str(model),
        "n_ctx": n_ctx,
        "threads": threads,
        "key": key,  # through the pipe: arguments and environments can be read by others
    }
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryFile("w+") as errors:
        # -P keeps this folder off the child's import path; a session of its own keeps a Ctrl-C that
        # is meant for us from ending it under us.
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        alarm = threading.Timer(timeout, process.kill)
        alarm.start()
        try:
            print(json.dumps(settings), file=process.stdin, flush=True)
            address = json.loads(process.stdout.readline() if process.stdout else "")["address"]
            while (longest := _longest_context(f"{address}/v1", key)) is None:
                if process.poll() is not None:
                    raise ValueError("it ended")
                time.sleep(0.05)
        except (OSError, ValueError):  # the child ended; standard error says why
            ended = process.wait(10)
            _end(process)
            raise _failure(model, ended, time.monotonic() > deadline, errors, timeout) from None
        except BaseException:
            _end(process)
            raise
        finally:
            alarm.cancel()
    if n_ctx > longest:
        _end(process)
        raise UserError(
            f"{model.name} reads at most {longest} tokens: set llm.n_ctx to that or less"
        )
    return LlamaServer(model, n_ctx, f"{address}/v1", key, process)


def _failure(model: Path, ended: int, is_late: bool, errors: IO[str], timeout: float) -> UserError:
    if is_late:
        return ModelUnavailable(
            f"the server of {model.name} did not answer within {timeout:g} s: "
            "set llm.model=small or a larger llm.timeout"
        )
    if ended < 0:
        return UserError(
            f"the system ended the server of {model.name} (signal {-ended}), most likely for want of "
            "memory: set llm.model=small or a smaller llm.n_ctx"
        )
    errors.seek(0)
    lines = errors.read().splitlines() or [""]
    reason_line = next((line for line in lines if re.match(r"[\d.]+ E ", line)), lines[-1])
    reason = re.sub(r"^[\d.]+ E |\s+", " ", reason_line).strip()[:200]
    return UserError(
        f"llama.cpp could not load {model} ({reason}): fetch it again or give another file"
    )


def _end(process: "subprocess.Popen[str]") -> None:
    """End a server at once and free its memory; safe to call twice."""
    process.kill()  # it has nothing to save
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not sent yet
                pipe.close()


def _longest_context(base_url: str, key: str) -> int | None:
    """Return how many tokens the server's model was trained to read, None while it does not answer."""
    headers = {"Authorization": f"Bearer {key}"}
    try:  # on loopback, so by no proxy
        reply = httpx2.get(f"{base_url}/models", headers=headers, timeout=2, trust_env=False)
        return int(reply.json()["data"][0]["meta"]["n_ctx_train"])
    except (httpx2.HTTPError, LookupError, TypeError, ValueError):
        return None
