"""Choosing what to buy: browse the goals, search them, take a random one, or write your own."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from stores.errors import UserError
from ui.app.render.frame import render_goals
from ui.app.render.html import note
from ui.app.tabs.common import EVENTS_JS, App, data_of, problem_of

#: Goals shown at once.
PAGE = 6

Begin = Callable[[str, dict[str, Any]], Iterator[dict[Any, Any]]]


class GoalPicker:
    """A search box over the world's goals, a page of them, and two buttons."""

    def __init__(self, app: App) -> None:
        self.app = app
        with gr.Row(elem_classes="sg-picker"):
            self.words = gr.Textbox(
                label="find a goal, or write what you want to buy", lines=1, scale=5, min_width=220,
                placeholder="find a goal (speakers, green tea …) or write what you want to buy",
                show_label=False, container=False, elem_id="sg-goal-words",
            )  # fmt: skip
            self.browse = gr.Button("Browse goals", elem_id="sg-browse", min_width=110, size="md")
            self.random = gr.Button("Random goal", elem_id="sg-random", min_width=110, size="md")
            self.own = gr.Button("Buy what I wrote", elem_id="sg-own", min_width=130, size="md")
        with gr.Column(visible=False) as self.panel:
            self.list = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-goals")
        self.is_open = gr.State(False)
        self.first = gr.State(0)

    def goals(self, tab: str) -> list[str]:
        """Return the world's instructions by goal number ([] for a world without goals)."""
        world = self.app.of(tab).graph.agent.bound(None).world  # type: ignore[attr-defined]
        return [str(goal["instruction_text"]) for goal in getattr(world, "goals", ())]

    def show(self, tab: str, words: str, first: int = 0) -> tuple[Any, int]:
        """Draw the goals that have all ``words``, from ``first`` on."""
        try:
            asked = words.lower().split()
            found = [
                (number, text)
                for number, text in enumerate(self.goals(tab))
                if all(word in text.lower() for word in asked)
            ]
        except UserError as error:
            return note(problem_of(error), "bad"), 0
        start = min(max(first, 0), max(len(found) - 1, 0))
        return render_goals(found[start : start + PAGE], len(found), start), start

    def wire(self, begin: Begin, outputs: list[Any]) -> None:
        """Connect the choices to ``begin(tab, task)``, which draws ``outputs``."""
        tab = self.app.tab
        closed = {self.panel: gr.update(visible=False), self.is_open: False}

        def turn(tab: str, words: str, first: int, event: gr.EventData) -> Iterator[dict[Any, Any]]:
            data = data_of(event)
            if "goal" in data:
                for update in begin(tab, {"goal": int(data["goal"])}):
                    yield {**update, **closed}
            elif "turn" in data:
                shown, start = self.show(tab, words, first + PAGE * int(data["turn"]))
                yield {self.list: shown, self.first: start}

        def surprise(tab: str) -> Iterator[dict[Any, Any]]:
            goals = self.goals(tab)
            task = {"goal": random.randrange(len(goals))} if goals else {}
            for update in begin(tab, task):
                yield {**update, **closed}

        def write(tab: str, words: str) -> Iterator[dict[Any, Any]]:
            for update in begin(tab, {"instruction": words or ""}):
                yield {**update, **closed}

        def find(tab: str, words: str) -> dict[Any, Any]:
            shown, start = self.show(tab, words)
            is_open = bool(words.strip())
            return {self.list: shown, self.first: start, self.is_open: is_open,
                    self.panel: gr.update(visible=is_open)}  # fmt: skip

        def toggle(tab: str, words: str, is_open: bool) -> dict[Any, Any]:
            if is_open:
                return closed
            shown, start = self.show(tab, words)
            return {self.list: shown, self.first: start, self.is_open: True,
                    self.panel: gr.update(visible=True)}  # fmt: skip

        how: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        mine = [self.list, self.first, self.is_open, self.panel]
        places = [*outputs, *mine]
        self.list.click(turn, [tab, self.words, self.first], places, **how)
        self.random.click(surprise, [tab], places, **how)
        self.own.click(write, [tab, self.words], places, **how)
        self.words.change(find, [tab, self.words], mine, trigger_mode="always_last", **how)
        self.words.submit(write, [tab, self.words], places, **how)
        self.browse.click(toggle, [tab, self.words, self.is_open], mine, **how)
