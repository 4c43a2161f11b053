"""ALFWorld as a pure function from (session, action) to (session, observation).

Plays the text games of ALFWorld (Shridhar et al., 2021) without TextWorld, planner or interpreter: a
room is seen in part, an answer is one line, a game is won when its goal holds. A world never changes
after loading.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from stategate.envs.alfworld.files import Library, open_library
from stategate.envs.alfworld.game import NOTHING, Game
from stategate.envs.alfworld.logic import State
from stategate.envs.protocols import Observation, Session, World, numbered, task_sentence
from stategate.stores.errors import UserError, user_error_context

_GAMES = 64  # games that are kept ready to play
_FOREIGN = ("this is not an ALFWorld session", "take one from reset() or step()")


class AlfWorld(World):
    """The world. ``games`` are named ``split/task/trial``; ``split`` narrows its tasks."""

    name = "alfworld"

    def __init__(self, library: Library, split: str | None = None) -> None:
        self._library = library
        self.games: tuple[str, ...] = tuple(library)
        splits: dict[str, list[str]] = {}
        for name in self.games:
            splits.setdefault(name.partition("/")[0], []).append(name)
        self.splits: Mapping[str, Sequence[str]] = splits
        if split is not None and split not in splits:
            raise UserError(f"no split '{split}': these games have {', '.join(splits)}")
        self._numbered = splits[split] if split is not None else self.games
        self._game = lru_cache(maxsize=_GAMES)(self._read)

    @classmethod
    def load(cls, folder: str | Path = "sample", split: str | None = None) -> "AlfWorld":
        """Load the games in ``folder`` (unpacked, or in archives), or those that ship ("sample").

        Without ``split`` its tasks are all games. Raises ``UserError`` for missing or broken data.
        """
        return cls(open_library(folder), split)

    @property
    def fingerprint(self) -> str:
        """A hash of the games' names and of the first game."""
        first = self._library[self.games[0]]()
        return hashlib.sha256("\n".join([*self.games, first]).encode()).hexdigest()

    def tasks(self) -> Sequence[Mapping[str, Any]]:
        """Return a task for each game of the split."""
        return [{"game": name} for name in self._numbered]

    def reset(self, task: Mapping[str, Any]) -> tuple[Session, Observation]:
        """Start ``{"game": name}``, or ``{"game": number}`` of the split.

        ``{"goal": number}`` is the same; ``say`` is another sentence for what the game asks.
        Raises ``UserError`` for unknown and for broken games.
        """
        words = task_sentence(task)
        if set(task) - {"say"} not in ({"game"}, {"goal"}):
            raise UserError('an ALFWorld task is {"game": name or number}, with "say" if you like')
        name = self._named(task["game"] if "game" in task else task["goal"])
        session: dict[str, Any] = {"game": name, "changes": [], "last": None}
        if words is not None:
            session["say"] = words
        return session, self.observe(session)

    def step(self, session: Session, action: str) -> tuple[Session, Observation]:
        """Return the next session and its observation.

        What is not possible changes nothing and is answered ``Nothing happens.``; after the game is won
        nothing happens any more, and the last page stays.
        """
        if not isinstance(action, str):
            raise UserError(f"an action is text such as 'go to desk 1', not {action!r}")
        game, state, last = self._restore(session)
        if game.has_won(state):
            return session, replace(self._page(game, state, last, session), reward=0.0)
        move = game.commands(state).get(action.strip())
        after = state if move is None else game.after(state, move)
        answer = NOTHING if move is None else game.answer(after, move)
        there = {**session, "changes": game.changes(after), "last": answer}
        return there, self._page(game, after, answer, session)

    def observe(self, session: Session) -> Observation:
        """Draw the page of ``session``."""
        return self._page(*self._restore(session), session)

    def instruction(self, session: Session) -> str:
        """Return the instruction: the sentence that the task came with, else the game's own."""
        return str(session.get("say") or self._restore(session)[0].instruction)

    def contents(self, session: Session) -> dict[str, list[str]]:
        """Return all things by their place, for teachers and pictures: agents do not see them."""
        game, state, _ = self._restore(session)
        return game.contents(state)

    def _page(self, game: Game, state: State, last: str | None, session: Session) -> Observation:
        text = last
        if text is None:
            instruction = str(session.get("say") or game.instruction)
            text = game.intro().replace(game.instruction, instruction)
        won = game.has_won(state)
        return Observation(text, tuple(game.commands(state)), float(won), won)

    def _restore(self, session: Session) -> tuple[Game, State, str | None]:
        with user_error_context(*_FOREIGN):
            name, changes, last = (session[field] for field in ("game", "changes", "last"))
            if not isinstance(last, str | None):
                raise TypeError(last)
            game = self._game(self._named(name))
            return game, game.state(changes), last

    def _named(self, game: Any) -> str:
        if isinstance(game, str):
            if game not in self._library:
                raise UserError(f"no game '{game}': games are named split/task/trial, see .games")
            return game
        return self._numbered[numbered(game, len(self._numbered), "game")]

    def _read(self, name: str) -> Game:
        try:
            return Game.read(self._library[name]())
        except UserError as error:
            raise UserError(f"game '{name}': {error}") from None
