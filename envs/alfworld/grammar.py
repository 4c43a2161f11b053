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

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

from stategate.envs.alfworld.logic import Binding, State, solutions
from stategate.envs.alfworld.pddl import Formula, predicates_of, typed
from stategate.stores.errors import UserError
from stategate.stores.files import parse_json

NOT = "not_"  # before a predicate: the fact was true once, and a step made it false
_DEPTH = 40  # rules within rules

#: A formula and its variables in order; "o:object" is the variable "?o:object".
Query: TypeAlias = tuple[Formula, tuple[str, ...]]


@dataclass(frozen=True)
class _Symbol:
    name: str


@dataclass(frozen=True)
class _Value:
    """The sum of texts, and of (thing, its word)."""

    pieces: tuple[str | tuple[str, str], ...]


@dataclass(frozen=True)
class _Each:
    """``part`` for every answer to ``query``, as a list with commas."""

    part: "_Symbol | _Value"
    query: Query


_Node: TypeAlias = str | _Symbol | _Value | _Each

#: A rule: what may be said, each after the condition on which it is.
_Rule: TypeAlias = tuple[tuple[Query, tuple[_Node, ...]], ...]


@dataclass(frozen=True)
class Grammar:
    """The "template" (command) and "feedback" (answer) of each action, and the rules that they use."""

    actions: Mapping[str, Mapping[str, str]]
    rules: Mapping[str, _Rule]
    reads: frozenset[str]


