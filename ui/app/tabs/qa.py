"""The QA tab: a conversation over a corpus, streamed, with everything that the answer was made from."""

import html
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, cast

import gradio as gr
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from markupsafe import Markup

from stategate.nodes.act.answerability import WROTE
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.protocols import StepRecord
from stategate.stores.corpus.corpus import Changes, corpus_names
from stategate.stores.corpus.documents import SUFFIXES
from stategate.stores.progress import reports_to
from stategate.ui.app.agents import Conversation
from stategate.ui.app.context import shown_pieces
from stategate.ui.app.html import brief, day, note, render
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, Updates, on_event, on_events, shown_on
from stategate.ui.app.tabs.episode_view import render_pipeline
from stategate.ui.app.workspace import Workspace

#: Kinds that make sense for a conversation; others are for Settings and YAML.
_CONTEXTS = ("recall", "rico", "query_rag")
_ACTORS = ("extract", "answer")
_FORGET = "To forget: Memory tab, click a fact, then the red button Forget fact. Named here:"
_NAMED = 12  # files of an upload that its summary names
_LOOK = 0.25  # seconds between two looks at an answer that is being written
_FACTS = 8  # of long-term memory that stand beside the conversation
_HINT = "The passages that it was made from, with their scores, and the turns before it."


def chat_entries(messages: Iterable[BaseMessage]) -> list[dict[str, str]]:
    """Return messages as text: the chat draws whatever HTML a document put into an answer.

    What a model wrote and was taken back stays, struck through, with the reason.
    """
    entries = []
    for message in messages:
        content = html.escape(str(message.text), quote=False)
        reason = str(message.response_metadata.get("reason", ""))
        why, _, wrote = html.escape(reason, quote=False).partition(WROTE)
        if wrote:
            content += f"<p>Taken back ({why}): <del>{wrote}</del></p>"
        role = "assistant" if message.type == "ai" else "user"
        entries.append({"role": role, "content": content})
    return entries


