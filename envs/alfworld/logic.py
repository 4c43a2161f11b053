"""Indexed facts, and formulas compiled into searches over them.

A state never changes; the next one shares every predicate that the step did not touch. Objects are
numbers (their place among the sorted ids), so that everything is listed in the order of the ids.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from stategate.envs.alfworld.pddl import And, Atom, Equal, Exists, Formula, Not, Or, Variables

Row: TypeAlias = tuple[int, ...]
Check: TypeAlias = Callable[["State", list[int]], bool]
#: Enumerates the solutions from a partial binding, and appends them.
Search: TypeAlias = Callable[["State", list[int], list[Row]], None]


class Extent:
    """The rows of one predicate, sorted, found by any of their places."""

    __slots__ = ("_by", "members", "rows")

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = sorted(rows)
        self.members = frozenset(self.rows)
        self._by: dict[tuple[int, ...], dict[Row, list[Row]]] = {}

    def at(self, places: tuple[int, ...]) -> Mapping[Row, list[Row]]:
        """Return the rows by their values at ``places``."""
        index = self._by.get(places)
        if index is None:
            index = {}
            for row in self.rows:
                index.setdefault(tuple(row[place] for place in places), []).append(row)
            self._by[places] = index
        return index


EMPTY = Extent(())


class State:
    """The facts that are true. ``memo`` caches results computed from them; it is nobody's input."""

    __slots__ = ("extents", "memo")

    def __init__(self, extents: Mapping[str, Extent], memo: dict[Any, Any] | None = None) -> None:
        self.extents = extents
        self.memo: dict[Any, Any] = {} if memo is None else memo

    def of(self, predicate: str) -> Extent:
        """Return the rows of a predicate."""
        return self.extents.get(predicate, EMPTY)


def predicates_of(formula: Formula) -> set[str]:
    """Return the predicates that a formula reads."""
    if isinstance(formula, Atom):
        return {formula.predicate}
    if isinstance(formula, Not | Exists):
        return predicates_of(formula.part)
    if isinstance(formula, And | Or):
        return set().union(*map(predicates_of, formula.parts))
    return set()


