"""The wording of a game: commands and answers, from its grammar of conditions, lists and variations.

The format is TextWorld's for PDDL games (``textworld.envs.pddl``), written anew from what it does:

    action open { template :: "open {r}"; feedback :: "#open.said#"; }
    grammar :: \"\"\"
        {"open.said": [{"condition": "locked(r:box)", "rhs": "It is locked."}, {"rhs": "It opens."}]}
    \"\"\";

A rule's first alternative whose condition holds is said. ``#symbol#`` is another rule, ``{o.name}`` a
word of a thing, ``{… | query}`` one for every answer to a query over the facts, and in square brackets
those are a list with commas.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from stategate.envs.alfworld.logic import State
from stategate.stores.errors import UserError
from stategate.stores.files import parse_json

NOT = "not_"  # before a predicate: the fact was true once, and a step made it false
_DEPTH = 40  # rules within rules

#: A placeholder: its name and type.
Slot: TypeAlias = tuple[str, str]
Query: TypeAlias = tuple[tuple[str, tuple[Slot, ...]], ...]


@dataclass(frozen=True)
class Thing:
    """The words for an object that a grammar may use."""

    name: str
    id: str
    type: str
    definite: str = "the"
    indefinite: str = "a"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Symbol:
    name: str


@dataclass(frozen=True)
class _Value:
    """A small expression over things: words, ``+`` and ``or``."""

    tree: ast.expr


@dataclass(frozen=True)
class _Each:
    """``part`` for every answer to ``query``; as a list, with commas, where ``is_list``."""

    part: "_Symbol | _Value"
    query: Query | None
    is_list: bool


_Node: TypeAlias = str | _Symbol | _Value | _Each


@dataclass(frozen=True)
class _Alternative:
    condition: Query
    nodes: tuple[_Node, ...]


@dataclass(frozen=True)
class Wording:
    """How one action is commanded and answered."""

    template: str
    feedback: str


@dataclass(frozen=True)
class Grammar:
    """Wordings by action, and the rules that they use."""

    actions: Mapping[str, Wording]
    rules: Mapping[str, tuple[_Alternative, ...]]
    reads: frozenset[str] = field(default=frozenset())


class TextGenerator:
    """Expands the rules of a grammar into text about one game's things."""

    def __init__(
        self, grammar: Grammar, things: Sequence[Thing], is_a: Callable[[int, str], bool]
    ) -> None:
        self._grammar = grammar
        self._things = things
        self._is_a = is_a

    def expand(self, text: str, state: State, binding: Mapping[Slot, int]) -> str:
        """Return ``text`` with all its symbols derived; ``binding`` gives the things it is about."""
        return "".join(self._derive(text_nodes(text), state, dict(binding), 0))

    def _derive(
        self, nodes: Sequence[_Node], state: State, binding: dict[Slot, int], depth: int
    ) -> Iterator[str]:
        if depth > _DEPTH:
            raise UserError("the game's grammar has rules that go round in a circle")
        for node in nodes:
            if isinstance(node, str):
                yield node
            elif isinstance(node, _Symbol):
                yield from self._rule(node.name, state, binding, depth)
            elif isinstance(node, _Value):
                yield self._value(node, binding)
            else:
                yield from self._each(node, state, binding, depth)

    def _rule(self, name: str, state: State, binding: dict[Slot, int], depth: int) -> Iterator[str]:
        if name not in self._grammar.rules:
            raise UserError(f"the game's grammar has no rule '{name}'")
        for alternative in self._grammar.rules[name]:
            if next(self.answers(alternative.condition, state, binding), None) is not None:
                yield from self._derive(alternative.nodes, state, binding, depth + 1)
                return

    def _each(
        self, node: _Each, state: State, binding: dict[Slot, int], depth: int
    ) -> Iterator[str]:
        query = node.query
        bindings = [binding] if query is None else list(self.answers(query, state, binding))
        texts = ["".join(self._derive((node.part,), state, b, depth)) for b in bindings]
        if not node.is_list:
            yield from texts
        elif not texts:
            yield from self._rule("list_empty", state, binding, depth)
        else:
            for i, text in enumerate(texts):
                if i:
                    name = "list_separator" if i < len(texts) - 1 else "list_last_separator"
                    yield from self._rule(name, state, binding, depth)
                yield text

    def answers(
        self, query: Query, state: State, binding: dict[Slot, int], place: int = 0
    ) -> Iterator[dict[Slot, int]]:
        """Yield the bindings that answer ``query``, in the order of the facts; no thing twice."""
        if place == len(query):
            yield dict(binding)
            return
        predicate, slots = query[place]
        places = tuple(i for i, slot in enumerate(slots) if slot in binding)
        key = tuple(binding[slots[i]] for i in places)
        for row in state.of(predicate).at(places).get(key, ()):
            grown = dict(binding)
            for i, slot in enumerate(slots):
                value = row[i]
                if slot in grown:
                    if grown[slot] != value:
                        break
                elif value in grown.values() or not self._is_a(value, slot[1]):
                    break
                else:
                    grown[slot] = value
            else:
                yield from self.answers(query, state, grown, place + 1)

    def _value(self, node: _Value, binding: Mapping[Slot, int]) -> str:
        things = {name: self._things[number] for (name, _), number in binding.items()}
        value = _evaluate(node.tree, things)
        return "" if value is None else str(value)


