"""One game: its file's rules, the possible commands of a state, and their effects.

A game file (``game.tw-pddl``) is a JSON object with ``pddl_domain``, ``pddl_problem``, ``grammar`` and,
in newer ones, ``walkthrough``. The rules are those of TextWorld's planner behind ALFWorld (Shridhar et
al., 2021):

- An action is possible wherever its precondition holds; one that could change nothing (going where one
  is) is left out, as planners leave it out.
- Names are numbered within their kind: among the sorted ids of one kind the first has the highest
  number.
- Conditions of the grammar read facts, and of a fact that a step made false also ``not_fact``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias

from stategate.envs.alfworld.grammar import NOT, Grammar, TextGenerator, read_grammar
from stategate.envs.alfworld.logic import Binding, Extent, Fact, Row, State, solutions
from stategate.envs.alfworld.pddl import (
    CONNECTIVES,
    TRUE,
    Action,
    Domain,
    Formula,
    Problem,
    conjuncts,
    predicates_of,
    read_domain,
    read_problem,
)
from stategate.stores.errors import UNREADABLE, UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.text import one_line

_LIES_IN = "inreceptacle"  # the predicate of a thing and its place
NOTHING = "Nothing happens."
_FIELDS = ("pddl_domain", "pddl_problem", "grammar")
_STATES = 512  # situations of one game that are remembered
_MOVES = 1 << 14  # steps of one game of which it is remembered whether they change anything
_TASK = "Your task is to: "
_ARTICLES = {"definite": "the", "indefinite": "a"}

#: A step: the action's place in the domain, and the objects that it is about.
Move: TypeAlias = tuple[int, Row]


class Game:
    """The rules of one game; nothing in it ever changes, so threads and episodes share it."""

    def __init__(self, domain: Domain, problem: Problem, grammar: Grammar) -> None:
        self.domain = domain
        self._grammar = grammar
        self._names = _named(problem.objects, {id_ for fact in problem.init for id_ in fact[1:]})
        self._ids = {name: id_ for id_, name in self._names.items()}
        things = {
            id_: {"name": self._names[id_], "id": id_, "type": own, **_ARTICLES}
            for id_, own in problem.objects.items()
        }
        changing = {effect.atom[0] for a in domain.actions for effect in a.effects}
        formulas = [
            formula
            for action in domain.actions
            for formula in (action.precondition, *(effect.condition for effect in action.effects))
        ]
        read = set().union(*map(predicates_of, formulas))
        read |= predicates_of(problem.goal) | {p.removeprefix(NOT) for p in grammar.reads}
        #: Predicates that steps change and anybody reads: what a session has to keep.
        self.fluents = frozenset(changing & read)
        self._undone = frozenset(p for p in self.fluents if NOT + p in grammar.reads)
        rows: dict[str, list[Row]] = {}
        for predicate, *ids in (*problem.init, *problem.types):
            if predicate in read:
                rows.setdefault(predicate, []).append(tuple(ids))
        self.start = State({predicate: Extent(own) for predicate, own in rows.items()})
        self._text = TextGenerator(grammar, things)
        self._is_won = solutions(problem.goal, (), ())
        #: Of each action, what finds its possible bindings, and for each effect, whether it happens.
        self._searches = [
            solutions(action.precondition, action.parameters, ()) for action in domain.actions
        ]
        self._conditions = [
            [solutions(effect.condition, (), action.parameters) for effect in action.effects]
            for action in domain.actions
        ]
        self.commands = lru_cache(_STATES)(self._commands)
        self._state = lru_cache(_STATES)(self._state_of)
        self._is_idle = lru_cache(_MOVES)(lambda i, row: _is_idle(domain.actions[i], row))

    @classmethod
    def read(cls, text: str) -> "Game":
        """Read a game file's text. Raises ``UserError``."""
        with user_error_context("the game file is no JSON"):
            data = parse_json(text)
        if not isinstance(data, dict):
            raise UserError("the game file is no JSON object")
        for name in _FIELDS:
            if not isinstance(data.get(name), str) or not data[name].strip():
                raise UserError(f"the game file has no {name}")
        with user_error_context("the game file cannot be read", kinds=(*UNREADABLE, SyntaxError)):
            domain, grammar = read_domain(data["pddl_domain"]), read_grammar(data["grammar"])
            unsaid = {action.name for action in domain.actions} - {*grammar.actions}
            if unsaid or "intro" not in grammar.rules:
                raise ValueError(f"its grammar does not say {', '.join([*unsaid, 'intro'])}")
            return cls(domain, read_problem(data["pddl_problem"], domain), grammar)

    # States -----------------------------------------------------------------------------------------

    def state(self, changes: Iterable[Sequence[str]]) -> State:
        """Return the state that differs from the start by ``changes`` (see :meth:`changes`).

        Raises ``LookupError`` and its like for facts of another game.
        """
        facts = set()
        for predicate, *names in changes:
            if predicate.removeprefix(NOT) not in self.fluents:
                raise LookupError(predicate)
            facts.add((predicate, tuple(self._ids[name] for name in names)))
        return self._state(frozenset(facts))

    def _state_of(self, changes: frozenset[Fact]) -> State:
        rows: dict[str, set[Row]] = {}
        for predicate, row in changes:
            rows.setdefault(predicate, set()).add(row)
        changed = {name: Extent({*self.start.of(name).rows} ^ own) for name, own in rows.items()}
        return State({**self.start.extents, **changed}, changes)

    def changes(self, state: State) -> list[list[str]]:
        """Return the facts that are true at the start or in ``state`` alone: predicates and names."""
        return [
            [predicate, *(self._names[id_] for id_ in row)]
            for predicate, row in sorted(state.changes)
        ]

    def has_won(self, state: State) -> bool:
        """Say whether the goal holds."""
        return bool(self._is_won(state, {}))

    def contents(self, state: State) -> dict[str, list[str]]:
        """Return the names of the things at each place, of places that hold any."""
        contents: dict[str, list[str]] = {}
        for thing, place in state.of(_LIES_IN).rows:
            contents.setdefault(self._names[place], []).append(self._names[thing])
        return contents

    # Commands ---------------------------------------------------------------------------------------

    def _commands(self, state: State) -> Mapping[str, Move]:
        """Return the possible commands, sorted, each with the step that it stands for."""
        moves: dict[str, Move] = {}
        for number, solve in enumerate(self._searches):
            action = self.domain.actions[number]
            template = self._grammar.actions[action.name]["template"]
            for binding in solve(state, {}):
                row = tuple(binding.values())
                if not self._is_idle(number, row):
                    command = self._text.expand(template, state, _slots(action, row))
                    moves.setdefault(command, (number, row))
        return dict(sorted(moves.items()))

    # Effects ----------------------------------------------------------------------------------------

    def after(self, state: State, move: Move) -> State:
        """Return the state after a step. A fact that it both adds and removes is added."""
        number, row = move
        action = self.domain.actions[number]
        values = dict(zip(action.parameters, row, strict=True))
        outcome: dict[Fact, bool] = {}
        for effect, happens in zip(action.effects, self._conditions[number], strict=True):
            if effect.atom[0] in self.fluents and happens(state, values):
                fact = _ground(effect.atom, values)
                outcome[fact] = effect.holds or outcome.get(fact, False)
        undone = [(fact, holds) for fact, holds in outcome.items() if fact[0] in self._undone]
        outcome |= {(NOT + predicate, own): not holds for (predicate, own), holds in undone}
        same = {
            fact
            for fact, holds in outcome.items()
            if holds == (fact[1] in self.start.of(fact[0]).rows)
        }
        return self._state(state.changes.union(outcome) - same)

    # Texts ------------------------------------------------------------------------------------------

    def intro(self) -> str:
        """Return the first page."""
        return self._text.expand("#intro#", self.start, {})

    def answer(self, state: State, move: Move) -> str:
        """Return the answer after ``move`` led to ``state``."""
        action = self.domain.actions[move[0]]
        feedback = self._grammar.actions[action.name]["feedback"]
        return self._text.expand(feedback, state, _slots(action, move[1]))

    @cached_property
    def instruction(self) -> str:
        """The task, as the first page says it."""
        return one_line(self.intro().rpartition(_TASK)[2])


