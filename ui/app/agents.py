"""What one server holds: the graphs of its configs, and each browser tab's conversation."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from langchain_core.messages import AnyMessage

from stategate.graph.build import Graph, build_graph
from stategate.graph.checkpoints import open_saver
from stategate.graph.config import Config, load_config, presets
from stategate.graph.session import Session
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.protocols import StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.remember import MemoryPlace
from stategate.nodes.write_memory.long_term import memory_place
from stategate.stores.corpus.corpus import Changes, Corpus, corpus_names
from stategate.stores.corpus.documents import Skipped, read_document
from stategate.stores.errors import UserError
from stategate.stores.files import user_path
from stategate.stores.home import home, new_thread, this_user
from stategate.stores.progress import Progress
from stategate.ui.app.guard import bounds


class Agents:
    """Builds the graph of a config once; all of them share what was loaded for one."""

    def __init__(self, config: Config) -> None:
        self.saver = open_saver(config.checkpoints or str(home() / "checkpoints.sqlite"))
        self.resources = Resources(config.llm, config.embedder, config.updater)
        self.config = config

    def __call__(self, config: Config) -> Graph:
        """Return the graph of ``config``."""
        key = ("graph", config.model_dump_json())
        return self.resources.once(key, lambda: build_graph(config, self.saver, self.resources))

    def of_world(self, world: str) -> Config:
        """Return the config that a world begins with: the server's own, its preset, or what fits it."""
        if world == self.config.env.kind:
            return self.config
        if world in presets():
            return self._preset(world)
        return load_config({"env": world, "context": {"kind": "compress"}, "actor": "explore"})

    def _preset(self, name: str) -> Config:
        """Return a preset with the server's own models."""
        models = {"llm": self.config.llm, "embedder": self.config.embedder}
        return load_config(name).model_copy(update=models)

    @property
    def episodes(self) -> Config:
        """The config of episodes: the server's own, or ``ui`` where that one answers questions."""
        return self._preset("ui") if self.config.env.kind == "qa" else self.config

    @property
    def questions(self) -> Config:
        """The config of conversations: the server's own where it answers questions, else ``qa``."""
        return self.config if self.config.env.kind == "qa" else self._preset("qa")

    @property
    def memory(self) -> MemoryPlace:
        """The long-term memory that conversations of this server read and write."""
        return memory_place(self.questions.memory)

    @property
    def traces(self) -> str | None:
        """The trace store that holds what was said here, None for this machine's own."""
        dumped = (params.model_dump() for params in self.config.memory)
        return next((str(values["path"]) for values in dumped if values.get("path")), None)


class Conversation:
    """A thread of the QA agent, which ``config`` describes."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self.config = self._base = agents.questions
        #: The last answer, and the session that gave it: settings may have changed since.
        self.last: tuple[StepRecord, Session] | None = None
        self.thread = new_thread("ui-qa")

    @property
    def corpus(self) -> str:
        """The name or folder of the corpus that is asked."""
        return cast(QaEnv, self.config.env).corpus

    def configure(self, config: Config) -> None:
        """Take another agent; the conversation goes on."""
        self._require(config)
        self.config = self._base = config

    def _require(self, config: Config) -> None:
        """Raise ``UserError`` for an agent that cannot answer; a folder is read when it is asked."""
        env = cast(QaEnv, config.env)
        if not user_path(os.path.expandvars(env.corpus)).exists():
            env.open()
        self._agents(config)

    @property
    def session(self) -> Session:
        """The thread of this conversation, with this user's long-term memory."""
        return Session(self._agents(self.config), self.thread, user=this_user())

    @property
    def messages(self) -> Sequence[AnyMessage]:
        """The recent end of the conversation; an answer's metadata hold its reason."""
        return self.session.values.get("messages") or ()

    def choose(self, corpus: str = "", context: str = "", actor: str = "") -> None:
        """Set the corpus, or the kind of context or actor; the conversation goes on."""
        now = self.config
        kinds = [f"context.kind={context or now.context.kind}"]
        kinds.append(f"actor.kind={actor or now.actor.kind}")
        values = self._base.model_dump(mode="json")
        # A name, whatever it would be in YAML.
        values["env"]["corpus"] = bounds.require_place(corpus or self.corpus)
        config = load_config(values, kinds)
        self._require(config)
        self.config = config

    def ask(self, question: str, on_text: Callable[[str], object] | None = None) -> StepRecord:
        """Put a question; ``on_text`` hears the answer as it is written.

        A question that an error cut short is answered when it is asked again.
        """
        thread, session = self.thread, self.session
        result = session.ask(question.strip(), on_text)
        if thread == self.thread:  # no other conversation was begun meanwhile
            self.last = result, session
        return result

    def restart(self) -> None:
        """Begin another conversation; what is in long-term memory stays."""
        self.thread, self.last = new_thread("ui-qa"), None

    def add_files(self, files: Sequence[str]) -> Changes:
        """Read files into this tab's corpus and index them; return what was added.

        The sample and folders are not added to: a corpus is made. A file of the same name replaces
        the earlier one.
        """
        paths = Progress([Path(file) for file in files], "read", unit="file")
        read = [read_document(path, path.name) for path in paths]
        skipped = [one for one in read if isinstance(one, Skipped)]
        if len(skipped) == len(read):
            why = "; ".join(f"{s.id}: {s.why}" for s in skipped) or "no file"
            raise UserError(f"nothing could be read ({why})")
        corpus = Corpus(self.corpus if self.corpus in corpus_names() else new_thread("uploads"))
        changes = Changes()
        for one in read:
            changes.extend(corpus.sync(f"upload:{one.id}", [one]))
        self.choose(corpus=corpus.name)
        cast(QaEnv, self.config.env).index(self._agents(self.config).agent.resources)
        return changes
