"""Choosing what to do: browse the world's tasks, search them, take a random one, or write your own."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from stategate.envs.protocols import World, playable
from stategate.stores.errors import UserError
from stategate.ui.app.render.html import macros, note, plural
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, button, data_of, problem_of
from stategate.ui.app.workspace import Workspace

#: Tasks shown at once.
PAGE = 6
#: Seconds that a search may draw tasks for which it knows no instruction yet.
PATIENCE = 2.0

Begin = Callable[[str, dict[str, Any]], Iterator[Update]]


class TaskList:
    """The tasks of a world, each called by its instruction, which is drawn when it is first shown."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.tasks: Sequence[Mapping[str, Any]] = playable(world).tasks()
        self._labels: dict[int, str] = {}

    def label(self, number: int) -> str:
        """Return a task's instruction."""
        if number not in self._labels:
            try:
                session, _ = self._world.reset(self.tasks[number])
                self._labels[number] = " ".join(self._world.instruction(session).split())
            except UserError as error:
                self._labels[number] = f"({problem_of(error)})"
        return self._labels[number]

    def page(self, words: str, first: int) -> tuple[list[tuple[int, str]], str, bool]:
        """Return tasks that have all ``words`` from the ``first`` on, their place, and if more follow.

        A search gives up after :data:`PATIENCE`, and goes on there the next time.
        """
        total, asked, searched = len(self.tasks), words.lower().split(), ""
        hits: list[int] | range = range(total)
        if asked:
            hits, until = [], time.monotonic() + PATIENCE
            for number in range(total):
                if number not in self._labels and time.monotonic() > until:
                    searched = f" among the first {number:,} of {plural(total, 'task')}"
                    break
                if all(word in self.label(number).lower() for word in asked):
                    hits.append(number)
        shown = [(number, self.label(number)) for number in hits[first : first + PAGE]]
        where = f"{first + 1}–{first + len(shown)} of {plural(len(hits), 'task')}"
        where = where if shown else "No task has these words"
        return shown, where + searched, len(hits) > first + PAGE

    @cached_property
    def takes_instruction(self) -> bool:
        """Whether the world plays an instruction that a person writes."""
        try:
            self._world.reset({"instruction": "look around"})
        except Exception:  # a stranger's world may raise anything for a task that it does not know
            return False
        return True


class TaskPicker:
    """A search box over the world's tasks, a page of them, and two buttons."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._lists: WeakKeyDictionary[World, TaskList] = WeakKeyDictionary()
        with gr.Row(elem_classes="sg-picker"):
            hint = "find a task by its words, or write what you want done"
            bare: dict[str, Any] = {"show_label": False, "container": False, "scale": 5}
            self.words = common.box(hint, "task-words", placeholder=hint, **bare)
            self.browse = button("Browse tasks", "browse", 110, scale=None)
            self.random = button("Random task", "random", 110, scale=None)
            self.own = button("Play what I wrote", "own", 130, scale=None)
        with gr.Column(visible=False) as self.panel:
            self.list = common.drawn("tasks")
        self.is_open = gr.State(False)
        self.first = gr.State(0)

    def tasks_in(self, workspace: Workspace) -> TaskList:
        """Return the tasks of a workspace's world."""
        world = workspace.world
        if world not in self._lists:
            self._lists[world] = TaskList(world)
        return self._lists[world]

    def show(self, tab: str, words: str, first: int = 0) -> Update:
        """Draw the tasks that have all ``words``, from ``first`` on."""
        start = max(first, 0)
        opened = {self.first: start, self.is_open: True, self.panel: gr.update(visible=True)}
        try:
            shown, where, more = self.tasks_in(self.app.of(tab)).page(words, start)
        except UserError as error:
            return {**opened, self.list: note(problem_of(error), "bad")}
        return {**opened, self.list: macros("frame").tasks(shown, where, start, more)}

    def wire(self, begin: Begin, outputs: list[Any]) -> None:
        """Connect the choices to ``begin(tab, task)``, which draws ``outputs``."""
        tab, words = self.app.tab, self.words
        closed = {self.panel: gr.update(visible=False), self.is_open: False}

        def start(tab: str, task: Mapping[str, Any]) -> Iterator[Update]:
            for update in begin(tab, dict(task)):
                yield {**update, **closed}

        def turn(tab: str, words: str, first: int, event: gr.EventData) -> Iterator[Update]:
            data = data_of(event)
            if "task" in data:
                yield from start(tab, self.tasks_in(self.app.of(tab)).tasks[int(data["task"])])
            elif "turn" in data:
                yield self.show(tab, words, first + PAGE * int(data["turn"]))

        def surprise(tab: str) -> Iterator[Update]:
            tasks = self.tasks_in(self.app.of(tab)).tasks
            yield from start(tab, random.choice(tasks) if tasks else {})

        def write(tab: str, words: str) -> Iterator[Update]:
            if self.tasks_in(self.app.of(tab)).takes_instruction:
                yield from start(tab, {"instruction": words or ""})
            else:
                yield self.show(tab, words)

        def find(tab: str, words: str) -> Update:
            return self.show(tab, words) if words.strip() else closed

        def toggle(tab: str, words: str, is_open: bool) -> Update:
            return closed if is_open else self.show(tab, words)

        mine = [self.list, self.first, self.is_open, self.panel]
        places = [*outputs, *mine]
        self.list.click(turn, [tab, words, self.first], places, **QUIET)
        self.random.click(surprise, [tab], places, **QUIET)
        for writes in (self.own.click, words.submit):
            writes(write, [tab, words], places, **QUIET)
        words.change(find, [tab, words], mine, trigger_mode="always_last", **QUIET)
        self.browse.click(toggle, [tab, words, self.is_open], mine, **QUIET)
