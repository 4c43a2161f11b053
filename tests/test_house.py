"""Each folder is a floor: a file imports from its own floor or a lower one (README, "The house")."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = {"stores": 1, "envs": 1, "nodes": 2, "graph": 3, "trainers": 4, "evals": 4, "ui": 5}
FILES = sorted(path for name in FLOORS for path in (ROOT / name).rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, package) of every import, also of those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


@pytest.mark.parametrize("floor", FLOORS)
def test_no_import_from_a_higher_floor(floor: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {package}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == floor
        for line, package in imported(ast.parse(path.read_text("utf-8")))
        if FLOORS.get(package, 0) > FLOORS[floor]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_readme_shows_the_same_house() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    told = {words[0].rstrip("/"): words[1] for line in lines if len(words := line.split()) > 2}
    assert {name: told[name] for name in FLOORS} == {n: str(f) for n, f in FLOORS.items()}