def _evaluate(tree: ast.expr, things: Mapping[str, Thing]) -> Any:
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Name):
        if tree.id not in things:
            raise UserError(f"the game's grammar speaks of '{tree.id}', which is nothing here")
        return things[tree.id]
    if isinstance(tree, ast.Attribute):
        return vars(_evaluate(tree.value, things)).get(tree.attr)
    if isinstance(tree, ast.BinOp):
        return str(_evaluate(tree.left, things)) + str(_evaluate(tree.right, things))
    values = [_evaluate(value, things) for value in tree.values]  # type: ignore[attr-defined]
    return next((value for value in values if value), values[-1])


# Reading ------------------------------------------------------------------------------------------

_SPACE = re.compile(r"(?:\s+|#[^\n]*)+")
_GRAMMAR = re.compile(r'grammar\s*::\s*"""(.*?)"""\s*;', re.DOTALL)
_ACTION = re.compile(r"action\s+([\w/-]+)\s*\{")
_FIELD = re.compile(r'(template|feedback)\s*::\s*"([^"]*)"\s*;')
_CODE = re.compile(r'pddl\s*::\s*""".*?"""\s*;', re.DOTALL)

_START = re.compile(r"(?://[^\n]*\n?|\s+)*")
_LITERAL = re.compile(r'[^;|"<>\[\]#{}]+')
_QUOTED = re.compile(r'"([^;|"<>\[\]#{}]*)"')
_TAG = re.compile(r"#([\w()/!<>\-\s,.]+)#")
_EACH = re.compile(
    r"\{\t*(?:#([\w()/!<>\-\s,.]+)#|([^|\[\]{}\n<>]+?))\s*(?:\|\s*([^;|{}\n\[\]#]+))?\t*\}"
)
#: What an expression is made of.
_SMALL = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.BoolOp),
    *(ast.Add, ast.Or, ast.expr_context),
)
_PREDICATE = re.compile(r"\s*([!$]?)\s*([\w@-]+)\s*\(([^()]*)\)\s*")


