"""List the packages: every folder of code at the top is installed as ``stategate.<folder>``."""

from setuptools import find_packages, setup

ROOMS = "checkpoints configs envs evals graph language nodes stores trainers ui".split()
folders = find_packages(include=[pattern for room in ROOMS for pattern in (room, f"{room}.*")])
setup(packages=["stategate", *(f"stategate.{folder}" for folder in folders)])
