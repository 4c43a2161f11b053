"""Which extractor of entities a node uses; the strong one asks the configured chat model."""

import json
import logging
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from stategate.nodes.models.asking import ask, asking_problems, json_in, objects_in
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError, describe_error
from stategate.stores.memory.entities import Extractor, distinct, merged
from stategate.stores.memory.names import KINDS, plain
from stategate.stores.memory.records import Entity, Relation

#: ``spacy`` reads a parse, ``rules`` capitals and function words, ``model`` asks the chat model.
ExtractorKind = Literal["spacy", "rules", "model"]

#: What the chat model is told, and the schema of its reply.
_ASK = json.loads(Path(__file__).with_name("entities.json").read_text("utf-8"))
_MAX_TOKENS = 600


def extractor_of(kind: ExtractorKind, resources: Resources | None = None) -> Extractor:
    """Return the extractor ``kind``; ``model`` needs ``resources``.

    Raises ``UserError`` where its package or model is missing.
    """
    if kind == "model":
        if resources is None:
            raise UserError("the extractor 'model' needs a configured language model")
        return ModelExtractor(resources)
    return _local(kind)


@lru_cache(maxsize=2)
def _local(kind: str) -> Extractor:
    if kind == "rules":
        from stategate.stores.memory.entity_rules import Rules

        return Rules()
    from stategate.stores.memory.entity_spacy import SpacyExtractor

    return SpacyExtractor()


class ModelExtractor:
    """Ask the configured chat model; where its reply cannot be read, spaCy reads the text instead.

    ``calls`` and ``fallbacks`` count; each fallback is logged with its reason.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._otherwise = extractor_of("spacy")
        self.calls = self.fallbacks = 0
        resources.llm_params  # noqa: B018 - refuses a config without a model when the agent is built

    def __call__(self, text: str) -> tuple[list[Entity], list[Relation]]:
        """Return what the model lists of ``text``; names that are not in the text are left out."""
        from langchain_core.messages import HumanMessage, SystemMessage

        self.calls += 1
        messages = [SystemMessage(_ASK["system"]), HumanMessage(f"Text:\n{text}")]
        try:
            reply = ask(self._resources.llm, messages, _ASK["schema"], max_tokens=_MAX_TOKENS)
        except asking_problems() as error:
            # What was written up to the limit of tokens, which the client makes an error.
            whole = getattr(error, "completion", None)
            if whole is None or (broken := whole.choices[0].message.content) is None:
                return self._fallback(text, describe_error(error))
            reply = broken
        rows = _rows(reply)
        if not rows:
            return self._fallback(text, "unreadable reply")
        flat = " ".join(text.split()).lower()
        named = [r for r in rows if r.get("kind") in KINDS and isinstance(r.get("name"), str)]
        listed = [Entity(row["kind"], plain(row["name"])) for row in named]
        entities = merged(e for e in listed if e.name and e.name.lower() in flat)
        by_name = {entity.name.lower(): entity for entity in entities}
        relations = []
        for row in rows:
            ends = [
                by_name.get(plain(str(row.get(end, ""))).lower()) for end in ("subject", "object")
            ]
            name = "_".join(str(row.get("relation", "")).lower().split())
            if ends[0] is not None and ends[1] is not None and name:
                relations.append(Relation(ends[0], name, ends[1]))
        return entities, distinct(relations)

    def phrases(self, text: str) -> list[Entity]:
        """Return spaCy's phrases: a follow-up is read before every search, too often for a model."""
        return self._otherwise.phrases(text)

    def _fallback(self, text: str, reason: str) -> tuple[list[Entity], list[Relation]]:
        self.fallbacks += 1
        logging.getLogger(__name__).warning("entities by spaCy instead of the model: %s", reason)
        return self._otherwise(text)


def _rows(reply: str) -> list[dict[str, Any]]:
    """Return the objects of both lists, also of a reply that broke off in the middle."""
    whole = json_in(reply, dict)
    if whole is not None and ("entities" in whole or "relations" in whole):
        lists = [whole.get("entities"), whole.get("relations")]
        rows = [row for part in lists if isinstance(part, list) for row in part]
    else:
        rows = objects_in(reply)
    return [row for row in rows if isinstance(row, dict)]