class QaTab(common.AgentTab):
    """The tab's components and what they do."""

    def __init__(self, app: App, pipeline: gr.HTML, opened: gr.Tab) -> None:
        self.app, self.pipeline = app, pipeline
        with gr.Row(elem_classes="sg-agentbar"):
            label = "Corpus (or a folder)"
            self.corpus = common.choice(label, "qa-corpus", 170, allow_custom_value=True, scale=2)
            self.context = common.radio(
                "Context builder", "qa-context", 230, choices=list(_CONTEXTS)
            )
            label = "Actor (extract: no model)"
            self.actor = common.radio(label, "qa-actor", 190, choices=list(_ACTORS))
        with gr.Row(elem_classes="sg-controls"):
            how: dict[str, Any] = {"file_count": "multiple", "file_types": list(SUFFIXES)}
            label = "Add files to the corpus"
            self.upload = common.button(label, "qa-upload", 170, gr.UploadButton, **how)
            self.fresh = common.button("New conversation", "qa-new", 150)
        self.status = common.status_line("qa-status")
        with gr.Row(elem_classes="sg-stage"):
            with gr.Column(scale=6):
                self.chat = gr.Chatbot(
                    height=520,
                    show_label=False,
                    elem_id="sg-chat",
                    buttons=["copy"],
                    placeholder="Ask something, such as: Why does a brinicle grow?",
                    feedback_options=None,
                    allow_tags=False,
                    render_markdown=False,
                )
                with gr.Row(elem_classes="sg-controls"):
                    bare = {"show_label": False, "container": False, "scale": 6}
                    hint = "your question"
                    self.question = common.box(hint, "question", 200, placeholder=hint, **bare)
                    self.send = common.button("Ask", "ask", 80, variant="primary")
            with gr.Column(scale=5):
                self.remembered = gr.HTML(elem_id="sg-remembered")
                self.sources = gr.HTML(elem_id="sg-sources")
        outputs = self.parts()
        tab = app.tab
        for shows in (opened.select, tab.change):  # a page that is reloaded may have no name yet
            shows(self.show, [tab], outputs, **QUIET)
        puts = [self.send.click, self.question.submit]
        gr.on(puts, self.ask, [tab, self.question], outputs, **shown_on(self.status))
        self.upload.upload(self.add, [tab, self.upload], outputs, **shown_on(self.status))
        gr.on([self.chat.clear, self.fresh.click], self.restart, [tab], outputs, **QUIET)
        bar = [tab, self.corpus, self.context, self.actor]
        choosing = [self.corpus.input, self.context.input, self.actor.input]
        changed = [self.corpus, self.status, self.send, self.pipeline]
        gr.on(choosing, self.choose, bar, changed, **QUIET)

    @on_event
    def show(self, workspace: Workspace) -> Update:
        """Draw the tab's conversation."""
        return self._update(workspace.conversation)

    def _update(self, talk: Conversation) -> Update:
        config = talk.config
        return {
            self.chat: chat_entries(talk.messages),
            self.sources: self._sources(talk),
            self.remembered: self._remembered(talk),
            self.corpus: _choices(["sample", *corpus_names()], talk.corpus),
            self.context: _choices(_CONTEXTS, config.context.kind),
            self.actor: _choices(_ACTORS, config.actor.kind),
            **self.idle(),
        }

    def idle(self, *values: object) -> Update:
        """Return the button as it is while nothing goes on, after an error the corpus that stays."""
        button: Update = {self.send: gr.update(interactive=True)}
        if not values:
            return button
        return {**button, self.corpus: self.app.of(str(values[0])).conversation.corpus}

    def _sources(self, talk: Conversation) -> Markup:
        if talk.last is None:
            return render("parts.empty", "What an answer is made from", _HINT)
        last, agent = talk.last[0], talk.last[1].agent
        chunks = cast(QaEnv, agent.config.env).source(last.observation, agent.resources).all()
        costs = f"answered in {brief(last.seconds)}: {last.decision.reason}"
        titles = {c.id: str(c.data.get("document") or c.id) for c in chunks}
        pieces = tuple(replace(p, id=titles.get(p.id, p.id)) for p in last.context.pieces)
        named, budget = replace(last.context, pieces=pieces), agent.config.context.budget
        title, drawn = "What the answer was made from", shown_pieces(named)
        context = render("context.context", title, named, budget, drawn, {})
        return render("parts.muted", costs) + context

    def _remembered(self, talk: Conversation) -> Markup:
        """Draw the newest facts of long-term memory: those that the last answer quotes first."""
        place = self.app.agents.memory
        facts = place.open().facts(place.owner)[::-1]
        said = talk.last[0].decision.action if talk.last is not None else ""
        facts.sort(key=lambda fact: (fact.text not in said, fact.valid_to is not None))
        rows = [(f.text, f.text in said, day(f.valid_to)) for f in facts[:_FACTS]]
        return render("parts.remembered", rows, len(facts))

    @on_events
    def ask(self, workspace: Workspace, question: str) -> Updates:
        """Put a question and show the answer as it is written."""
        question, talk = (question or "").strip(), workspace.conversation
        history = [message for message in talk.messages if message.text]
        if not history or (history[-1].type, history[-1].text) != ("human", question):
            history.append(HumanMessage(question))
        written, lines, thread = ["…"], [""], talk.thread

        def answer() -> StepRecord:
            with reports_to(lambda line, _: lines.append(line)):
                return talk.ask(question, written.append)

        yield {self.question: "", self.send: gr.update(interactive=False)}
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(answer)
            while wait([asked], _LOOK).not_done and talk.thread == thread:
                text = "".join(written[1:]) or written[0]
                entries = chat_entries([*history, AIMessage(text)])
                yield {self.chat: entries, self.status: note(lines[-1]) if lines[-1] else ""}
        if talk.thread != thread:  # another conversation was begun
            return
        if asked.exception() is not None:
            yield {self.chat: chat_entries(history), self.question: question}  # to be asked again
        result = asked.result()
        yield {**self._update(talk), self.status: _told(result)}

    @on_event
    def restart(self, workspace: Workspace) -> Update:
        """Begin another conversation."""
        workspace.conversation.restart()
        return self._update(workspace.conversation)

    @on_event
    def choose(self, workspace: Workspace, corpus: str, context: str, actor: str) -> Update:
        """Take another corpus, builder or actor."""
        workspace.conversation.choose(corpus=corpus, context=context, actor=actor)
        return {self.pipeline: render_pipeline(workspace.shown)}

    @on_event
    def add(self, workspace: Workspace, files: list[str] | None) -> Update:
        """Read uploaded files into the tab's corpus, telling how far it is."""
        talk = workspace.conversation
        changes = talk.add_files(files or ())
        return {**self._update(talk), self.status: _added(changes, talk.corpus)}


def _choices(names: Sequence[str], now: str) -> dict[str, Any]:
    """Return the choice between names and the one that is there now."""
    return gr.update(choices=list(dict.fromkeys([*names, now])), value=now)


def _told(last: StepRecord) -> Markup:
    """Draw what is to be known of an answer: facts that are to be forgotten, or what fell back."""
    if named := [p.id.removeprefix("fact:") for p in last.context.pieces if p.kind == "forget"]:
        return note(f"{_FORGET} {', '.join(named)}.")
    fallback = last.decision.fallback
    return note(fallback, "warn") if fallback else Markup()


def _added(changes: Changes, corpus: str) -> Markup:
    """Draw what came of added files."""
    read, skipped = changes.read, changes.skipped
    more = f" and {len(read) - _NAMED} more" if len(read) > _NAMED else ""
    line = f"{', '.join(read[:_NAMED])}{more} in corpus {corpus}"
    line += "".join(f"; skipped {s.id}: {s.why}" for s in skipped)
    return note(line, "warn" if skipped else "good", "Added.")
