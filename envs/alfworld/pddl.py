"""PDDL domains and problems with ADL conditions and effects, read into plain values.

Reads what planners read of a game's ``:types``, ``:constants``, ``:predicates``, ``:action``,
``:objects``, ``:init`` and ``:goal``: and, or, not, imply, exists, forall, when, ``=`` and types; costs
are left out. Everything is lower case, as in PDDL. A type that nobody declared has no members, as in
Fast Downward: ALFWorld's own domain has ``(?l - location, ?r - receptacle)``, and nothing is of type
``location,``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from stategate.stores.errors import UserError

#: The type of everything.
OBJECT = "object"
_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")

Variables: TypeAlias = tuple[tuple[str, str], ...]
Fact: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Atom:
    """A predicate over variables ("?x") and objects."""

    predicate: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Equal:
    """Two terms are the same object."""

    left: str
    right: str


@dataclass(frozen=True)
class Not:
    """A formula does not hold."""

    part: "Formula"


@dataclass(frozen=True)
class And:
    """All parts hold; without parts: true."""

    parts: tuple["Formula", ...] = ()


@dataclass(frozen=True)
class Or:
    """One part at least holds."""

    parts: tuple["Formula", ...] = ()


@dataclass(frozen=True)
class Exists:
    """Some objects of the variables' types make the part hold."""

    variables: Variables
    part: "Formula"


Formula: TypeAlias = Atom | Equal | Not | And | Or | Exists


def forall(variables: Variables, part: Formula) -> Formula:
    """Return "for all variables, part"."""
    return Not(Exists(variables, Not(part)))


@dataclass(frozen=True)
class Effect:
    """``atom`` becomes true (else false) for all ``variables`` that meet ``condition``."""

    atom: Atom
    holds: bool = True
    condition: Formula = And()
    variables: Variables = ()

    @property
    def is_plain(self) -> bool:
        """Whether it happens whatever the state."""
        return self.condition == And() and not self.variables


@dataclass(frozen=True)
class Action:
    """An action schema."""

    name: str
    parameters: Variables
    precondition: Formula
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class Domain:
    """What can be done in every problem. ``parents`` gives the type above each declared type."""

    parents: Mapping[str, str]
    constants: Mapping[str, str]
    arity: Mapping[str, int]
    actions: tuple[Action, ...]

    def ancestors(self, kind: str) -> Iterator[str]:
        """Yield ``kind`` and the types above it, up to the type of everything."""
        seen: set[str] = set()
        while kind not in seen:
            seen.add(kind)
            yield kind
            kind = self.parents.get(kind, OBJECT)

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class Problem:
    """One situation: its objects with their types, what is true in it, what is to become true."""

    objects: Mapping[str, str]
    init: tuple[Fact, ...]
    goal: Formula


@lru_cache(maxsize=16)
def read_domain(text: str) -> Domain:
    """Read a domain; one text is read once. Raises ``UserError``."""
    sections = _sections(text, "domain")
    parents = dict(_typed(sections.get(":types", [])))
    constants = dict(_typed(sections.get(":constants", [])))
    arity = {}
    for predicate in sections.get(":predicates", []):
        if not isinstance(predicate, list) or not predicate or not isinstance(predicate[0], str):
            raise UserError("the PDDL domain has a predicate that is no list of words")
        arity[predicate[0]] = len(_typed(predicate[1:]))
    actions = tuple(_action(body, constants) for body in sections.get("actions", []))
    if not actions:
        raise UserError("the PDDL domain has no :action")
    for action in actions:
        of_effects = [part for e in action.effects for part in (e.atom, e.condition)]
        _check(And((action.precondition, *of_effects)), arity, f"action {action.name}")
    return Domain(parents, constants, arity, actions)