class Compiler:
    """Makes formulas into searches, for one problem's objects.

    ``members`` are the objects of each type (a type that is missing has none), ``numbers`` those of the
    ids, ``initial`` is the state by whose sizes the order of a search is chosen.
    """

    def __init__(
        self, members: Mapping[str, Sequence[int]], numbers: Mapping[str, int], initial: State
    ) -> None:
        self._members = members
        self._sets = {kind: frozenset(rows) for kind, rows in members.items()}
        self._numbers = numbers
        self._initial = initial

    def solutions(
        self, variables: Variables, formula: Formula, parameters: Variables = ()
    ) -> Callable[[State, Row], list[Row]]:
        """Return a function from (state, values of ``parameters``) to the sorted solutions.

        A solution holds the values of ``parameters``, then of ``variables``; a formula without either
        has one solution, (), where it holds.
        """
        scope = _Scope(self._numbers, (*parameters, *variables))
        count, size = len(parameters), len(parameters) + len(variables)
        parts, inner = _parts(formula, scope)
        open_slots = frozenset(range(count, size)) | inner
        search = self._search(parts, frozenset(range(count)), open_slots, size, scope)
        blank = scope.blank()

        def solve(state: State, values: Row = ()) -> list[Row]:
            slots = list(blank)
            slots[:count] = values
            solutions: list[Row] = []
            search(state, slots, solutions)
            return sorted(set(solutions))

        return solve

    def _search(
        self,
        parts: "_Parts",
        bound: frozenset[int],
        open_slots: frozenset[int],
        size: int,
        scope: "_Scope",
    ) -> Search:
        """Return the search that meets ``parts`` in the best order.

        ``open_slots`` are to be bound; of those from ``size`` on it matters only that they can be.
        """
        if not parts:
            return self._finish(open_slots - bound, size, scope)
        best = min(parts, key=lambda part: self._cost(part, bound))
        others = [part for part in parts if part is not best]
        formula, inner = best
        free = _free(formula, inner) - bound
        if isinstance(formula, Atom) and free:
            return self._atom(formula, inner, bound, others, open_slots, size, scope)
        if isinstance(formula, Or) and free:
            branches = []
            for part in formula.parts:
                own, slots_inside = _parts(part, inner)
                inside = open_slots | slots_inside
                branches.append(self._search([*own, *others], bound, inside, size, scope))

            def either(state: State, slots: list[int], solutions: list[Row]) -> None:
                for branch in branches:
                    branch(state, slots, solutions)

            return either
        if free:  # a negation, say: try every object
            slot = min(free, key=lambda s: len(self._members.get(scope.kinds[s], ())))
            then = self._search(parts, bound | {slot}, open_slots, size, scope)
            return self._each(slot, scope, then)
        test = self._check(formula, inner)
        then = self._search(others, bound, open_slots, size, scope)

        def only_if(state: State, slots: list[int], solutions: list[Row]) -> None:
            if test(state, slots):
                then(state, slots, solutions)

        return only_if

    def _atom(
        self,
        atom: Atom,
        inner: "_Scope",
        bound: frozenset[int],
        others: "_Parts",
        open_slots: frozenset[int],
        size: int,
        scope: "_Scope",
    ) -> Search:
        terms = [inner.slot(word) for word in atom.args]
        bound_slots = bound | scope.constants
        places = tuple(i for i, slot in enumerate(terms) if slot in bound_slots)
        keys = tuple(terms[i] for i in places)
        firsts: dict[int, int] = {}
        for i, slot in enumerate(terms):
            if slot not in bound_slots:
                firsts.setdefault(slot, i)
        twice = [(i, firsts[s]) for i, s in enumerate(terms) if s in firsts and firsts[s] != i]
        allowed = [
            (i, slot, self._sets.get(scope.kinds[slot], frozenset())) for slot, i in firsts.items()
        ]
        then = self._search(others, bound | set(firsts), open_slots, size, scope)
        name = atom.predicate

        def each_row(state: State, slots: list[int], solutions: list[Row]) -> None:
            for row in state.of(name).at(places).get(tuple([slots[key] for key in keys]), ()):
                for i, slot, kind in allowed:
                    if row[i] not in kind:
                        break
                    slots[slot] = row[i]
                else:
                    if not twice or all(row[i] == row[j] for i, j in twice):
                        then(state, slots, solutions)

        return each_row

    def _each(self, slot: int, scope: "_Scope", then: Search) -> Search:
        values = self._members.get(scope.kinds[slot], ())

        def each(state: State, slots: list[int], solutions: list[Row]) -> None:
            for value in values:
                slots[slot] = value
                then(state, slots, solutions)

        return each

    def _finish(self, open_slots: frozenset[int], size: int, scope: "_Scope") -> Search:
        if any(not self._members.get(scope.kinds[slot]) for slot in open_slots):
            return lambda state, slots, solutions: None
        listed = sorted(slot for slot in open_slots if slot < size)
        if listed:
            return self._each(listed[0], scope, self._finish(open_slots - {listed[0]}, size, scope))
        return lambda state, slots, solutions: solutions.append(tuple(slots[:size]))

    def _check(self, formula: Formula, scope: "_Scope") -> Check:
        """Return a test of a formula all of whose variables are bound."""
        if isinstance(formula, Atom):
            terms = tuple(scope.slot(word) for word in formula.args)
            name = formula.predicate
            return lambda state, slots: tuple([slots[t] for t in terms]) in state.of(name).members
        if isinstance(formula, Equal):
            one, other = scope.slot(formula.one), scope.slot(formula.other)
            return lambda state, slots: slots[one] == slots[other]
        if isinstance(formula, Not):
            part = self._check(formula.part, scope)
            return lambda state, slots: not part(state, slots)
        if isinstance(formula, And | Or):
            tests = [self._check(part, scope) for part in formula.parts]
            if isinstance(formula, And):
                return lambda state, slots: all(test(state, slots) for test in tests)
            return lambda state, slots: any(test(state, slots) for test in tests)
        bound = frozenset(scope.slots.values())
        parts, own = _parts(formula, scope)
        search = self._search(parts, bound, own, 0, scope)

        def exists(state: State, slots: list[int]) -> bool:
            solutions: list[Row] = []
            search(state, slots, solutions)
            return bool(solutions)

        return exists

    def _cost(self, part: tuple[Formula, "_Scope"], bound: frozenset[int]) -> float:
        """Estimate the number of branches of a part; tests of bound variables come first."""
        formula, scope = part
        if not _free(formula, scope) - bound:
            return -1.0 if isinstance(formula, Atom | Equal) else -0.5
        if isinstance(formula, Atom):
            bound_slots = bound | scope.constants
            slots = [scope.slot(word) for word in formula.args]
            places = tuple(i for i, slot in enumerate(slots) if slot in bound_slots)
            extent = self._initial.of(formula.predicate)
            return len(extent.rows) / max(1, len(extent.at(places)))
        return 1e6 if isinstance(formula, Or) else 1e9


