"""The Memory tab: facts and entities of long-term memory; see ``banks`` for experience."""

from typing import Any

import gradio as gr

from stategate.graph.forgetting import forget_everywhere
from stategate.nodes.retrieval.remember import asked_of
from stategate.stores.errors import UserError
from stategate.stores.memory.extraction import name_graph
from stategate.stores.memory.recall import Limits
from stategate.stores.memory.records import Candidate, Namespace
from stategate.ui.app.agents import Agents
from stategate.ui.app.conversation import Conversations
from stategate.ui.app.guard import is_seen, owned, owner_of, require_seen
from stategate.ui.app.render.html import note
from stategate.ui.app.render.memories import (
    render_entities,
    render_facts,
    render_timeline,
    render_why,
)
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.banks import BanksPanel
from stategate.ui.app.tabs.common import (
    EVENTS_JS,
    QUIET,
    SAVE_JS,
    App,
    Update,
    button,
    data_of,
    telling,
)

#: Names and relations drawn at most.
NAMES, RELATIONS = 40, 80
#: Facts that a search brings.
FOUND = 12
#: Candidates that "why" lists.
SHOWN = 30


class MemoryTab:
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
        with gr.Group(visible=False) as self.editor:
            self.question = gr.Textbox(label="Question", elem_id="sg-edit-question")
            self.answer = gr.Textbox(label="Answer", lines=3, elem_id="sg-edit-answer")
            self.salience = gr.Slider(0, 1, step=0.05, label="Salience", elem_id="sg-edit-salience")
            with gr.Row():
                self.save = gr.Button("Save", variant="primary", size="md", elem_id="sg-edit-save")
                self.cancel = gr.Button("Cancel", size="md")
        with gr.Row(elem_classes="sg-stage"):
            with gr.Column(scale=6, min_width=320):
                self.facts = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-facts")
            with gr.Column(scale=5, min_width=320):
                self.names = gr.HTML(js_on_load=EVENTS_JS, elem_id="sg-entities")
        with gr.Accordion("Why recalled, why not", open=False, elem_id="sg-why"):
            self.why = gr.HTML(elem_id="sg-memory-why")
        with gr.Accordion("Timeline of what holds", open=False, elem_id="sg-timeline"):
            self.timeline = gr.HTML(elem_id="sg-memory-timeline")
        self.edited = gr.State(None)
        self.text = gr.Textbox(visible="hidden")
        with gr.Accordion("Banks of experience", open=False, elem_id="sg-banks"):
            self.banks = BanksPanel(app)

    @property
    def outputs(self) -> list[Any]:
        """What looking at a memory may change."""
        return [
            self.status,
            self.facts,
            self.names,
            self.whose,
            self.editor,
            self.sure,
            self.why,
            self.timeline,
        ]

    @telling
    def show(self, tab: str, request: gr.Request) -> Update:
        """Show the memory that this tab's conversation writes."""
        talk = self.conversations.of(tab)
        owner = owner_of(request)
        mine = _shown(Namespace(owned(owner, str(talk.settings["user"]))))
        there = [n for n in self._agents.memory().namespaces() if is_seen(owner, n.user)]
        choices = list(dict.fromkeys([mine, *map(_shown, there)]))
        return {**self.look(mine, "", request), self.whose: gr.update(choices=choices, value=mine)}

    @telling
    def look(self, whose: str, words: str, request: gr.Request, name: str | None = None) -> Update:
        """Show facts (all, or the nearest to ``words``, or those that tell of ``name``)."""
        memory, namespace = self._agents.memory(), _read(whose, request)
        every = memory.facts(namespace)
        facts = every[::-1]
        candidates: list[Candidate] = []
        if (words or "").strip():
            asked = asked_of(words, self._agents.resources.embedder)
            facts, candidates = memory.recall(namespace, asked, Limits(facts=FOUND))
        if name:
            lower = name.lower()
            facts = [f for f in facts if lower in f"{f.question} {f.answer}".lower()]
        names, relations = name_graph(every, NAMES, RELATIONS)
        heading = note(f"what is remembered of {name}", "info") if name else ""
        return {
            self.status: heading,
            self.facts: render_facts(facts, len(every)),
            self.names: render_entities(names, relations, name),
            self.why: render_why(candidates[:SHOWN]),
            self.timeline: render_timeline(memory.timeline(namespace)),
            self.editor: gr.update(visible=False),
            self.sure: gr.update(visible=False),
        }

    @telling
    def touch(self, whose: str, words: str, request: gr.Request, event: gr.EventData) -> Update:
        """Edit or forget the fact whose button was pressed."""
        data = data_of(event)
        memory, namespace = self._agents.memory(), _read(whose, request)
        if "drop" in data:
            message = self._forget(namespace, [int(data["drop"])])
            return {**self.look(whose, words, request), self.status: message}
        wanted = str(data.get("fact", ""))
        fact = next((f for f in memory.facts(namespace) if str(f.id) == wanted), None)
        if fact is None:
            raise UserError("that fact is gone: search again")
        return {
            self.editor: gr.update(visible=True),
            self.question: fact.question,
            self.answer: fact.answer,
            self.salience: min(fact.salience, 1.0),
            self.edited: fact.id,
            self.status: note(f"Editing fact {fact.id}; its provenance stays.", "info"),
        }

    @telling
    def store(
        self,
        whose: str,
        words: str,
        fact: int | None,
        question: str,
        answer: str,
        salience: float,
        request: gr.Request,
    ) -> Update:
        """Write an edited fact."""
        if fact is None:
            raise UserError("choose a fact to edit first")
        embedder = self._agents.resources.embedder
        self._agents.memory().edit(
            _read(whose, request),
            fact,
            question=question,
            answer=answer,
            salience=salience,
            embed=embedder.embed,
            embedder=embedder.name,
        )
        return {
            **self.look(whose, words, request),
            self.status: note(f"Fact {fact} is changed.", "good"),
        }

    def pick(self, whose: str, request: gr.Request, event: gr.EventData) -> Update:
        """Show what is remembered of the name that was clicked."""
        return self.look(whose, "", request, str(data_of(event).get("pick", "")) or None)

    def write_out(self, whose: str, request: gr.Request) -> Update:
        """Hand the memory to the browser as a file that ``stategate memory import`` reads."""
        return common.file_of(
            self,
            "memory.jsonl",
            "turns",
            lambda path: self._agents.memory().export_turns(_read(whose, request), path),
        )

    @telling
    def forget_everything(self, whose: str, request: gr.Request) -> Update:
        """Forget all facts of this namespace, and what other stores hold of them."""
        message = self._forget(_read(whose, request), None)
        return {**self.look(whose, "", request), self.status: message}

    def _forget(self, namespace: Namespace, facts: list[int] | None) -> Any:
        """Forget as ``stategate memory forget`` does, in every store; say what went from where."""
        report = forget_everywhere(
            self._agents.memory(),
            namespace,
            facts,
            places=self._agents.places(),
            embedder=lambda: self._agents.resources.embedder,
        )
        if not report.erased:
            return note("Nothing was there to forget.", "info")
        gone = ", ".join(f"{count} {what}" for what, count in report.counts.items() if count)
        kept = f" Exported before, delete it yourself: {', '.join(report.exports)}."
        return note(f"Forgotten: {gone}.{kept if report.exports else ''}", "good")

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        seen = [self.whose, self.words]
        places = self.outputs
        form = [self.question, self.answer, self.salience, self.edited]
        opened.select(self.show, [self.app.tab], places, **QUIET)
        self.app.tab.change(self.show, [self.app.tab], places, **QUIET)
        opened.select(self.banks.choices, None, [self.banks.choice], **QUIET)
        self.find.click(self.look, seen, places, **QUIET)
        self.words.submit(self.look, seen, places, **QUIET)
        self.whose.input(self.look, seen, places, **QUIET)
        self.facts.click(self.touch, seen, [*places, *form], **QUIET)
        self.names.click(self.pick, [self.whose], places, **QUIET)
        edits = [*seen, self.edited, self.question, self.answer, self.salience]
        self.save.click(self.store, edits, places, **QUIET)
        self.cancel.click(self.look, seen, places, **QUIET)
        out = self.export.click(self.write_out, [self.whose], [self.text, self.status], **QUIET)
        out.success(None, [self.text], None, js=SAVE_JS)
        self.forget_all.click(lambda: gr.update(visible=True), None, [self.sure], **QUIET)
        self.sure.click(self.forget_everything, [self.whose], places, **QUIET)
        self.banks.wire()


def _shown(namespace: Namespace) -> str:
    return f"{namespace.user} / {namespace.agent}"


def _read(whose: str | None, request: gr.Request) -> Namespace:
    """Return the namespace that is shown as ``whose``. Raises ``UserError`` where it is another's."""
    user, slash, agent = (whose or "").partition(" / ")
    if not user.strip():
        raise UserError("whose memory? Choose one")
    require_seen(owner_of(request), user.strip())
    return Namespace(user.strip(), agent.strip() if slash else Namespace().agent)
