"""Where banks of experience are: by name in one folder, and one that ships for a world that has one.

``banks/NAME`` in ``$STATEGATE_HOME`` is where the command line, the app and the nodes look; a path is
taken as it is. The bank ``state`` is what ``experience`` reads and grows by default: where there is
none yet, it begins as a copy of the one that ships for the world, if it is of the same make.
"""

import lzma
import shutil
from pathlib import Path

from filelock import FileLock

from stategate.stores.bank.bank import Bank
from stategate.stores.errors import UserError
from stategate.stores.files import write_bytes
from stategate.stores.home import home
from stategate.stores.tables import is_database

SHIPPED = Path(__file__).parent / "sample"
_FILE = "bank.sqlite"


def bank_place(name: str | Path | None, kind: str = "state") -> str | Path:
    """Return where the bank ``name`` is: a database, a path, the one place, or (None) the default."""
    if name is not None and is_database(name):
        return name
    named = Path(str(name or kind)).expanduser()
    is_path = name is not None and (len(named.parts) > 1 or (named / _FILE).is_file())
    return named if is_path else home() / "banks" / named


def known_banks() -> list[Path]:
    """Return the folders of the banks in the one place, and of those under ``banks/`` here."""
    roots = (home() / "banks", Path("banks"))
    files = [file for root in roots for file in root.glob(f"**/{_FILE}")]
    return sorted({file.parent for file in files if not file.parent.name.startswith(".")})


def seeded(place: str | Path, world: str, make: str | None) -> str | Path:
    """Return ``place``; where the default bank is not there yet, the world's shipped one is put there.

    Nothing is put where no bank ships for ``world``, or where it is of another make than ``make``.
    """
    packed = SHIPPED / f"{world}.sqlite.xz"
    folder = home() / "banks" / "state"
    if place != folder or (folder / _FILE).exists() or not packed.is_file():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(str(folder / ".seed.lock")):
        if not (folder / _FILE).exists():
            new = folder / ".seed"
            new.mkdir(exist_ok=True)
            write_bytes(new / _FILE, lzma.decompress(packed.read_bytes()))
            try:
                Bank(new, "state", {"text": make})
            except UserError:  # made with another embedder: of no use here
                shutil.rmtree(new)
                return folder
            (new / _FILE).replace(folder / _FILE)
            shutil.rmtree(new)
    return folder
