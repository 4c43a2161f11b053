"""PDDL domains and problems with ADL conditions and effects, read into plain values.

Reads what games hold of types, predicates, actions, objects, initial facts and a goal: and, or, not,
imply, exists, when, ``=``; costs are left out. Everything is lower case, as in PDDL. A type that nobody
declared has no members, as in Fast Downward: ALFWorld's own domain has
``(?l - location, ?r - receptacle)``, and nothing is of type ``location,``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

#: The type of everything.
OBJECT = "object"
_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")

Variables: TypeAlias = tuple[tuple[str, str], ...]
Fact: TypeAlias = tuple[str, ...]


#: A condition as PDDL writes it: ("and", part …), ("or", part …), ("not", part), ("exists", variables,
#: part), ("=", term, term), or an atom: a predicate, then variables ("?x") and objects.
Formula: TypeAlias = tuple[Any, ...]
TRUE: Formula = ("and",)
CONNECTIVES = ("and", "or", "not", "exists")


@dataclass(frozen=True)
class Effect:
    """``atom`` becomes true (else false) where ``condition`` holds."""

    atom: Formula
    holds: bool = True
    condition: Formula = TRUE

    @property
    def is_plain(self) -> bool:
        """Whether it happens whatever the state."""
        return self.condition == TRUE


@dataclass(frozen=True)
class Action:
    """An action schema."""

    name: str
    parameters: Variables
    precondition: Formula
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class Domain:
    """The action schemas of all problems. ``parents`` gives the type above each declared type."""

    parents: Mapping[str, str]
    arity: Mapping[str, int]
    actions: tuple[Action, ...]

    def ancestors(self, kind: str) -> Iterator[str]:
        """Yield ``kind`` and the types above it, up to the type of everything."""
        seen: set[str] = set()
        while kind not in seen:
            seen.add(kind)
            yield kind
            kind = self.parents.get(kind, OBJECT)


@dataclass(frozen=True)
class Problem:
    """One situation: its objects with their types, its initial facts, and its goal."""

    objects: Mapping[str, str]
    init: tuple[Fact, ...]
    goal: Formula


@lru_cache(maxsize=16)
def read_domain(text: str) -> Domain:
    """Read a domain; one text is read once. Raises ``ValueError`` and its like."""
    sections = _sections(text, "domain")
    arity = {name: len(_typed(terms)) for name, *terms in sections.get(":predicates", [])}
    actions = tuple(_action(body, arity) for body in sections["actions"])
    if not actions:
        raise ValueError("the PDDL domain has no :action")
    return Domain(dict(_typed(sections.get(":types", []))), arity, actions)


def read_problem(text: str, domain: Domain) -> Problem:
    """Read a problem of ``domain``. Raises ``ValueError`` and its like."""
    sections = _sections(text, "problem")
    objects = dict(_typed(sections[":objects"]))
    init = []
    for fact in sections[":init"]:
        if fact[0] == "=":  # a cost
            continue
        if domain.arity[fact[0]] != len(fact) - 1 or not all(name in objects for name in fact[1:]):
            raise ValueError(f"unknown fact {fact}")
        init.append(tuple(fact))
    (goal,) = sections[":goal"]
    return Problem(objects, tuple(init), _formula(goal, frozenset(objects), domain.arity))


def _sections(text: str, what: str) -> dict[str, Any]:
    """Return the parts of ``(define (WHAT name) (:section …) …)``, all actions under "actions"."""
    (tree,) = _read(text)
    if tree[0] != "define" or tree[1][0] != what:
        raise ValueError(f"this is not (define ({what} …) …)")
    sections: dict[str, Any] = {"actions": []}
    for name, *body in tree[2:]:
        if name in (":derived", ":durative-action", ":constants"):
            raise ValueError(f"{name} is not played here")
        if name == ":action":
            sections["actions"].append(body)
        else:
            sections[name] = body
    return sections


def _read(text: str) -> list[Any]:
    """Return nested lists of words."""
    stack: list[list[Any]] = [[]]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower().replace("?", " ?")):
        if token == "(":  # noqa: S105 - a parenthesis
            stack.append([])
        elif token == ")":  # noqa: S105
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise ValueError("the PDDL breaks off: parentheses stay open")
    return stack[0]


def _typed(words: Sequence[str]) -> list[tuple[str, str]]:
    """Read "a b - kind c" as pairs of name and type; what has no type is an object."""
    pairs: list[tuple[str, str]] = []
    waiting: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if word == "-":
            kind = next(remaining, OBJECT)
            pairs += [(name, kind) for name in waiting]
            waiting = []
        else:
            waiting.append(word)
    return pairs + [(name, OBJECT) for name in waiting]


def _action(body: Sequence[Any], arity: Mapping[str, int]) -> Action:
    name, *fields = body
    fields_by_name = dict(zip(fields[::2], fields[1::2], strict=True))
    parameters = tuple(_typed(fields_by_name.get(":parameters", [])))
    scope = frozenset(variable for variable, _ in parameters)
    precondition = _formula(fields_by_name.get(":precondition", []), scope, arity)
    effects = tuple(_effects(fields_by_name.get(":effect", []), scope, arity))
    return Action(name, parameters, precondition, effects)


def _formula(tree: Any, scope: frozenset[str], arity: Mapping[str, int]) -> Formula:
    """Read a condition over the variables and objects in ``scope``."""
    if not tree:
        return TRUE
    head, *args = tree
    if head in ("and", "or"):
        return (head, *(_formula(part, scope, arity) for part in args))
    if head == "not":
        (denied,) = args
        return ("not", _formula(denied, scope, arity))
    if head == "imply":
        before, after = (_formula(part, scope, arity) for part in args)
        return ("or", ("not", before), after)
    if head == "exists":
        variables = tuple(_typed(args[0]))
        part = _formula(args[1], scope | {variable for variable, _ in variables}, arity)
        return ("exists", variables, part)
    if head != "=" and arity.get(head) != len(args):
        raise ValueError(f"({head} …) is no predicate of so many words, and nothing that is played")
    # An object that the problem lacks is no mistake: nothing is true of it.
    if any(word.startswith("?") and word not in scope for word in args):
        raise ValueError(f"{tree} names what nothing declares")
    if head == "=" and len(args) != 2:
        raise ValueError(f"{tree} is no equation")
    return (head, *args)


def _effects(tree: Any, scope: frozenset[str], arity: Mapping[str, int]) -> Iterator[Effect]:
    """Read an effect; costs are left out."""
    if not tree or tree[0] == "increase":
        return
    head, *args = tree
    if head == "and":
        for part in args:
            yield from _effects(part, scope, arity)
    elif head == "when":
        condition = _formula(args[0], scope, arity)
        for effect in _effects(args[1], scope, arity):
            yield replace(effect, condition=("and", condition, effect.condition))
    else:
        atom = _formula(args[0] if head == "not" else tree, scope, arity)
        if atom[0] not in arity:
            raise TypeError(f"{tree} is no effect")
        yield Effect(atom, head != "not")
