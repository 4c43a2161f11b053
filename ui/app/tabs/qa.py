"""The QA tab: a conversation over a corpus, streamed, with everything that the answer was made from."""

import html
from collections.abc import Iterator
from typing import Any

import gradio as gr

from stategate.nodes.act.support import WROTE
from stategate.nodes.registry import registry
from stategate.stores.corpus.corpus import corpus_names
from stategate.stores.corpus.documents import SUFFIXES
from stategate.stores.errors import UserError
from stategate.ui.app.conversation import Conversation, Conversations
from stategate.ui.app.guard import seen
from stategate.ui.app.render.context import render_sources
from stategate.ui.app.render.html import empty, note
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, Watch, button, telling

#: Kinds that make sense for a conversation; others are for Settings and YAML.
_CONTEXTS = ("recall", "rico", "query_rag")
_ACTORS = ("extract", "answer")
_NAMED = 12  # files of an upload that its summary names
_EXAMPLE = "Why does a brinicle grow?"


def _drawn(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return messages as text: the chat draws whatever HTML a document put into an answer.

    What a model wrote and was taken back stays, struck through, with the reason.
    """
    drawn = []
    for said in messages:
        content = html.escape(said["content"], quote=False)
        why, _, wrote = html.escape(said.get("reason", ""), quote=False).partition(WROTE)
        if wrote:
            doubt = why.removeprefix("nothing found: ")
            content += f"<p>Taken back ({doubt}): <del>{wrote}</del></p>"
        drawn.append({"role": said["role"], "content": content})
    return drawn


class QaTab:
    """The tab's components and what they do."""

    def __init__(self, app: App, conversations: Conversations) -> None:
        self.app = app
        self.conversations = conversations
        contexts = [kind for kind in _CONTEXTS if kind in registry().kinds("context")]
        with gr.Row(elem_classes="sg-agentbar"):
            self.corpus = gr.Dropdown(
                ["sample"],
                value="sample",
                label="Corpus (or a folder)",
                allow_custom_value=True,
                elem_id="sg-qa-corpus",
                min_width=170,
                scale=2,
            )
            self.context = gr.Radio(
                contexts,
                value="recall",
                label="Context builder",
                elem_id="sg-qa-context",
                min_width=230,
                scale=2,
            )
            self.actor = gr.Radio(
                list(_ACTORS),
                value="extract",
                min_width=190,
                scale=2,
                label="Actor (extract: no model)",
                elem_id="sg-qa-actor",
            )
            self.user = gr.Textbox(
                label="Whose long-term memory", lines=1, elem_id="sg-qa-user", min_width=150
            )
        with gr.Row(elem_classes="sg-controls"):
            self.upload = gr.UploadButton(
                "Add files to the corpus",
                file_count="multiple",
                size="md",
                min_width=170,
                file_types=list(SUFFIXES),
                elem_id="sg-qa-upload",
                scale=0,
            )
            self.fresh = button("New conversation", "qa-new", 150)
            self.stop = button("Stop", "qa-stop", 84, variant="stop", visible=False)
            self.retry = button("Retry", "qa-retry", 84, visible=False)
        self.status = gr.HTML(elem_id="sg-qa-status")
        with gr.Row(elem_classes="sg-stage"):
            with gr.Column(scale=6, min_width=320):
                self.chat = gr.Chatbot(
                    height=520,
                    show_label=False,
                    elem_id="sg-chat",
                    buttons=["copy"],
                    layout="bubble",
                    placeholder=f"Ask something, such as: {_EXAMPLE}",
                    feedback_options=None,
                    allow_tags=False,
                    render_markdown=False,
                    label="conversation",
                )
                with gr.Row(elem_classes="sg-controls"):
                    self.question = gr.Textbox(
                        placeholder="your question",
                        lines=1,
                        show_label=False,
                        container=False,
                        scale=6,
                        elem_id="sg-question",
                        label="your question",
                    )
                    self.send = button("Ask", "ask", 80, variant="primary")
            with gr.Column(scale=5, min_width=320):
                self.sources = gr.HTML(elem_id="sg-sources")
        self.asked = gr.State("")

    @property
    def outputs(self) -> list[Any]:
        """What a question may change."""
        return [
            self.chat,
            self.question,
            self.sources,
            self.status,
            self.stop,
            self.retry,
            self.send,
            self.asked,
            self.corpus,
            self.context,
            self.actor,
            self.user,
        ]

    @telling
    def show(self, tab: str) -> Update:
        """Draw the tab's conversation."""
        talk = self.conversations.of(tab)
        names = list(
            dict.fromkeys(["sample", *seen(talk.owner, corpus_names()), talk.settings["corpus"]])
        )
        return {
            self.chat: _drawn(talk.messages),
            self.sources: self._sources(talk),
            self.status: "",
            self.corpus: gr.update(choices=names, value=talk.settings["corpus"]),
            self.context: talk.settings["context"],
            self.actor: talk.settings["actor"],
            self.user: talk.settings["user"],
            **self._buttons(is_busy=False),
        }

    def _buttons(self, *, is_busy: bool) -> Update:
        return {
            self.stop: gr.update(visible=is_busy),
            self.send: gr.update(interactive=not is_busy),
            self.retry: gr.update(visible=False),
        }

    def _sources(self, talk: Conversation) -> Any:
        last = talk.last
        if last is None:
            hint = (
                "Passages with scores and sources, recent turns and what is remembered stand here."
            )
            return empty("What an answer is made from", hint)
        agent: Any = talk.graph.agent  # type: ignore[attr-defined]
        env, context = agent.config.env, agent.config.context
        chunks = env.source(last.observation, agent.bound().resources).all()
        why = last.decision.reason
        return render_sources(last.context, context.budget, chunks, context.kind, last.seconds, why)

    def rest(self, error: BaseException) -> Update:
        """Return what else an error changes: one can ask again."""
        retry = {self.retry: gr.update(visible=common.worth_retrying(error))}
        return {**self._buttons(is_busy=False), **retry}

    @telling
    def ask(self, tab: str, question: str) -> Iterator[Update]:
        """Put a question and show the answer as it is written."""
        question = (question or "").strip()
        talk = self.conversations.of(tab)
        if not question:
            raise UserError("the question is empty: ask something")
        said = [m for m in talk.messages if m["content"]]
        asked = {"role": "user", "content": question}
        if not said or (said[-1]["role"], said[-1]["content"]) != ("user", question):
            said.append(asked)
        yield {
            self.chat: _drawn(said),
            self.question: "",
            self.asked: question,
            self.status: "",
            **self._buttons(is_busy=True),
        }
        written: list[str] = []
        label = f"{talk.settings['actor']} is answering …"
        is_left = common.leaving(talk)
        for message in Watch(lambda: talk.ask(question, written.append), label, is_left):
            answer = [{"role": "assistant", "content": "".join(written)}] if written else []
            yield {self.chat: _drawn([*said, *answer]), self.status: message}
        update = self.show(tab)
        if not is_left() and talk.last and talk.last.decision.fallback:
            update[self.status] = note(talk.last.decision.fallback, "warn")
        yield update

    def halt(self, tab: str) -> Update:
        """Leave the question that is being answered, or the files that are being read."""
        talk = self.conversations.of(tab)
        talk.stopping = True
        talk.abandon()
        return self.show(tab)

    def restart(self, tab: str) -> Update:
        """Begin another conversation."""
        self.conversations.of(tab).restart()
        return self.show(tab)

    @telling
    def choose(self, tab: str, corpus: str, context: str, actor: str, user: str) -> Update:
        """Take another corpus, builder, actor or memory."""
        talk = self.conversations.of(tab)
        talk.choose(corpus=corpus, context=context, actor=actor, user=user)
        return {self.status: ""}

    @telling
    def add(self, tab: str, files: list[str] | None) -> Iterator[Update]:
        """Read uploaded files into the tab's corpus, telling how far it is."""
        talk = self.conversations.of(tab)
        talk.stopping = False
        at: list[Any] = ["reading", 0, len(files or ())]

        def tell(what: str, done: int, total: int) -> None:
            at[:] = [what, done, total]
            if talk.stopping:
                raise UserError("stopped: what was read so far stays in the corpus")

        is_left = common.leaving(talk)
        watch = Watch(lambda: talk.add_files(files or (), tell), "reading", is_left)
        for _ in watch:
            line = common.progress_line(watch, f"{at[0]}: {at[1]} of {at[2]}", at[1], at[2])
            yield {self.status: line, **self._buttons(is_busy=True)}
        if is_left():
            yield {**self.show(tab), self.status: note("Stopped reading files.", "info")}
            return
        changes, passages = watch.result
        more = f" and {len(changes.read) - _NAMED} more" if len(changes.read) > _NAMED else ""
        names = ", ".join(changes.read[:_NAMED]) + more
        skipped = "".join(f"; skipped {s.id}: {s.why}" for s in changes.skipped)
        summary = f"{names} in corpus {talk.settings['corpus']}: {passages} passages{skipped}"
        added = note(summary, "warn" if skipped else "good", "Added.")
        yield {**self.show(tab), self.status: added}

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        tab, outputs = self.app.tab, self.outputs
        opened.select(self.show, [tab], outputs, **QUIET)
        self.app.tab.change(self.show, [tab], outputs, **QUIET)
        self.send.click(self.ask, [tab, self.question], outputs, **QUIET)
        self.question.submit(self.ask, [tab, self.question], outputs, **QUIET)
        self.retry.click(self.ask, [tab, self.asked], outputs, **QUIET)
        self.upload.upload(self.add, [tab, self.upload], outputs, **QUIET)
        self.stop.click(self.halt, [tab], outputs, **QUIET)
        self.chat.clear(self.restart, [tab], outputs, **QUIET)
        self.fresh.click(self.restart, [tab], outputs, **QUIET)
        bar = [tab, self.corpus, self.context, self.actor, self.user]
        for box in (self.corpus, self.context, self.actor):
            box.input(self.choose, bar, [self.status], **QUIET)
        self.user.blur(self.choose, bar, [self.status], **QUIET)
        self.user.submit(self.choose, bar, [self.status], **QUIET)
