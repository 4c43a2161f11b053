"""What is killed at every write: one file a scenario (see ``tests.faults.killing``)."""

import os


def kept(folder, name, suffix=".sqlite"):
    """Return where a store of a trial is: a file of its folder, or the trial's database."""
    return os.environ.get("FAULTS_POSTGRES") or str(folder / f"{name}{suffix}")
