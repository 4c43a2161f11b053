"""Tasks with real tools over a folder of files: find it, read it, search it, calculate.

Each task is a folder of generated notes, a question whose answer is one number made of figures in two
or three of them, and four tools: a file browser (``list_files``, ``read_file``), a search over the
same files as a corpus, and a calculator. The prose around the figures is Python's documentation.
"""

import ast
import operator
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from langchain_core.tools import BaseTool, StructuredTool

from stategate.evals.agents.filler import prose
from stategate.graph.memory_tools import corpus_tool
from stategate.nodes.models.embedders import Hashing

_PLACES = "Quellmoor Ambelgate Torranholm Vesperford Haldonwick Morrinstead Calderdale".split()
_THINGS = ("barrels", "lanterns", "ropes", "sails", "anchors", "crates")
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class FilesTask:
    """A folder's files by name, a question about them, and the number that answers it."""

    files: dict[str, str]
    question: str
    answer: int

    def is_right(self, said: str) -> bool:
        """Say whether the last number of a reply is the answer."""
        numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?", said)
        return bool(numbers) and float(numbers[-1].replace(",", "")) == self.answer


def make_files(seed: int) -> FilesTask:
    """Return task ``seed``: four files of about 900 characters."""
    rng = random.Random(f"files/{seed}")
    places = rng.sample(_PLACES, 4)
    thing = rng.choice(_THINGS)
    stock = {place: rng.randint(20, 900) for place in places}
    files: dict[str, str] = {}
    for place in places:
        parts = prose(rng, "test", 900)
        other = rng.choice([name for name in _THINGS if name != thing])
        parts.insert(rng.randrange(len(parts) + 1), f"{place} keeps {stock[place]} {thing}.")
        parts.insert(
            rng.randrange(len(parts) + 1), f"{place} also keeps {rng.randint(20, 900)} {other}."
        )
        files[f"{place.lower()}.md"] = f"# {place}\n\n" + "\n\n".join(parts) + "\n"
    asked = rng.sample(places, rng.choice((2, 2, 3)))
    names = f"{', '.join(asked[:-1])} and {asked[-1]}"
    return FilesTask(
        files,
        f"How many {thing} do {names} keep together? Each has a file. Answer with the number.",
        sum(stock[place] for place in asked),
    )


def tools_over(folder: Path) -> list[BaseTool]:
    """Return a file browser below ``folder``, a search over it, and a calculator."""
    root = folder.resolve()

    def list_files() -> str:
        """List the files of the folder."""
        return "\n".join(sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()))

    def read_file(name: str) -> str:
        """Return a file of the folder."""
        path = (root / name).resolve()
        if not path.suffix:
            path = path.with_suffix(".md")
        if not path.is_relative_to(root) or not path.is_file():
            return f"there is no file '{name}': list_files names them"
        return path.read_text("utf-8")

    def calculator(expression: str) -> str:
        """Calculate an expression of numbers with + - * / and brackets."""
        try:
            return f"{calculated(expression):g}"
        except (ValueError, SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as error:
            return f"that cannot be calculated ({error})"

    own = [StructuredTool.from_function(f) for f in (list_files, read_file, calculator)]
    return [*own, corpus_tool(root, "search", Hashing())]


def calculated(expression: str) -> float:
    """Return what ``expression`` comes to. Raises ``ValueError`` for anything but arithmetic."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError("numbers, + - * / and brackets only")

    return value(ast.parse(expression.strip(), mode="eval").body)
