"""The Memory tab: facts and times of long-term memory; the banks of experience below."""

import gradio as gr

from stategate.graph.forgetting import forget_everywhere
from stategate.nodes.models.judge import answer_chances
from stategate.stores.bank import Bank, Row, known_banks
from stategate.stores.errors import UserError
from stategate.stores.home import own_name_of
from stategate.stores.memory.recall import Limits, asked_of
from stategate.stores.memory.records import Fact
from stategate.stores.text import plural
from stategate.ui.app.agents import Agents
from stategate.ui.app.guard import bounds
from stategate.ui.app.html import day, note, short
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, Tab, Update, box, button, choice, frame, on_event

#: Facts that a search would show an agent; those that are listed; rows of a bank shown at once.
FOUND, LISTED, ROWS = 12, 30, 300
_FACTS = ["#", "said", "source", "on", "holds", "answers", "shown, or why not"]
_WIDTHS = [44, 460, 110, 110, 120, 76, 160]
_EMPTY = "Facts come from what you tell in QA, stategate chat or Python (Memory().remember)."
_WISH = "a standing wish: with every question"
_BANK = ["id", "worth", "task", "state or question, advice, origin"]


class MemoryTab(Tab):
    """The tab's components and what they do."""

    def __init__(self, agents: Agents, opened: gr.Tab) -> None:
        self._agents = agents
        with gr.Row(elem_classes="sg-agentbar"):
            self.words = box("Search by meaning (empty: all)", "memory-words", scale=3)
        with gr.Row(elem_classes="sg-controls"):
            self.find = button("Search", "memory-find", 100, variant="primary")
            self.forget = button("Forget this fact", "forget", 140, variant="stop", visible=False)
        self.status = common.status_line("memory-status")
        self.facts = frame("facts", "Facts", _FACTS, column_widths=_WIDTHS)
        self.selected = gr.State(None)
        places, how = self.parts(), QUIET
        for event in (opened.select, self.find.click, self.words.submit):
            event(self.look, [self.words], places, **how)
        self.facts.select(self.select, None, places, **how)
        self.forget.click(self.forget_fact, [self.words, self.selected], places, **how)
        with gr.Accordion("Banks of experience", open=False, elem_id="sg-banks"):
            BanksPanel(opened)

    @on_event
    def look(self, words: str) -> Update:
        """Show facts: all, or the nearest to ``words`` with why an agent would be shown them or not."""
        memory, user = self._agents.memory.open(), self._agents.memory.owner
        facts = {fact.id: fact for fact in memory.facts(user)}
        wishes, apart = {wish.id for wish in memory.wishes(user)}, memory.only_wishes(user)
        newest = sorted(facts.values(), key=lambda fact: (fact.id not in wishes, -fact.id))
        rows = [_fact(fact, why=_WISH if fact.id in wishes else "") for fact in newest]
        if (words or "").strip():
            asked = asked_of(words, self._agents.resources.embedder, judge=answer_chances)
            found = [
                _fact(fact, f"{fact.support:.2f}", fact.left_out or "shown")
                for fact in memory.recall(user, asked, Limits(facts=FOUND))[:LISTED]
                if fact.id not in apart
            ]
            rows = found + [row for row in rows if row[0] in apart]
        count = f"{len(rows):,} of {plural(len(facts), 'fact')}"
        label = f"{count} (click one to see its source, or forget it)"
        return {
            self.facts: gr.update(value=rows, label=label, visible=bool(facts)),
            self.forget: gr.update(visible=False),
            self.status: "" if facts else note(_EMPTY, "info", "Nothing is remembered yet."),
        }

    @on_event
    def select(self, event: gr.SelectData) -> Update:
        """Say where the fact that was clicked comes from, and let it be forgotten."""
        number = str(event.row_value[0])
        place = self._agents.memory
        facts = place.open().facts(place.owner)
        fact = next((f for f in facts if str(f.id) == number), None)
        if fact is None:
            raise UserError("that fact is gone: search again")
        source = f"{own_name_of(fact.thread_id)}, step {fact.step}, {day(fact.at)}"
        return {
            self.selected: fact.id,
            self.forget: gr.update(visible=True, value=f"Forget fact {fact.id}"),
            self.status: note(f"Fact {fact.id} comes from {source}."),
        }

    @on_event
    def forget_fact(self, words: str, fact: int) -> Update:
        """Forget a fact in every store; say what went from where."""
        place, own = self._agents.memory, self._agents
        counts = forget_everywhere(
            place.open(), place.owner, [fact], traces=own.traces, checkpoints=own.saver
        )
        gone = ", ".join(plural(n, what.removesuffix("s")) for what, n in counts.items() if n)
        message = f"Forgotten: {gone}." if counts["facts"] else "Nothing was there to forget."
        return {**self.look(words), self.status: note(message, "good")}


class BanksPanel(Tab):
    """The rows of the banks of experience."""

    def __init__(self, opened: gr.Tab) -> None:
        label = "Bank (choose, or type its folder)"
        self.choice = choice(label, "bank", allow_custom_value=True)
        self.status = common.status_line("bank-status")
        widths = [110, 70, 300, 620]
        self.rows = frame("bank-rows", "Rows", _BANK, column_widths=widths, show_search="search")
        banks = opened.select(
            lambda: gr.update(choices=list(map(str, known_banks()))), None, [self.choice], **QUIET
        )
        for event in (banks.then, self.choice.change):
            event(self.look, [self.choice], [self.rows, self.status], **QUIET)

    @on_event
    def look(self, folder: str | None) -> Update:
        """Show the rows of most worth."""
        if not folder:
            hint = "stategate bank build makes a bank from recorded episodes."
            return {self.rows: [], self.status: note(hint)}
        bank = Bank(bounds.require_place(folder))
        best = sorted(bank.rows(), key=lambda row: (-row.q, row.n))[:ROWS]
        label = f"{len(best)} of {plural(len(bank), 'row')}: {bank.kind} bank made with {bank.make}"
        return {self.rows: gr.update(value=[_row(r) for r in best], label=label)}


def _fact(fact: Fact, chance: str = "", why: str = "") -> list[object]:
    """Return the row of a fact: the chance that it answers a search, why it is shown or not."""
    said = f"{fact.speaker}: {fact.text}" if fact.speaker else fact.text
    holds = "" if fact.valid_to is None else f"until {day(fact.valid_to)}, see #{fact.closed_by}"
    source = f"{fact.source}, trust {fact.trust:.1f}"
    return [fact.id, said, source, day(fact.at), holds, chance, why]


def _row(row: Row) -> list[object]:
    """Return what a table shows of a bank's row: its worth, its task, what it holds."""
    held = "; ".join(f"{name}: {value}" for name, value in row.data.items() if value)
    return [row.id, f"{row.q:.2f}", row.task, short(held, 500)]