def read_problem(text: str, domain: Domain) -> Problem:
    """Read a problem of ``domain``. Raises ``UserError``."""
    sections = _sections(text, "problem")
    for section in (":objects", ":init", ":goal"):
        if section not in sections:
            raise UserError(f"the PDDL problem has no {section}")
    objects = {**domain.constants, **dict(_typed(sections[":objects"]))}
    init = []
    for fact in sections[":init"]:
        if not isinstance(fact, list) or not fact:
            raise UserError("the PDDL problem's :init has an entry that is no fact")
        if fact[0] == "=":  # a cost
            continue
        try:
            is_known = domain.arity[fact[0]] == len(fact) - 1
            is_known = is_known and all(name in objects for name in fact[1:])
        except (KeyError, TypeError):
            is_known = False
        if not is_known:
            raise UserError(f"the PDDL problem's :init has an unknown fact {_shown(fact)}")
        init.append(tuple(fact))
    goal = sections[":goal"]
    if len(goal) != 1:
        raise UserError("the PDDL problem's :goal is to be one formula")
    wanted = _formula(goal[0], frozenset(objects))
    _check(wanted, domain.arity, "problem's :goal")
    return Problem(objects, tuple(init), wanted)


def _check(formula: Formula, arity: Mapping[str, int], where: str) -> None:
    """Raise ``UserError`` where a condition has a predicate that the domain does not declare so."""
    if isinstance(formula, Atom):
        if arity.get(formula.predicate) != len(formula.args):
            told = " ".join((formula.predicate, *formula.args))[:80]
            raise UserError(f"the PDDL {where} has an unknown predicate ({told})")
    elif not isinstance(formula, Equal):
        for part in formula.parts if isinstance(formula, And | Or) else (formula.part,):
            _check(part, arity, where)


def _sections(text: str, what: str) -> dict[str, Any]:
    """Return the parts of ``(define (WHAT name) (:section …) …)``, all actions under "actions"."""
    tree = _read(text, what)
    is_whole = len(tree) == 1 and isinstance(tree[0], list) and tree[0][:1] == ["define"]
    if not is_whole or not all(isinstance(part, list) and part for part in tree[0][1:]):
        raise UserError(f"the PDDL {what} is not (define ({what} …) …)")
    if tree[0][1:] == [] or tree[0][1][0] != what:
        raise UserError(f"the PDDL {what} does not begin with (define ({what} …)")
    found: dict[str, Any] = {"actions": []}
    for part in tree[0][2:]:
        if part[0] == ":action":
            found["actions"].append(part[1:])
        elif part[0] in (":derived", ":durative-action"):
            raise UserError(f"the PDDL {what} has {part[0]}, which is not played here")
        elif isinstance(part[0], str):
            found[part[0]] = part[1:]
    return found


def _read(text: str, what: str) -> list[Any]:
    """Return nested lists of words. Raises ``UserError`` where parentheses do not match."""
    stack: list[list[Any]] = [[]]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower().replace("?", " ?")):
        if token == "(":  # noqa: S105 - a parenthesis
            stack.append([])
        elif token == ")":  # noqa: S105
            done = stack.pop()
            if not stack:
                raise UserError(f"the PDDL {what} closes a parenthesis that it never opened")
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise UserError(f"the PDDL {what} breaks off: {len(stack) - 1} parentheses stay open")
    return stack[0]


def _typed(words: Sequence[Any]) -> list[tuple[str, str]]:
    """Read "a b - kind c" as pairs of name and type; what has no type is an object."""
    found: list[tuple[str, str]] = []
    waiting: list[str] = []
    rest = iter(words)
    for word in rest:
        if not isinstance(word, str):
            raise UserError(f"a PDDL list of names holds {_shown(word)}")
        if word != "-":
            waiting.append(word)
            continue
        kind = next(rest, None)
        if not isinstance(kind, str):
            raise UserError("a PDDL list of names has a '-' without a type")
        found += [(name, kind) for name in waiting]
        waiting = []
    return found + [(name, OBJECT) for name in waiting]


