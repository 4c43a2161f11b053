"""Indexed facts, and formulas compiled into searches over them.

A state never changes; the next one shares every predicate that the step did not touch. Everything is
listed in the order of the objects' ids.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, product
from typing import TypeAlias

from stategate.envs.alfworld.pddl import CONNECTIVES, Formula, Variables

Row: TypeAlias = tuple[str, ...]
#: A predicate and the objects of which it is true.
Fact: TypeAlias = tuple[str, Row]
#: The objects that variables stand for.
Binding: TypeAlias = dict[str, str]
#: Yields the bindings that extend one and make a formula true.
Search: TypeAlias = Callable[["State", Binding], Iterator[Binding]]


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


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """The facts that are true; ``changes`` are those that are true here or at the start alone."""

    extents: Mapping[str, Extent]
    changes: frozenset[Fact] = frozenset()

    def of(self, predicate: str) -> Extent:
        """Return the rows of a predicate."""
        return self.extents.get(predicate, EMPTY)

    def holds(self, predicate: str, row: Row) -> bool:
        """Say whether a fact is true."""
        return row in self.of(predicate).members


def parts_of(formula: Formula) -> Sequence[Formula]:
    """Return the formulas that a formula joins, () of an atom and of an equation."""
    return formula[2 if formula[0] == "exists" else 1 :] if formula[0] in CONNECTIVES else ()


def predicates_of(formula: Formula) -> set[str]:
    """Return the predicates that a formula reads."""
    own = {formula[0]} - {"=", *CONNECTIVES}
    return own.union(*map(predicates_of, parts_of(formula)))


def free_of(formula: Formula) -> frozenset[str]:
    """Return the variables that a formula reads, but for those that it binds itself."""
    if formula[0] not in CONNECTIVES:
        return frozenset(word for word in formula[1:] if word.startswith("?"))
    own = dict(formula[1]) if formula[0] == "exists" else {}
    return frozenset().union(*map(free_of, parts_of(formula))) - own.keys()


class Compiler:
    """Makes formulas into backtracking searches, for one problem's objects.

    ``members`` are the objects of each type (a type that is missing has none), ``initial`` is the state
    by whose sizes the order of a search is chosen.
    """

    def __init__(self, members: Mapping[str, Set[str]], initial: State) -> None:
        self._members = members
        self._initial = initial

    def solutions(
        self, variables: Variables, formula: Formula, parameters: Variables = ()
    ) -> Callable[[State, Row], list[Row]]:
        """Return a function from (state, values of ``parameters``) to the sorted solutions.

        A solution holds the values of ``parameters``, then of ``variables``; a formula without either
        has one solution, (), where it holds.
        """
        kinds = dict((*parameters, *variables))
        names, bound = tuple(kinds), frozenset(name for name, _ in parameters)
        search = self._conjunction([formula], kinds, bound, frozenset(names))

        def solve(state: State, values: Row = ()) -> list[Row]:
            start = dict(zip(names, values, strict=False))
            return sorted({tuple([b[name] for name in names]) for b in search(state, start)})

        return solve

    def _conjunction(
        self,
        parts: Sequence[Formula],
        kinds: Mapping[str, str],
        bound: frozenset[str],
        wanted: frozenset[str],
    ) -> Search:
        """Return the search that meets ``parts``, the cheapest first, and binds all of ``wanted``."""
        parts = [part for whole in parts for part in conjuncts(whole)]
        if not parts:
            return self._members_of(wanted - bound, kinds)
        best = min(parts, key=lambda part: self._cost(part, bound))
        others = [part for part in parts if part is not best]
        first = self._part(best, kinds, bound)
        then = self._conjunction(others, kinds, bound | free_of(best), wanted)

        def search(state: State, binding: Binding) -> Iterator[Binding]:
            for one in first(state, binding):
                yield from then(state, one)

        return search

    def _part(self, formula: Formula, kinds: Mapping[str, str], bound: frozenset[str]) -> Search:
        """Return the search that meets ``formula`` and binds its free variables."""
        free, head = free_of(formula), formula[0]
        if head not in ("=", *CONNECTIVES):
            return self._atom(formula, kinds, bound)
        if head == "exists":
            own = dict(formula[1])
            outer, targets = bound - own.keys(), free | own.keys()
            inner = self._conjunction(parts_of(formula), {**kinds, **own}, outer, targets)
            return lambda state, binding: (
                {**binding, **{name: one[name] for name in free}} for one in inner(state, binding)
            )
        if head == "or":
            branches = [self._conjunction([p], kinds, bound, free) for p in parts_of(formula)]
            return lambda state, binding: chain.from_iterable(b(state, binding) for b in branches)
        objects, test = self._members_of(free - bound, kinds), self._test(formula, kinds, free)
        return lambda state, binding: (b for b in objects(state, binding) if test(state, b))

    def _test(
        self, formula: Formula, kinds: Mapping[str, str], bound: frozenset[str]
    ) -> Callable[[State, Binding], bool]:
        """Return a test of an equation or a negation, all of whose variables are bound."""
        if formula[0] == "=":
            _, one, other = formula
            return lambda state, b: b.get(one, one) == b.get(other, other)
        search = self._conjunction(parts_of(formula), kinds, bound, frozenset())
        return lambda state, binding: next(search(state, binding), None) is None

    def _atom(self, atom: Formula, kinds: Mapping[str, str], bound: frozenset[str]) -> Search:
        """Return the search among the rows of a predicate, by the index of what is bound."""
        name, *args = atom
        free = sorted(free_of(atom) - bound)
        places = tuple(i for i, word in enumerate(args) if word not in free)
        keys = [args[i] for i in places]
        firsts = [(word, args.index(word), self._members.get(kinds[word], ())) for word in free]
        same = [(i, args.index(word)) for i, word in enumerate(args) if word in free]

        def search(state: State, binding: Binding) -> Iterator[Binding]:
            key = tuple([binding.get(word, word) for word in keys])
            for row in state.of(name).at(places).get(key, ()):
                if all(row[i] in kind for _, i, kind in firsts) and all(
                    row[i] == row[j] for i, j in same
                ):
                    yield {**binding, **{word: row[i] for word, i, _ in firsts}}

        return search

    def _members_of(self, names: frozenset[str], kinds: Mapping[str, str]) -> Search:
        """Return the search that gives ``names`` every object of their types."""
        ordered = sorted(names)
        objects = [self._members.get(kinds[name], ()) for name in ordered]
        return lambda state, binding: (
            {**binding, **dict(zip(ordered, values, strict=True))} for values in product(*objects)
        )

    def _cost(self, formula: Formula, bound: frozenset[str]) -> float:
        """Estimate the number of branches of a part; tests of bound variables come first."""
        if not free_of(formula) - bound:
            return -0.5 if formula[0] in CONNECTIVES else -1.0
        if formula[0] not in ("=", *CONNECTIVES):
            places = tuple(i for i, w in enumerate(formula[1:]) if w in bound or w[0] != "?")
            extent = self._initial.of(formula[0])
            return len(extent.rows) / max(1, len(extent.at(places)))
        return 1e6 if formula[0] == "or" else 1e9


def conjuncts(formula: Formula) -> list[Formula]:
    """Return the parts of a conjunction, those of its conjunctions included."""
    if formula[0] == "and":
        return [one for part in parts_of(formula) for one in conjuncts(part)]
    return [formula]