class _Scope:
    """The slots of a formula's variables and objects; a quantifier's scope shares those around it."""

    def __init__(self, numbers: Mapping[str, int], variables: Variables = ()) -> None:
        self.slots: dict[str, int] = {}
        self.kinds: dict[int, str] = {}
        self._numbers = numbers
        self._values: list[int] = []  # of every slot before the search: objects have theirs
        self._objects: dict[str, int] = {}
        self._declare(variables)

    def inside(self, variables: Variables) -> "_Scope":
        """Return the scope within a quantifier over ``variables``."""
        inner = _Scope(self._numbers)
        inner.slots, inner.kinds = dict(self.slots), self.kinds
        inner._values, inner._objects = self._values, self._objects
        inner._declare(variables)
        return inner

    def slot(self, word: str) -> int:
        """Return the slot of a variable or an object."""
        if word in self.slots:
            return self.slots[word]
        if word not in self._objects:
            self._objects[word] = len(self._values)
            self._values.append(self._numbers.get(word, -1))
        return self._objects[word]

    @property
    def constants(self) -> frozenset[int]:
        """The slots of objects."""
        return frozenset(self._objects.values())

    def blank(self) -> tuple[int, ...]:
        """Return the slots before a search; to be called when all is compiled."""
        return tuple(self._values)

    def _declare(self, variables: Variables) -> None:
        for variable, kind in variables:
            self.slots[variable] = len(self._values)
            self.kinds[len(self._values)] = kind
            self._values.append(-1)


_Parts: TypeAlias = list[tuple[Formula, _Scope]]


def _parts(formula: Formula, scope: _Scope) -> tuple[_Parts, frozenset[int]]:
    """Take conjunctions and quantifiers apart; return the parts and the quantified slots."""
    if isinstance(formula, And):
        inner_parts = [_parts(part, scope) for part in formula.parts]
        own = frozenset(slot for _, slots in inner_parts for slot in slots)
        return [part for parts, _ in inner_parts for part in parts], own
    if isinstance(formula, Exists):
        inner = scope.inside(formula.variables)
        parts, own = _parts(formula.part, inner)
        return parts, own | {inner.slots[variable] for variable, _ in formula.variables}
    return [(formula, scope)], frozenset()


def _free(formula: Formula, scope: _Scope, own: frozenset[str] = frozenset()) -> frozenset[int]:
    """Return the slots of the variables that a formula reads, but for those that it binds itself."""
    if isinstance(formula, Atom | Equal):
        words = formula.args if isinstance(formula, Atom) else (formula.one, formula.other)
        return frozenset(scope.slots[w] for w in words if w not in own and w in scope.slots)
    if isinstance(formula, And | Or):
        return frozenset(slot for part in formula.parts for slot in _free(part, scope, own))
    if isinstance(formula, Not):
        return _free(formula.part, scope, own)
    inner = own | {variable for variable, _ in formula.variables}
    return _free(formula.part, scope, inner)