def _action(body: Sequence[Any], constants: Mapping[str, str]) -> Action:
    if not body or not isinstance(body[0], str):
        raise UserError("a PDDL action has no name")
    name, fields = body[0], body[1:]
    if len(fields) % 2 or not all(isinstance(key, str) for key in fields[::2]):
        raise UserError(f"the PDDL action {name} is not made of ':word value' pairs")
    given = dict(zip(fields[::2], fields[1::2], strict=True))
    parameters = tuple(_typed(given.get(":parameters", [])))
    scope = frozenset([*constants, *(variable for variable, _ in parameters)])
    try:
        precondition = _formula(given.get(":precondition", []), scope)
        effects = tuple(_effects(given.get(":effect", []), scope))
    except UserError as error:
        raise UserError(f"the PDDL action {name}: {error}") from None
    return Action(name, parameters, precondition, effects)


def _formula(tree: Any, scope: frozenset[str]) -> Formula:
    """Read a condition over the variables and objects in ``scope``."""
    if tree == []:
        return And()
    if not isinstance(tree, list) or not isinstance(tree[0], str):
        raise UserError(f"{_shown(tree)} is no condition")
    head, rest = tree[0], tree[1:]
    if head in ("and", "or"):
        parts = tuple(_formula(part, scope) for part in rest)
        return And(parts) if head == "and" else Or(parts)
    if head == "not" and len(rest) == 1:
        return Not(_formula(rest[0], scope))
    if head == "imply" and len(rest) == 2:
        return Or((Not(_formula(rest[0], scope)), _formula(rest[1], scope)))
    if head in ("exists", "forall") and len(rest) == 2 and isinstance(rest[0], list):
        variables = tuple(_typed(rest[0]))
        part = _formula(rest[1], scope | {variable for variable, _ in variables})
        return Exists(variables, part) if head == "exists" else forall(variables, part)
    if not all(isinstance(word, str) for word in rest):
        raise UserError(f"{_shown(tree)} is no condition")
    # An object that the problem lacks is no mistake: nothing is true of it.
    strange = [word for word in rest if word.startswith("?") and word not in scope]
    if strange:
        raise UserError(f"{_shown(tree)} names {strange[0]}, which nothing declares")
    if head == "=" and len(rest) == 2:
        return Equal(rest[0], rest[1])
    return Atom(head, tuple(rest))


def _effects(tree: Any, scope: frozenset[str]) -> Iterator[Effect]:
    """Read an effect; costs are left out."""
    if tree == [] or (isinstance(tree, list) and tree[0] == "increase"):
        return
    if not isinstance(tree, list) or not isinstance(tree[0], str):
        raise UserError(f"{_shown(tree)} is no effect")
    head, rest = tree[0], tree[1:]
    if head == "and":
        for part in rest:
            yield from _effects(part, scope)
    elif head == "when" and len(rest) == 2:
        condition = _formula(rest[0], scope)
        for effect in _effects(rest[1], scope):
            both = condition if effect.condition == And() else And((condition, effect.condition))
            yield Effect(effect.atom, effect.holds, both, effect.variables)
    elif head == "forall" and len(rest) == 2 and isinstance(rest[0], list):
        variables = tuple(_typed(rest[0]))
        for effect in _effects(rest[1], scope | {variable for variable, _ in variables}):
            every = (*variables, *effect.variables)
            yield Effect(effect.atom, effect.holds, effect.condition, every)
    else:
        atom = _formula(rest[0] if head == "not" and len(rest) == 1 else tree, scope)
        if not isinstance(atom, Atom):
            raise UserError(f"{_shown(tree)} is no effect")
        yield Effect(atom, head != "not")


def _shown(tree: Any) -> str:
    text = f"({' '.join(_shown(part) for part in tree)})" if isinstance(tree, list) else str(tree)
    return text if len(text) <= 80 else text[:77] + "..."
