"""The Memory tab: facts and times of long-term memory; the banks of experience below."""

from dataclasses import replace
from typing import Any

import gradio as gr

from stategate.graph.forgetting import forget_everywhere
from stategate.stores.errors import UserError
from stategate.stores.memory.recall import SIGNALS, Limits, asked_of
from stategate.stores.memory.records import Candidate, Fact, Namespace
from stategate.ui.app.agents import Agents
from stategate.ui.app.conversation import Conversations
from stategate.ui.app.render.html import day, note, short
from stategate.ui.app.tabs.banks import BanksPanel
from stategate.ui.app.tabs.common import (
    QUIET,
    SAVE_JS,
    App,
    Tab,
    Update,
    button,
    exported,
    frame,
    telling,
)

#: Facts that a search brings.
FOUND = 12
#: Candidates that "why" lists.
SHOWN = 30
_FACTS = ["#", "said", "answer", "source", "salience", "times", "last", "holds", "score"]
_WIDTHS = [44, 250, 320, 110, 78, 58, 110, 120, 66]


class MemoryTab(Tab):
    """The tab's components and what they do. A namespace is shown as ``user / agent``."""

    def __init__(self, app: App, conversations: Conversations, agents: Agents) -> None:
        self.app, self.conversations, self._agents = app, conversations, agents
        with gr.Row(elem_classes="sg-agentbar"):
            self.whose = gr.Dropdown(
                [],
                label="Whose memory",
                elem_id="sg-memory-whose",
                allow_custom_value=True,
                min_width=180,
            )
            self.words = gr.Textbox(
                label="Search by meaning (empty: all)",
                lines=1,
                scale=3,
                elem_id="sg-memory-words",
                min_width=220,
            )
        with gr.Row(elem_classes="sg-controls"):
            self.find = button("Search", "memory-find", 100, variant="primary")
            self.export = button("Export as JSON lines", "memory-export", 170)
            self.forget_all = button("Forget everything", "memory-forget-all", 150, variant="stop")
            self.sure = button(
                "Yes, forget all of it", "memory-sure", 170, variant="stop", visible=False
            )
        self.status = gr.HTML(elem_id="sg-memory-status")
        self.facts = frame(
            "facts", "Facts (click one to edit or forget it)", _FACTS, column_widths=_WIDTHS
        )
        with gr.Group(visible=False) as self.editor:
            self.question = gr.Textbox(label="Question", elem_id="sg-edit-question")
            self.answer = gr.Textbox(label="Answer", lines=3, elem_id="sg-edit-answer")
            self.salience = gr.Slider(0, 1, step=0.05, label="Salience", elem_id="sg-edit-salience")
            self.origin = gr.JSON(label="The turns it came from", elem_id="sg-edit-origin")
            with gr.Row(elem_classes="sg-controls"):
                self.save = button("Save", "edit-save", 90, variant="primary")
                self.forget = button("Forget this fact", "edit-forget", 140, variant="stop")
                self.cancel = button("Cancel", "edit-cancel", 90)
        with gr.Accordion("Why recalled, why not", open=False, elem_id="sg-why"):
            self.why = frame(
                "memory-why", "Of the last search", ["#", "score", *SIGNALS, "text", "left out"]
            )
        with gr.Accordion("Timeline of what holds", open=False, elem_id="sg-timeline"):
            self.timeline = frame(
                "memory-timeline", "Statements", ["of", "what", "value", "from", "until", "#"]
            )
        self.edited = gr.State(None)
        self.text = gr.Textbox(visible="hidden")
        self.outputs = self.parts()
        with gr.Accordion("Banks of experience", open=False, elem_id="sg-banks"):
            self.banks = BanksPanel(app)

    @telling
    def show(self, tab: str) -> Update:
        """Show the memory that this tab's conversation writes."""
        mine = _shown(Namespace(str(self.conversations.of(tab).settings["user"])))
        there = map(_shown, self._agents.memory().namespaces())
        choices = list(dict.fromkeys([mine, *there]))
        return {**self.look(mine, ""), self.whose: gr.update(choices=choices, value=mine)}

    @telling
    def look(self, whose: str, words: str) -> Update:
        """Show facts: all, or the nearest to ``words``."""
        memory, namespace = self._agents.memory(), namespace_of(whose)
        every = memory.facts(namespace)
        facts = every[::-1]
        candidates: list[Candidate] = []
        if (words or "").strip():
            asked = asked_of(words, self._agents.resources.embedder)
            facts, candidates = memory.recall(namespace, asked, Limits(facts=FOUND))
        label = f"{len(facts):,} of {len(every):,} facts (click one to edit or forget it)"
        return {
            self.status: "",
            self.facts: gr.update(value=[_fact(fact) for fact in facts], label=label),
            self.why: [_candidate(one) for one in candidates[:SHOWN]],
            self.timeline: [_statement(row) for row in memory.timeline(namespace)],
            self.editor: gr.update(visible=False),
            self.sure: gr.update(visible=False),
        }

    @telling
    def edit(self, whose: str, event: gr.SelectData) -> Update:
        """Open the fact whose row was clicked."""
        fact = self._fact(whose, str(event.row_value[0]))
        return {
            self.editor: gr.update(visible=True),
            self.question: fact.question,
            self.answer: fact.answer,
            self.salience: min(fact.salience, 1.0),
            self.origin: [
                {"thread": turn["thread_id"], "step": turn["step"], "at": day(turn["at"])}
                for turn in fact.turns
            ],
            self.edited: fact.id,
            self.status: note(f"Editing fact {fact.id}; its provenance stays."),
        }

    @telling
    def store(
        self, whose: str, words: str, fact: int, question: str, answer: str, salience: float
    ) -> Update:
        """Write an edited fact."""
        known = self._fact(whose, str(fact))
        changed = replace(known, question=question, answer=answer, salience=salience)
        memory, embedder = self._agents.memory(), self._agents.resources.embedder
        memory.edit(namespace_of(whose), changed, embedder)
        return {**self.look(whose, words), self.status: note(f"Fact {fact} is changed.", "good")}

    def _fact(self, whose: str, number: str) -> Fact:
        facts = self._agents.memory().facts(namespace_of(whose))
        fact = next((f for f in facts if str(f.id) == number), None)
        if fact is None:
            raise UserError("that fact is gone: search again")
        return fact

    @telling
    def write_out(self, whose: str) -> Update:
        """Hand the memory to the browser as a file that ``stategate memory import`` reads."""
        memory, namespace = self._agents.memory(), namespace_of(whose)
        text, told = exported(
            "memory.jsonl", "turns", lambda path: memory.export_turns(namespace, path)
        )
        return {self.text: text, self.status: told}

    @telling
    def forget_facts(self, whose: str, words: str = "", fact: int | None = None) -> Update:
        """Forget a fact, or all of this namespace, in every store; say what went from where."""
        report = forget_everywhere(
            self._agents.memory(),
            namespace_of(whose),
            None if fact is None else [fact],
            places=self._agents.places(),
            embedder=lambda: self._agents.resources.embedder,
        )
        gone = ", ".join(f"{count} {what}" for what, count in report.counts.items() if count)
        told = f"Forgotten: {gone}." if report.erased else "Nothing was there to forget."
        if report.erased and report.exports:
            told += f" Exported before, delete it yourself: {', '.join(report.exports)}."
        return {**self.look(whose, words), self.status: note(told, "good")}

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        seen, places, how = [self.whose, self.words], self.outputs, QUIET
        opened.select(self.show, [self.app.tab], places, **how)
        self.app.tab.change(self.show, [self.app.tab], places, **how)
        for event in (self.find.click, self.words.submit, self.whose.input, self.cancel.click):
            event(self.look, seen, places, **how)
        self.facts.select(self.edit, [self.whose], places, **how)
        edits = [*seen, self.edited, self.question, self.answer, self.salience]
        self.save.click(self.store, edits, places, **how)
        self.forget.click(self.forget_facts, [*seen, self.edited], places, **how)
        out = self.export.click(self.write_out, [self.whose], [self.text, self.status], **how)
        out.success(None, [self.text], None, js=SAVE_JS)
        self.forget_all.click(lambda: gr.update(visible=True), None, [self.sure], **how)
        self.sure.click(self.forget_facts, [self.whose], places, **how)
        self.banks.wire(opened)