class TextGenerator:
    """Expands the rules of a grammar into text about one game's things, given by their words."""

    def __init__(self, grammar: Grammar, things: Mapping[str, Mapping[str, str]]) -> None:
        self._grammar = grammar
        self._things = things
        self._solutions = cache(lambda query, bound: solutions(query[0], query[1], bound))

    def expand(self, text: str, state: State, binding: Binding) -> str:
        """Return ``text`` with all its symbols derived; ``binding`` gives the things it is about."""
        return "".join(self._derive(text_nodes(text), state, binding, 0))

    def _derive(
        self, nodes: Sequence[_Node], state: State, binding: Binding, depth: int
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

    def _rule(self, name: str, state: State, binding: Binding, depth: int) -> Iterator[str]:
        if name not in self._grammar.rules:
            raise UserError(f"the game's grammar has no rule '{name}'")
        for condition, nodes in self._grammar.rules[name]:
            if next(self.answers(condition, state, binding), None) is not None:
                yield from self._derive(nodes, state, binding, depth + 1)
                return

    def _each(self, node: _Each, state: State, binding: Binding, depth: int) -> Iterator[str]:
        bindings = self.answers(node.query, state, binding)
        texts = ["".join(self._derive((node.part,), state, b, depth)) for b in bindings]
        if not texts:
            yield from self._rule("list_empty", state, binding, depth)
        for i, text in enumerate(texts):
            if i:
                name = "list_separator" if i < len(texts) - 1 else "list_last_separator"
                yield from self._rule(name, state, binding, depth)
            yield text

    def answers(self, query: Query, state: State, binding: Binding) -> Iterator[Binding]:
        """Yield the bindings that answer ``query``, in the order of the facts; no thing twice."""
        for one in self._solutions(query, tuple(binding))(state, binding):
            if len({*one.values()}) - len({*binding.values()}) == len(one) - len(binding):
                yield one

    def _value(self, node: _Value, binding: Binding) -> str:
        things = {slot[1:].partition(":")[0]: self._things[id_] for slot, id_ in binding.items()}

        def word(piece: str | tuple[str, str]) -> str:
            if isinstance(piece, str):
                return piece
            name, field_ = piece
            if name not in things:
                raise UserError(f"the game's grammar speaks of '{name}', which is nothing here")
            return things[name].get(field_, "")

        return "".join(map(word, node.pieces))


# Reading ------------------------------------------------------------------------------------------

_GRAMMAR = re.compile(r'grammar\s*::\s*"""(.*?)"""\s*;', re.DOTALL)
_FIELD = re.compile(r'(template|feedback)\s*::\s*"([^"]*)"\s*;')
_ACTION = re.compile(rf"action\s+([\w/-]+)\s*\{{((?:\s*{_FIELD.pattern})*)\s*\}}")
_LITERAL = re.compile(r'[^;|"<>\[\]#{}]+')
_TAG = re.compile(r"#([\w()/!<>\-\s,.]+)#")
_EACH = re.compile(
    r"\{\t*(?:#([\w()/!<>\-\s,.]+)#|([^|\[\]{}\n<>]+?))\s*(?:\|\s*([^;|{}\n\[\]#]+))?\t*\}"
)
_PIECE = re.compile(r"'([^']*)'|(\w+)(?:\.(\w+))?")
_PREDICATE = re.compile(r"\s*([\w@-]+)\s*\(([^()]*)\)\s*")


def read_grammar(text: str) -> Grammar:
    """Read a game's grammar; equal blocks are read once. Raises ``ValueError`` and its like."""
    rules: dict[str, _Rule] = {}
    for block in _GRAMMAR.findall(text):
        rules.update(_rules(block))
    others = _GRAMMAR.sub("", text)
    actions = {
        name.lower(): dict(_FIELD.findall(fields)) for name, fields, *_ in _ACTION.findall(others)
    }
    if unread := _ACTION.sub("", others).strip():
        raise ValueError(f"its grammar at {unread[:60]!r}")
    texts = [action[field] for action in actions.values() for field in ("template", "feedback")]
    queries = [query for text in texts for query in _queries(text_nodes(text))]
    for condition, nodes in (one for rule in rules.values() for one in rule):
        queries += [condition, *_queries(nodes)]
    reads = frozenset().union(*(predicates_of(formula) for formula, _ in queries))
    return Grammar(actions, rules, reads)


@lru_cache(maxsize=256)
def _rules(text: str) -> dict[str, _Rule]:
    return {
        name: tuple(
            (_query(rule.get("condition") or ""), text_nodes(rule["rhs"])) for rule in alternatives
        )
        for name, alternatives in parse_json(text).items()
    }


@lru_cache(maxsize=4096)
def text_nodes(text: str) -> tuple[_Node, ...]:
    """Return a rule's parsed text, up to the first part that cannot be read (as TextWorld does)."""
    nodes: list[_Node] = []
    place = len(text) - len(text.lstrip())
    while place < len(text):
        is_list = text[place] == "["
        if match := _TAG.match(text, place):
            nodes.append(_Symbol(match[1]))
        elif match := _EACH.match(text, place + is_list):
            part = _Symbol(match[1]) if match[1] else _expression(match[2])
            if is_list != bool(match[3]) or (
                is_list and text[match.end() : match.end() + 1] != "]"
            ):
                break
            nodes.append(_Each(part, _query(match[3])) if is_list else part)
        elif match := _LITERAL.match(text, place):
            nodes.append(match[0].replace("\\n", "\n"))
        else:
            break
        place = match.end() + is_list
    return tuple(nodes)


def _expression(text: str) -> _Value:
    """Read "o.indefinite + ' ' + o.name"; a thing alone is its name, which never needs an " or "."""
    pieces = [_PIECE.fullmatch(piece.strip()) for piece in text.partition(" or ")[0].split("+")]
    if None in pieces:
        raise ValueError(f"its grammar's expression {text[:60]}")
    return _Value(tuple(p[1] or (p[2], p[3] or "name") for p in pieces if p is not None))


def _query(text: str) -> Query:
    """Read "at(a:agent, l:place) & not_open(l:place)"; raises ``ValueError`` for anything else."""
    atoms: list[Formula] = []
    kinds: dict[str, str] = {}
    for condition in text.split("&") if text.strip() else ():
        part = _PREDICATE.fullmatch(condition)
        if part is None:
            raise ValueError(f"condition '{text[:60]}'")
        words = (word.partition(":") for word in part[2].split(",") if word.strip())
        slots = {f"?{name.strip()}:{(kind or name).strip()}": kind for name, _, kind in words}
        atoms.append((part[1], *slots))
        kinds |= slots
    return typed(kinds, ("and", *atoms)), tuple(kinds)


def _queries(nodes: Sequence[_Node]) -> list[Query]:
    return [node.query for node in nodes if isinstance(node, _Each)]
