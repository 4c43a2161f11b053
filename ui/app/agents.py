"""The graphs of one server: one a config, over one set of models and one checkpointer."""

import threading
from contextlib import suppress
from dataclasses import replace

from stategate.graph.build import Graph, build_graph
from stategate.graph.checkpoints import open_saver
from stategate.graph.config import Config, load_config
from stategate.graph.forgetting import Places
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.memory import MemoryPlace
from stategate.stores.errors import UserError
from stategate.stores.home import home
from stategate.stores.memory.long_term import LongTerm
from stategate.ui.memory import memory_places


class Agents:
    """Builds the graph of a config once; all of them share what was loaded for one."""

    def __init__(self, config: Config) -> None:
        self.saver = open_saver(config.checkpoints or str(home() / "checkpoints.sqlite"))
        self.resources = Resources(config.llm, config.embedder, config.updater)
        self.config = config
        self._graphs: dict[str, Graph] = {}
        self._lock = threading.Lock()

    def __call__(self, config: Config) -> Graph:
        """Return the graph of ``config``."""
        key = config.model_dump_json()
        with self._lock:
            if key not in self._graphs:
                self._graphs[key] = build_graph(config, self.saver, self.resources)
            return self._graphs[key]

    @property
    def questions(self) -> Config:
        """The config of conversations: the server's own where it answers questions, else ``qa``."""
        return self.config if self.config.env.kind == "qa" else load_config("qa")

    def memory(self) -> LongTerm:
        """Return the long-term memory that conversations of this server read and write."""
        return [MemoryPlace(), *memory_places(self.questions)][-1].open()

    def places(self) -> Places:
        """Return the stores that hold what was said here, to be cleared of what is forgotten."""
        dumped = (params.model_dump() for params in self.config.memory)
        traces = next((str(values["path"]) for values in dumped if values.get("path")), None)
        return replace(Places.here(traces), checkpoints=None, saver=self.saver)

    def warm_up(self, config: Config) -> None:
        """Load what the first step needs; what is missing is told by the page, where it matters."""
        with suppress(UserError):
            resources = self(config).agent.resources
            for params in (config.env, config.updater, config.context):
                resources.get(params)
            if config.updater.kind != "none":
                resources.embedder.embed(["warm-up"])