def namespace_of(whose: str | None) -> Namespace:
    """Return the namespace that is shown as ``whose``. Raises ``UserError`` where it names nobody."""
    user, slash, agent = (whose or "").partition(" / ")
    if not user.strip():
        raise UserError("whose memory? Choose one")
    return Namespace(user.strip(), agent.strip() if slash else Namespace().agent)


def _shown(namespace: Namespace) -> str:
    return f"{namespace.user} / {namespace.agent}"


def _fact(fact: Fact) -> list[Any]:
    """Return the row of a fact."""
    said = f"{fact.speaker}: {fact.question}" if fact.speaker else fact.question
    holds = "" if fact.valid_to is None else f"until {day(fact.valid_to)}, see #{fact.closed_by}"
    return [
        fact.id,
        said,
        fact.answer if fact.success else f"{fact.answer} (not answered)",
        f"{fact.source}, trust {fact.trust:.1f}",
        f"{fact.salience:.2f}",
        fact.times,
        day(fact.updated),
        holds,
        f"{fact.score:.2f}" if fact.score else "",
    ]


def _candidate(one: Candidate) -> list[Any]:
    """Return the row of what recall looked at: its scores, and why it was left out."""
    scores = [f"{score:.2f}" for score in (one.score, *(one.signals[s] for s in SIGNALS))]
    return [one.fact, *scores, short(one.text, 120), one.left_out or "shown"]


def _statement(row: dict[str, Any]) -> list[Any]:
    """Return the row of a statement and the time for which it holds."""
    value = f"{'not ' if row['negated'] else ''}{short(row['value'], 80)}"
    if row.get("trust", 1.0) < 0.5:
        value += " (unverified)"
    until = "holds" if row["valid_to"] is None else f"{day(row['valid_to'])} (#{row['closed_by']})"
    place = [row["subject"], row["relation"], value]
    return [*place, day(row["valid_from"]), until, row["fact_id"]]
