"""Indexed facts, and formulas compiled into searches over them.

A state never changes; the next one shares every predicate that the step did not touch. Everything is
listed in the order of the objects' ids.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from stategate.envs.alfworld.pddl import CONNECTIVES, Formula, conjuncts, free_of, parts_of

Row: TypeAlias = tuple[str, ...]
#: A predicate and the objects of which it is true.
Fact: TypeAlias = tuple[str, Row]
#: The objects that variables stand for.
Binding: TypeAlias = dict[str, str]
#: Yields the bindings that extend one and make a formula true.
Search: TypeAlias = Callable[["State", Binding], Iterator[Binding]]


class Extent:
    """The rows of one predicate, sorted, found by any of their places."""

    __slots__ = ("_by", "rows")

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = sorted(rows)
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


def solutions(
    formula: Formula, variables: Iterable[str], bound: Iterable[str]
) -> Callable[[State, Binding], list[Binding]]:
    """Return a function from (state, binding of ``bound``) to those that satisfy ``formula``.

    They are sorted by the values of ``variables``: the formula's, perhaps bound ones. Each variable
    is bound, or stands in an atom of the conjunction, as its type does.
    """
    names = [name for name in variables if name not in bound]
    search = _conjunction(conjuncts(formula), frozenset(bound))

    def solve(state: State, binding: Binding) -> list[Binding]:
        rows = {tuple([one[name] for name in names]) for one in search(state, binding)}
        return [{**binding, **dict(zip(names, row, strict=True))} for row in sorted(rows)]

    return solve


def _conjunction(parts: Sequence[Formula], bound: Set[str]) -> Search:
    """Return the search that makes all ``parts`` true, the cheapest first, and binds what they read."""
    if not parts:
        return lambda state, binding: iter((binding,))
    best = min(parts, key=lambda part: _cost(part, bound))
    others = [part for part in parts if part is not best]
    first = _test(best, bound) if best[0] in CONNECTIVES else _atom(best, bound)
    then = _conjunction(others, bound | free_of(best))
    return lambda state, binding: (
        whole for one in first(state, binding) for whole in then(state, one)
    )


def _test(formula: Formula, bound: Set[str]) -> Search:
    """Return the test of a disjunction, a negation or a quantifier over ``bound`` variables."""
    parts, own = parts_of(formula), formula[1] if formula[0] == "exists" else ()
    branches = [_conjunction(conjuncts(part), bound - {*own}) for part in parts]

    def search(state: State, binding: Binding) -> Iterator[Binding]:
        found = chain.from_iterable(branch(state, binding) for branch in branches)
        if (next(found, None) is None) is (formula[0] == "not"):
            yield binding

    return search


def _atom(atom: Formula, bound: Set[str]) -> Search:
    """Return the search among the rows of a predicate, by the index of what is bound."""
    name, *args = atom
    free = free_of(atom) - bound
    places = tuple(i for i, word in enumerate(args) if word not in free)
    keys = [args[i] for i in places]
    targets = [(i, word) for i, word in enumerate(args) if word in free]

    def search(state: State, binding: Binding) -> Iterator[Binding]:
        key = tuple([binding.get(word, word) for word in keys])
        for row in state.of(name).at(places).get(key, ()):
            values = {word: row[i] for i, word in targets}
            if all(values[word] == row[i] for i, word in targets):
                yield {**binding, **values}

    return search


def _cost(part: Formula, bound: Set[str]) -> tuple[bool, int, bool, int]:
    """Rank a part of a search: few new variables, then many words that are known; types come late."""
    new, is_atom = len(free_of(part) - bound), part[0] not in CONNECTIVES
    return bool(new) and not is_atom, new, not is_atom, new - len(part)
