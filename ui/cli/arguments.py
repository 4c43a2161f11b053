"""The command line as others see it: ``ps`` shows every argument to everybody on the machine."""

from contextlib import suppress
from pathlib import Path

from stategate.stores.text import secrets_in

#: In ``/proc/self/stat``, after the name in brackets: where the arguments begin and end (proc(5)).
_START, _END = 45, 46


def hide_passwords(process: Path = Path("/proc/self")) -> int:
    """Write stars over the passwords among this process's arguments; returns over how many.

    What the program itself was given stays as it is. Linux only: elsewhere, and in the moment before
    this is called, a password is kept from others by an environment variable (``$STATEGATE_POSTGRES``).
    """
    hidden = 0
    with suppress(OSError, ValueError, IndexError):
        numbers = (process / "stat").read_text().rpartition(")")[2].split()
        start, end = int(numbers[_START]), int(numbers[_END])
        with (process / "mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            arguments = memory.read(end - start)
            for begin, behind in secrets_in(arguments.decode("latin-1")):
                memory.seek(start + begin)
                memory.write(b"*" * (behind - begin))
                hidden += 1
    return hidden
