"""One browser tab's conversation with the QA agent, and the files that it asks about.

Like a workspace it only keeps things together: asking is ``graph.Session``, files are
``stores.corpus.corpus``. It is found again after a reload through the checkpointer.
"""

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stategate.graph.build import Graph
from stategate.graph.config import Config, load_config
from stategate.graph.session import Session, StepResult, write_head
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Changes, Corpus, corpus_names, titled
from stategate.stores.corpus.documents import read_documents
from stategate.stores.errors import UserError
from stategate.stores.tables import is_database
from stategate.ui.app.guard import bounds, is_seen, owned, require_seen
from stategate.ui.app.tab_sessions import OpenTabs, TabSessions, Turns, new_thread
from stategate.ui.memory import of_user, put_question

#: Passages embedded at once while files are indexed.
_BATCH = 16

Progress = Callable[[str, int, int], Any]


class Conversation(Turns):
    """A thread of the QA agent. Questions take turns; a second one at once is refused."""

    def __init__(
        self, tab: str, agents: Any, models: Callable[[], Config], tabs: TabSessions | None = None
    ) -> None:
        super().__init__()
        self.tab, self._agents, self._models, self._tabs = tab, agents, models, tabs
        self.stopping = False
        self.last: StepResult | None = None
        self.settings: dict[str, Any] = {
            "corpus": agents.questions.env.corpus,
            "context": "recall",
            "actor": "extract",
        }
        #: The account or the browser that this tab belongs to, "" where nobody said.
        self.owner = tabs.owner(tab) if tabs else ""
        self.settings["user"] = "me" if self.owner else user_of(tab)
        self.thread = new_thread("ui-qa")
        kept = tabs.read(f"{tab}/qa") if tabs is not None else None
        if kept is not None:
            self.thread = str(kept.get("thread") or self.thread)
            self.settings.update(kept.get("settings") or {})

    @property
    def config(self) -> Config:
        """The server's agent for questions with this tab's choices, and the models of its settings."""
        own = self.settings
        kinds = [f"actor.kind={own['actor']}", f"context.kind={own['context']}"]
        base = self._agents.questions.model_dump(mode="json")
        config = load_config(base, [*kinds, f"env.corpus={own['corpus']}"])
        models = self._models()
        config = config.model_copy(update={"llm": models.llm, "embedder": models.embedder})
        return of_user(config, owned(self.owner, str(own["user"])))

    @property
    def graph(self) -> Graph:
        """The graph of :attr:`config`."""
        graph: Graph = self._agents(self.config)
        return graph

    @property
    def messages(self) -> list[dict[str, str]]:
        """The recent end of the conversation, as role, content and the answer's reason."""
        values = Session(self.graph, self.thread).values
        said: Sequence[Any] = values.get("messages") or ()
        roles = {"human": "user", "ai": "assistant"}
        return [
            {
                "role": roles.get(m.type, "user"),
                "content": str(m.text),
                "reason": str(m.response_metadata.get("reason", "")),
            }
            for m in said
        ]

    def choose(self, **settings: Any) -> None:
        """Set corpus, context, actor or user; the conversation goes on."""
        before = dict(self.settings)
        self.settings.update({k: v for k, v in settings.items() if v not in (None, "")})
        try:
            self._require_own(str(self.settings["corpus"]))
            _ = self.config
        except UserError:
            self.settings = before
            raise
        self.keep()

    def _require_own(self, corpus: str) -> None:
        """Check that a corpus is this tab's to read. Raises ``UserError``."""
        if corpus in ("sample", self._agents.questions.env.corpus):
            return
        if corpus in corpus_names() or is_database(corpus):
            require_seen(self.owner, corpus)
        elif "/" in corpus or corpus.startswith(("~", ".")) or Path(corpus).exists():
            bounds.require_inside(corpus)

    def ask(self, question: str, on_text: Callable[[str], Any] | None = None) -> StepResult:
        """Put a question; ``on_text`` hears the answer as it is written.

        A question that an error cut short is answered when it is asked again.
        """
        asked = question.strip()
        if not asked:
            raise UserError("the question is empty: ask something")
        with self.taking_turn("a question is being answered: wait for it, or stop it") as is_mine:
            result = put_question(Session(self.graph, self.thread), asked, on_text)
            if is_mine():
                self.last = result
                self.keep()
            return result

    def abandon(self) -> None:
        """Leave a question that is not answered: the conversation goes on without it, on a copy."""
        self.leave_turn()
        old = Session(self.graph, self.thread)
        self.thread = new_thread("ui-qa")
        values = old.values
        if values.get("messages"):
            new = Session(old.graph, self.thread)
            write_head(new.graph, new.config, {**values, "done": True}, "observe")
        self.keep()

    def restart(self) -> None:
        """Begin another conversation; what is in long-term memory stays."""
        self.leave_turn()
        self.thread, self.last = new_thread("ui-qa"), None
        self.keep()

    def add_files(self, files: Sequence[str], progress: Progress) -> tuple[Changes, int]:
        """Read files into this tab's corpus and index them; returns changes and passages.

        The sample, folders and shared corpora are not added to: one of the tab's own is made. A file
        of the same name replaces the earlier one. ``progress(what, done, total)`` may raise to stop.
        """
        name = str(self.settings["corpus"])
        is_mine = name in corpus_names() and is_seen(self.owner, name)
        corpus = Corpus(name if is_mine else owned(self.owner, f"uploads-{uuid.uuid4().hex[:6]}"))
        total = Changes()
        for number, file in enumerate(files):
            path = Path(file)
            progress(f"reading {path.name}", number, len(files))
            origin = f"upload:{path.name}"
            total.extend(corpus.sync(origin, read_documents(path, path.name, origin)))
        if not total.read:
            why = "; ".join(f"{s.id}: {s.why}" for s in total.skipped) or "no file"
            raise UserError(f"nothing could be read ({why})")
        count = self._index(corpus, progress)
        self.choose(corpus=corpus.name)
        return total, count

    def _index(self, corpus: Corpus, progress: Progress) -> int:
        """Embed the passages in small batches, which are kept, so that one sees how far it is."""
        config = load_config(self.config.model_dump(mode="json"), [f"env.corpus={corpus.name}"])
        bound = self._agents(config).agent.bound()
        env: Any = config.env
        texts = [titled(p) for p in corpus.passages(Chunking.parse(env.chunking))]
        for start in range(0, len(texts), _BATCH):
            progress("embedding passages", start, len(texts))
            bound.resources.embedder.embed(texts[start : start + _BATCH])
        progress("indexing", len(texts), len(texts))
        return len(env.index(bound.resources).passages)

    def keep(self) -> None:
        """Write down which thread this tab is on."""
        if self._tabs is not None:
            values: Mapping[str, Any] = {"thread": self.thread, "settings": self.settings}
            self._tabs.write(f"{self.tab}/qa", values)


class Conversations(OpenTabs[Conversation]):
    """All tabs' conversations; ``models`` names the config whose models a tab's agent uses."""

    def __init__(
        self, agents: Any, models: Callable[[str], Config], tabs: TabSessions | None = None
    ) -> None:
        super().__init__(lambda tab: Conversation(tab, agents, partial(models, tab), tabs))


def user_of(tab: str) -> str:
    """Return whose long-term memory a tab reads and writes at first, where no browser is known."""
    return f"tab-{hashlib.sha256(tab.encode()).hexdigest()[:6]}"
