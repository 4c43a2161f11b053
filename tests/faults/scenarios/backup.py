"""A backup, and a home restored from it."""

import hashlib
import os
import tempfile
from pathlib import Path

from stategate.stores.backup import back_up, restore
from stategate.stores.errors import UserError
from stategate.stores.files import write_text
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore

_HOME = []


def prepare():
    place = Path(tempfile.mkdtemp(prefix="home-"))
    store = TraceStore(place / "traces.sqlite")
    for step in range(3):
        store.write_step("e", step, [Event("ACT", f"act {step}", step)])
    for name in ("corpora/a/x.txt", "banks/b/y.txt", "checkpoints/z.json"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    _HOME.append(place)


def _files(root):
    kept = (p for p in sorted(root.rglob("*")) if p.is_file() and ".restore" not in str(p))
    return {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()[:8]
        for p in kept
        if p.suffix not in (".sqlite", ".lock") and "sqlite-" not in p.name
    }


def work(folder, acknowledge):
    archive, target = folder / "backup.tar.gz", folder / "home"
    if not archive.exists():
        os.environ["STATEGATE_HOME"] = str(_HOME[0])
        back_up(archive)
        acknowledge("backup")
    os.environ["STATEGATE_HOME"] = str(target)
    if not (folder / "restored").exists():
        try:
            restore(archive)
        except UserError as error:
            if "already" not in str(error):  # a kill came after the last file was there
                raise
        write_text(folder / "restored", "")
    acknowledge("restored")


def check(folder, acknowledged):
    assert "backup" not in acknowledged or (folder / "backup.tar.gz").exists()
    if "restored" not in acknowledged:
        return None
    target = folder / "home"
    steps = [event.text for event in TraceStore(target / "traces.sqlite").events("e")]
    assert steps == ["act 0", "act 1", "act 2"]
    assert _files(target) == _files(_HOME[0])
    return [steps, sorted(_files(target))]