def _named(ids: Iterable[str], mentioned: set[str]) -> dict[str, str]:
    """Return the names by ids; only the ids that a fact mentions are counted."""
    bases = {}
    for id_ in sorted(ids):
        base, bar, _ = id_.partition("_bar_")
        if bar and id_ in mentioned:
            bases[id_] = base + ("basin" if "basin" in id_ else "")
    unnumbered = Counter(bases.values())
    names = {id_: id_ for id_ in ids}
    for id_, base in bases.items():
        names[id_] = f"{base} {unnumbered[base]}"
        unnumbered[base] -= 1
    return names


def _slots(action: Action, row: Row) -> Binding:
    variables = (f"{variable}:{kind}" for variable, kind in action.parameters.items())
    return dict(zip(variables, row, strict=True))


def _ground(atom: Formula, values: Mapping[str, str]) -> Fact:
    """Return an atom with the values of its variables."""
    words: tuple[str, ...] = atom[1:]
    return atom[0], tuple(values.get(word, word) for word in words)


def _is_idle(action: Action, row: Row) -> bool:
    """Say whether a binding can change nothing, whatever the state.

    An effect that adds a fact changes nothing where the precondition holds that fact, and one that
    removes a fact where another effect adds it.
    """
    values = dict(zip(action.parameters, row, strict=True))
    atoms = (part for part in conjuncts(action.precondition) if part[0] not in CONNECTIVES)
    idle = {(_ground(atom, values), True) for atom in atoms}
    idle |= {(_ground(effect.atom, values), False) for effect in action.effects if effect.holds}
    return all(
        effect.condition == TRUE and (_ground(effect.atom, values), effect.holds) in idle
        for effect in action.effects
    )
