"""The house: floors, rooms and the order of the picture, no circles.

Each folder is a floor, and a file imports from its own floor or a lower one.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = {
    "language": 0,
    "stores": 1,
    "envs": 1,
    "nodes": 2,
    "graph": 3,
    "trainers": 4,
    "evals": 4,
    "ui": 5,
}
FILES = sorted(path for name in FLOORS for path in (ROOT / name).rglob("*.py"))
#: Folders of one floor that must not see each other.
APART = [("evals", "trainers"), ("trainers", "evals"), ("stores", "envs")]
#: The nodes of the picture, in the order of imports; everything else in ``nodes/`` is a shared room.
PICTURE = ("observe", "update_state", "build_context", "act", "write_memory")


def name_of(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
    return ".".join(("stategate", *parts))


def room_of(module: str) -> str:
    return module.split(".")[1]


MODULES = {name_of(path): path for path in FILES}


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Return (line, module) of every import of ours, also inside functions and for types alone."""
    return tuple(_imports(ast.parse(path.read_text("utf-8"))))


def _imports(node: ast.AST) -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((child.lineno, a.name) for a in child.names if a.name in MODULES)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            for alias in child.names:
                whole = f"{child.module}.{alias.name}"
                found = whole if whole in MODULES else child.module
                if found in MODULES:
                    yield child.lineno, found
        yield from _imports(child)


@pytest.mark.parametrize("floor", FLOORS)
def test_no_import_from_a_higher_floor(floor: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == floor
        for line, module in imports(path)
        if FLOORS[room_of(module)] > FLOORS[floor] or (floor, room_of(module)) in APART
    ]
    assert not wrong, "\n".join(wrong)


def test_nodes_import_in_the_order_of_the_picture() -> None:
    wrong = []
    for path in FILES:
        parts = path.relative_to(ROOT).parts
        if parts[0] != "nodes" or path.name == "conformance.py":
            continue
        own = PICTURE.index(parts[1]) if parts[1] in PICTURE else -1
        for line, module in imports(path):
            room = module.split(".")[2] if module.startswith("stategate.nodes.") else ""
            if room in PICTURE and PICTURE.index(room) > own:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_no_circles_of_files() -> None:
    graph = {
        name: {module for _, module in imports(path)} - {name} for name, path in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_no_circles_of_folders() -> None:
    graph: dict[str, set[str]] = {}
    for path in FILES:
        folder = str(path.parent.relative_to(ROOT))
        for _, module in imports(path):
            other = str(MODULES[module].parent.relative_to(ROOT))
            # A folder's own rooms may share what lies beside them (protocols, errors, tokens).
            nested = other.startswith(f"{folder}/") or folder.startswith(f"{other}/")
            if other != folder and not nested:
                graph.setdefault(folder, set()).add(other)
    TopologicalSorter(graph).prepare()


def test_a_file_is_of_a_size_to_be_read() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in FILES
        if (lines := len(path.read_text("utf-8").splitlines())) > 600
    }
    assert not long


def test_the_architecture_page_shows_the_same_house() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| `(\w+)/` \|", page, re.MULTILINE)
    assert {name: floor for floor, name in rows} == {n: str(f) for n, f in FLOORS.items()}
