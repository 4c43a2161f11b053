"""One user's dialogue with one agent: sessions in order, a row for every turn.

The same player serves the experiments (each question a dialogue of its own) and the memory table.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig

from stategate.envs.protocols import answered
from stategate.envs.qa.questions import Dialogue, DialogueTurn, says, token_f1
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import Config, load_config
from stategate.nodes.build_context.recall import standalone
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.retrieval.corpus import CorpusIndex
from stategate.stores.errors import UserError
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.memory.records import Namespace
from stategate.stores.traces import Event

#: Config overrides of the four memory policies.
POLICIES: dict[str, tuple[str, ...]] = {
    "neither": ("context.history_tokens=0", "context.memory=null", "memory=[]"),
    "stm": ("context.memory=null", "memory=[{kind: conversation, budget: 2000}]"),
    "ltm": ("context.history_tokens=0", "context.memory={}", "memory=[{kind: long_term}]"),
    "both": (
        "context.memory={}",
        "memory=[{kind: conversation, budget: 2000}, {kind: long_term}]",
    ),
}


class Player:
    """One agent, its conversations in memory and its long-term memory in ``folder``."""

    def __init__(self, name: str, config: Config, folder: Path) -> None:
        if not isinstance(config.env, QaEnv):
            raise UserError(f"agent '{name}' has env {config.env.kind}: the QA world is needed")
        self.name = name
        self.config, self._env = config, config.env
        self._memory = f"{folder / 'memory.sqlite'}"
        self.graph: Graph = build_graph(_with_memory_at(config, self._memory))

    def index(self) -> CorpusIndex:
        """Return the corpus's index, made where that is not done."""
        return self._env.index(self.graph.agent.resources)

    def play(self, dialogue: Dialogue, rows: Sequence[dict[str, Any]]) -> None:
        """Play ``dialogue`` from an empty memory, and fill a row for each turn.

        An interrupted dialogue is played again: its half-written memory is forgotten first.
        """
        empty_rows = iter(rows)
        user = f"{self.name}/{dialogue.id}"
        self._forget(user)
        for number, session in enumerate(dialogue.sessions):
            thread: RunnableConfig = {
                "configurable": {"thread_id": f"{user}/{number}", "user_id": user}
            }
            for place, turn in enumerate(session):
                row = next(empty_rows)
                row |= {"session": number, "turn": place, "kind": turn.kind}
                row |= self._turn(turn, thread)

    def _turn(self, turn: DialogueTurn, thread: RunnableConfig) -> dict[str, Any]:
        events = self.graph.get_state(thread).values.get("events") or []
        started = time.perf_counter()
        built: Any = None
        act: dict[str, Any] = {}
        task = {"task": {"question": turn.question}}
        for update in self.graph.stream(task, thread, stream_mode="updates"):
            for node, change in update.items():
                built = change["context"] if node == "build_context" else built
                act.update(change if node == "act" else {})
        answer = answered(str(act["action"])) or ""
        row: dict[str, Any] = {
            "question": turn.question,
            "query": standalone(turn.question, [Event.from_list(item) for item in events]),
            "answer": answer,
            "fallback": act["decision"]["fallback"],
            "tokens": built.tokens,
            "seconds": round(time.perf_counter() - started, 4),
            **{key: act[key] for key in ("model_tokens", "cost", "fallbacks")},
        }
        if turn.expects:
            row["right"] = says(answer, turn.expects)
            readable = (piece.text for piece in built.pieces if piece.kind != "question")
            row["readable"] = says("\n".join(readable), turn.expects)
        if turn.answer:
            row["f1"] = token_f1(answer, turn.answer)
            texts = [answer or "(nothing)", turn.answer]
            a, b = self.graph.agent.resources.embedder.embed(texts)
            row["similarity"] = round(float(a @ b), 6)
        return row

    def _forget(self, user: str) -> None:
        if any(item.kind == "long_term" for item in self.config.memory):
            open_long_term(self._memory).erase(Namespace(user))


def _with_memory_at(config: Config, url: str) -> Config:
    """Return ``config`` with its long-term memory, where it has one, in the database ``url``."""
    values = config.model_dump(mode="json")
    for node in (values["context"].get("memory"), *values["memory"]):
        if node and "place" in node:
            node["place"] = {"url": url}
    return load_config(values)