@lru_cache(maxsize=64)
def read_grammar(text: str) -> Grammar:
    """Read a game's grammar; equal parts of texts are read once. Raises ``ValueError`` and its like."""
    actions: dict[str, Wording] = {}
    rules: dict[str, tuple[_Alternative, ...]] = {}
    place = _skip(text, 0)
    while place < len(text):
        if block := _GRAMMAR.match(text, place):
            rules.update(_rules(block[1]))
            place = _skip(text, block.end())
            continue
        action = _ACTION.match(text, place)
        if action is None:
            raise ValueError(f"its grammar at {text[place : place + 60]!r}")
        fields: dict[str, str] = {}
        place = _skip(text, action.end())
        while not text.startswith("}", place):
            if match := _FIELD.match(text, place):
                fields[match[1]] = match[2]
            elif match := _GRAMMAR.match(text, place):
                lines = (line for line in match[1].split("\n") if not line.lstrip().startswith("#"))
                rules.update(_rules("\n".join(lines)))
            else:
                match = _CODE.match(text, place)
            if match is None:
                raise ValueError(f"its grammar's action {action[1]}")
            place = _skip(text, match.end())
        actions[action[1].lower()] = Wording(**fields)
        place = _skip(text, place + 1)
    action_nodes = [text_nodes(t) for w in actions.values() for t in (w.template, w.feedback)]
    queries = [query for nodes in action_nodes for query in _queries(nodes)]
    for alternative in (one for alternatives in rules.values() for one in alternatives):
        queries += [alternative.condition, *_queries(alternative.nodes)]
    return Grammar(actions, rules, frozenset(name for query in queries for name, _ in query))


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


@lru_cache(maxsize=256)
def _rules(text: str) -> dict[str, tuple[_Alternative, ...]]:
    return {
        name: tuple(
            _Alternative(_query(rule.get("condition") or ""), text_nodes(rule["rhs"]))
            for rule in alternatives
        )
        for name, alternatives in parse_json(text).items()
    }


@lru_cache(maxsize=4096)
def text_nodes(text: str) -> tuple[_Node, ...]:
    """Return a rule's parsed text, up to the first part that cannot be read (as TextWorld does)."""
    nodes: list[_Node] = []
    start = _START.match(text)
    place = start.end() if start else 0
    while place < len(text):
        if text[place] == "\t":
            place += 1
        elif match := _TAG.match(text, place):
            nodes.append(_Symbol(match[1]))
            place = match.end()
        elif match := _EACH.match(text, place + (text[place] == "[")):
            is_list = text[place] == "["
            end = match.end() + is_list
            if is_list and text[match.end() : end] != "]":
                break
            part = _Symbol(match[1]) if match[1] else _Value(_expression(match[2]))
            nodes.append(_Each(part, _query(match[3]) if match[3] else None, is_list))
            place = end
        elif match := _QUOTED.match(text, place):
            nodes.append(match[1].replace("\\n", "\n"))
            place = match.end()
        elif match := _LITERAL.match(text, place):
            nodes.append(match[0].replace("\\n", "\n"))
            place = match.end()
        else:
            break
    return tuple(nodes)


def _expression(text: str) -> ast.expr:
    tree = ast.parse(text.strip(), mode="eval").body
    if not all(isinstance(node, _SMALL) for node in ast.walk(tree)):
        raise ValueError(f"its grammar's expression {text[:60]}")
    return tree


def _query(text: str) -> Query:
    """Read "at(a:agent, l:place) & not_open(l:place)"; raises ``ValueError`` for anything else."""
    conditions: list[tuple[str, tuple[Slot, ...]]] = []
    place = 0
    while place < len(text):
        part = _PREDICATE.match(text, place)
        if part is None or (conditions and text[place - 1] != "&"):
            raise ValueError(f"condition '{text[:60]}'")
        name = (NOT if part[1] == "!" else "") + part[2]
        conditions.append((name, tuple(_slot(word) for word in part[3].split(",") if word.strip())))
        place = part.end()
        if place < len(text):
            if text[place] != "&":
                raise ValueError(f"condition '{text[:60]}'")
            place += 1
    return tuple(conditions)


def _slot(word: str) -> Slot:
    name, colon, kind = (part.strip() for part in word.partition(":"))
    return (name, kind if colon else name)


def _queries(nodes: Sequence[_Node]) -> list[Query]:
    return [node.query for node in nodes if isinstance(node, _Each) and node.query]
