"""What one server holds: the graphs of its configs, and what they share."""

import threading
import time
import uuid
from dataclasses import replace

from stategate.graph.build import Graph, build_graph
from stategate.graph.checkpoints import open_saver
from stategate.graph.config import Config, load_config, presets
from stategate.graph.forgetting import Places
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.memory import MemoryPlace
from stategate.nodes.write_memory.long_term import memory_place
from stategate.stores.home import home


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

    def of_world(self, world: str) -> Config:
        """Return the config that a world begins with: the server's own, its preset, or what fits it."""
        if world == self.config.env.kind:
            return self.config
        if world in presets():
            base = load_config(world)
            return base.model_copy(update={"embedder": self.config.embedder})
        return load_config({"env": world, "context": {"kind": "compress"}, "actor": "explore"})

    def fitted(self, config: Config) -> tuple[Config, list[str]]:
        """Return ``config`` with what cannot work in its world replaced, and a line a replacement."""
        nodes = {"updater": config.updater, "context": config.context, "actor": config.actor}
        misfits = [slot for slot, node in nodes.items() if node.misfit(config.env)]
        own = self.of_world(config.env.kind).model_dump() if misfits else {}
        lines = [f"{nodes[s].kind} became {own[s]['kind']}, which fits the world" for s in misfits]
        values = {**config.model_dump(), **{slot: own[slot] for slot in misfits}}
        return load_config(values), lines

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


def new_thread(prefix: str) -> str:
    """Return the id of a thread that nobody has."""
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:12]}"
