"""One browser tab's conversation with the QA agent, and the files that it asks about."""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage

from stategate.graph.build import Graph
from stategate.graph.config import Config, load_config
from stategate.graph.session import Session, StepResult
from stategate.nodes.observe.qa import QaEnv
from stategate.stores.corpus.corpus import Changes, Corpus, corpus_names
from stategate.stores.corpus.documents import read_document
from stategate.stores.errors import UserError
from stategate.stores.home import this_user
from stategate.stores.progress import Progress
from stategate.ui.app.agents import Agents, new_thread
from stategate.ui.app.guard import bounds


class Conversation:
    """A thread of the QA agent."""

    def __init__(self, agents: Agents, models: Callable[[], Config]) -> None:
        self._agents, self._models = agents, models
        self.last: StepResult | None = None
        self.thread = new_thread("ui-qa")
        corpus = cast(QaEnv, agents.questions.env).corpus
        self.settings = {"corpus": corpus, "context": "recall", "actor": "extract"}

    @property
    def config(self) -> Config:
        """The server's agent for questions with this tab's choices, and the models of its settings."""
        own = self.settings
        kinds = [f"actor.kind={own['actor']}", f"context.kind={own['context']}"]
        base = self._agents.questions.model_dump(mode="json")
        config = load_config(base, [*kinds, f"env.corpus={own['corpus']}"])
        models = self._models()
        return config.model_copy(update={"llm": models.llm, "embedder": models.embedder})

    @property
    def graph(self) -> Graph:
        """The graph of :attr:`config`."""
        return self._agents(self.config)

    @property
    def session(self) -> Session:
        """The thread of this conversation, with this user's long-term memory."""
        return Session(self.graph, self.thread, user=this_user())

    @property
    def messages(self) -> list[dict[str, str]]:
        """The recent end of the conversation, as role, content and the answer's reason."""
        messages: Sequence[AnyMessage] = self.session.values.get("messages") or ()
        return [
            {
                "role": "assistant" if isinstance(message, AIMessage) else "user",
                "content": str(message.text),
                "reason": str(message.response_metadata.get("reason", "")),
            }
            for message in messages
        ]

    def choose(self, **settings: str | None) -> None:
        """Set corpus, context or actor; the conversation goes on."""
        before = self.settings
        self.settings = {**before, **{k: v for k, v in settings.items() if v}}
        try:
            bounds.require_place(self.settings["corpus"])
            _ = self.config
        except UserError:
            self.settings = before
            raise

    def ask(self, question: str, on_text: Callable[[str], object] | None = None) -> StepResult:
        """Put a question; ``on_text`` hears the answer as it is written.

        A question that an error cut short is answered when it is asked again.
        """
        wording = question.strip()
        if not wording:
            raise UserError("the question is empty: ask something")
        thread = self.thread
        result = self.session.ask(wording, on_text)
        if thread == self.thread:  # no other conversation was begun meanwhile
            self.last = result
        return result

    def restart(self) -> None:
        """Begin another conversation; what is in long-term memory stays."""
        self.thread, self.last = new_thread("ui-qa"), None

    def add_files(self, files: Sequence[str]) -> Changes:
        """Read files into this tab's corpus and index them; return what was added.

        The sample and folders are not added to: a corpus is made. A file of the same name replaces
        the earlier one.
        """
        name = self.settings["corpus"]
        corpus = Corpus(name if name in corpus_names() else f"uploads-{uuid.uuid4().hex[:6]}")
        changes = Changes()
        for path in Progress([Path(file) for file in files], "read", unit="file"):
            origin = f"upload:{path.name}"
            changes.extend(corpus.sync(origin, [read_document(path, path.name, origin)]))
        if not changes.read:
            why = "; ".join(f"{s.id}: {s.why}" for s in changes.skipped) or "no file"
            raise UserError(f"nothing could be read ({why})")
        config = load_config(self.config.model_dump(mode="json"), [f"env.corpus={corpus.name}"])
        cast(QaEnv, config.env).index(self._agents(config).agent.resources)
        self.choose(corpus=corpus.name)
        return changes
