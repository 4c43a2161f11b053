"""What one server holds: the graphs of its configs, and each browser tab's conversation."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from langchain_core.messages import AnyMessage

from stategate.graph.build import Graph, build_graph
from stategate.graph.checkpoints import open_saver
from stategate.graph.config import Config, load_config, presets
from stategate.graph.forgetting import Places
from stategate.graph.session import Session, StepResult
from stategate.nodes.observe.qa import QaEnv
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

#: What a world begins with that another world's agent may not keep.
_OF_WORLD = ("updater", "context", "actor", "memory", "max_steps")


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
            base = load_config(world)
            return base.model_copy(update={"embedder": self.config.embedder})
        return load_config({"env": world, "context": {"kind": "compress"}, "actor": "explore"})

    def fitted(self, config: Config, before: Config) -> tuple[Config, list[str]]:
        """Return ``config`` with what cannot work in its world replaced, and a line a replacement.

        In another world than that of ``before``, what was not edited becomes as that world begins.
        """
        world, now, old = config.env.kind, config.model_dump(), before.model_dump()
        fits = self.of_world(world).model_dump()
        unedited = [s for s in _OF_WORLD if s not in config.model_fields_set or now[s] == old[s]]
        unedited = unedited if world != before.env.kind else []
        nodes = {"updater": config.updater, "context": config.context, "actor": config.actor}
        misfits = [s for s in nodes if s not in unedited and nodes[s].misfit(config.env)]
        lines = [f"{nodes[s].kind} became {fits[s]['kind']}, which fits the world" for s in misfits]
        if changed := [slot for slot in unedited if now[slot] != fits[slot]]:
            lines.append(f"{', '.join(changed)}: as {world} begins")
        return load_config({**now, **{slot: fits[slot] for slot in (*misfits, *unedited)}}), lines

    @property
    def episodes(self) -> Config:
        """The config of episodes: the server's own, or ``ui`` where that one answers questions."""
        if self.config.env.kind != "qa":
            return self.config
        models = {"llm": self.config.llm, "embedder": self.config.embedder}
        return load_config("ui").model_copy(update=models)

    @property
    def questions(self) -> Config:
        """The config of conversations: the server's own where it answers questions, else ``qa``."""
        return self.config if self.config.env.kind == "qa" else load_config("qa")

    @property
    def memory(self) -> MemoryPlace:
        """The long-term memory that conversations of this server read and write."""
        return memory_place(self.questions.memory)

    def places(self) -> Places:
        """Return the stores that hold what was said here, to be cleared of what is forgotten."""
        dumped = (params.model_dump() for params in self.config.memory)
        traces = next((str(values["path"]) for values in dumped if values.get("path")), None)
        return replace(Places.here(traces), checkpoints=None, saver=self.saver)


class Conversation:
    """A thread of the QA agent."""

    def __init__(self, agents: Agents, models: Callable[[], Config]) -> None:
        self._agents, self._models = agents, models
        #: The last answer, and the session that gave it: settings may have changed since.
        self.last: tuple[StepResult, Session] | None = None
        self.thread = new_thread("ui-qa")
        self._take(agents.questions)

    def _take(self, config: Config) -> None:
        corpus = cast(QaEnv, config.env).corpus
        self._base = config
        self.settings = {
            "corpus": corpus,
            "context": config.context.kind,
            "actor": config.actor.kind,
        }

    def configure(self, config: Config) -> None:
        """Take another agent, with its own models; the conversation goes on."""
        _require_corpus(config)
        self._take(config)
        self._models = lambda: config

    def config_of(self, own: Mapping[str, str]) -> Config:
        """Return the agent for questions with choices, and the models of this tab."""
        kinds = [f"actor.kind={own['actor']}", f"context.kind={own['context']}"]
        base = self._base.model_dump(mode="json")
        base["env"]["corpus"] = own["corpus"]  # a name, whatever it would be in YAML
        config = load_config(base, kinds)
        models = self._models()
        return config.model_copy(update={"llm": models.llm, "embedder": models.embedder})

    @property
    def config(self) -> Config:
        """The config of the agent that answers."""
        return self.config_of(self.settings)

    @property
    def session(self) -> Session:
        """The thread of this conversation, with this user's long-term memory."""
        return Session(self._agents(self.config), self.thread, user=this_user())

    @property
    def messages(self) -> Sequence[AnyMessage]:
        """The recent end of the conversation; an answer's metadata hold its reason."""
        return self.session.values.get("messages") or ()

    def choose(self, **settings: str | None) -> None:
        """Set corpus, context or actor; the conversation goes on."""
        chosen = {**self.settings, **{name: value for name, value in settings.items() if value}}
        bounds.require_place(chosen["corpus"])
        _require_corpus(self.config_of(chosen))
        self.settings = chosen

    def ask(self, question: str, on_text: Callable[[str], object] | None = None) -> StepResult:
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
        name = self.settings["corpus"]
        corpus = Corpus(name if name in corpus_names() else new_thread("uploads"))
        changes = Changes()
        for one in read:
            changes.extend(corpus.sync(f"upload:{one.id}", [one]))
        config = self.config_of({**self.settings, "corpus": corpus.name})
        cast(QaEnv, config.env).index(self._agents(config).agent.resources)
        self.choose(corpus=corpus.name)
        return changes


def _require_corpus(config: Config) -> None:
    """Raise ``UserError`` where a config's corpus is missing; a folder is read when it is asked."""
    env = cast(QaEnv, config.env)
    if not user_path(os.path.expandvars(env.corpus)).exists():
        env.open()
