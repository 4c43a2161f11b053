"""PDDL domains and problems with ADL conditions and effects, read into plain values.

Reads what games hold of types, predicates, actions, objects, initial facts and a goal: and, or, not,
imply, exists, when, ``=``; costs are left out. Everything is lower case, as in PDDL. A type is a
predicate of its members. One that nobody declared has none, as in Fast Downward: ALFWorld's own domain
has ``(?l - location, ?r - receptacle)``, and nothing is of type ``location,``.
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

Fact: TypeAlias = tuple[str, ...]

#: A condition: ("and", part …), ("or", part …), ("not", part), ("exists", variables, part), or an atom:
#: a predicate, then variables ("?x") and objects. The types of variables are atoms (:func:`typed`).
Formula: TypeAlias = tuple[Any, ...]
TRUE: Formula = ("and",)
CONNECTIVES = ("and", "or", "not", "exists")


def typed(variables: Mapping[str, str], formula: Formula) -> Formula:
    """Return ``formula`` with the types of its variables as atoms; a type is a predicate "- type"."""
    return ("and", *((f"- {kind}", name) for name, kind in variables.items()), formula)


def parts_of(formula: Formula) -> Formula:
    """Return the formulas that a formula joins, () of an atom."""
    return formula[2 if formula[0] == "exists" else 1 :] if formula[0] in CONNECTIVES else ()


def conjuncts(formula: Formula) -> list[Formula]:
    """Return the parts of a conjunction, those of its conjunctions included."""
    if formula[0] == "and":
        return [one for part in parts_of(formula) for one in conjuncts(part)]
    return [formula]


def predicates_of(formula: Formula) -> set[str]:
    """Return the predicates that a formula reads."""
    own = {formula[0]}.difference(CONNECTIVES)
    return own.union(*map(predicates_of, parts_of(formula)))


def free_of(formula: Formula) -> frozenset[str]:
    """Return the variables that a formula reads, but for those that it binds itself."""
    if formula[0] not in CONNECTIVES:
        return frozenset(word for word in formula[1:] if word.startswith("?"))
    own = formula[1] if formula[0] == "exists" else ()
    return frozenset().union(*map(free_of, parts_of(formula))).difference(own)


@dataclass(frozen=True)
class Effect:
    """``atom`` becomes true (else false) where ``condition`` holds."""

    atom: Formula
    holds: bool = True
    condition: Formula = TRUE


@dataclass(frozen=True)
class Action:
    """An action schema. ``parameters`` are its variables with their types."""

    name: str
    parameters: Mapping[str, str]
    precondition: Formula
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class Domain:
    """The action schemas of all problems."""

    arity: Mapping[str, int]
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Problem:
    """One situation: its objects with their types, its initial facts, and its goal.

    ``types`` are the facts that hold in every situation: types, and which objects are equal.
    """

    objects: Mapping[str, str]
    init: tuple[Fact, ...]
    types: tuple[Fact, ...]
    goal: Formula


@lru_cache(maxsize=16)
def read_domain(text: str) -> Domain:
    """Read a domain; one text is read once. Raises ``ValueError`` and its like."""
    sections = _sections(text, "domain")
    arity = {name: len(_typed(terms)) for name, *terms in sections.get(":predicates", [])}
    arity["="] = 2
    actions = tuple(_action(body, arity) for body in sections["actions"])
    if not actions:
        raise ValueError("the PDDL domain has no :action")
    if any(kind != OBJECT for _, kind in _typed(sections.get(":types", []))):
        raise ValueError("types of types are not played here")
    return Domain(arity, actions)


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
    types: list[Fact] = [("=", name, name) for name in objects]
    types += [(f"- {kind}", name) for name, own in objects.items() for kind in {own, OBJECT}]
    return Problem(objects, tuple(init), tuple(types), _formula(goal, {}, domain.arity))


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
    parameters = dict(_typed(fields_by_name.get(":parameters", [])))
    precondition = _formula(fields_by_name.get(":precondition", []), parameters, arity)
    effects = tuple(_effects(fields_by_name.get(":effect", []), parameters, arity))
    return Action(name, parameters, typed(parameters, precondition), effects)


def _formula(tree: Any, scope: Mapping[str, str], arity: Mapping[str, int]) -> Formula:
    """Read a condition over the variables in ``scope``, with their types."""
    if not tree:
        return TRUE
    head, *args = tree
    if head in ("and", "or"):
        return (head, *(_formula(part, scope, arity) for part in args))
    if head == "not":
        (denied,) = args
        return (head, _formula(denied, scope, arity))
    if head == "imply":
        before, after = args
        return _formula(["or", ["not", before], after], scope, arity)
    if head == "exists":
        variables = dict(_typed(args[0]))
        part = _formula(args[1], {**scope, **variables}, arity)
        return (head, tuple(variables), typed(variables, part))
    if arity.get(head) != len(args):
        raise ValueError(f"({head} …) is no predicate of so many words, and nothing that is played")
    # An object that the problem lacks is no mistake: nothing is true of it.
    if any(word.startswith("?") and word not in scope for word in args):
        raise ValueError(f"{tree} names what nothing declares")
    return (head, *args)


def _effects(tree: Any, scope: Mapping[str, str], arity: Mapping[str, int]) -> Iterator[Effect]:
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
