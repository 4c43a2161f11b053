"""Embedders: ``minilm`` (default), ``sentence_transformers``, ``openai``, ``hashing`` (no model)."""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import numpy as np
from pydantic import Field, SecretStr

from stategate.language.sentence_model import sentence_model
from stategate.nodes.models.calls import RETRIES, guarded, http_client, run
from stategate.nodes.models.llms import OPENAI, KeyVariable, key_from
from stategate.nodes.protocols import Embedder, EmbedderParams, Vector
from stategate.nodes.resources import Resources
from stategate.stores.embeddings import embedding_cache
from stategate.stores.errors import ModelUnavailable, UserError, user_error_context
from stategate.stores.text import storable

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class _CachedEmbedder:
    """An embedder behind the cache: ``compute`` gets each text once, ever."""

    def __init__(
        self, name: str, dimension: int, compute: Callable[[Sequence[str]], Vector]
    ) -> None:
        self.name, self.dimension, self._compute = name, dimension, compute

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return float32 unit rows (len(texts), dimension). Raises ``UserError`` without a model."""
        return embedding_cache().through(self.name, texts, self.dimension, self._compute)


class MiniLM(EmbedderParams):
    """Turns text into numbers on this machine (92 MB).

    all-MiniLM-L6-v2 on the CPU: 384 dimensions, the first 256 word pieces of a text. The model is
    loaded when the first text comes that the cache does not know.
    """

    kind: Literal["minilm"] = "minilm"

    def build(self, resources: Resources) -> Embedder:
        """Return the embedder; nothing is loaded yet."""
        return _CachedEmbedder(
            "all-MiniLM-L6-v2", 384, lambda texts: sentence_model().encode(texts)
        )


class SentenceTransformers(EmbedderParams):
    """Any sentence-transformers model: a folder, or a name on the hub.

    ``dimension`` must be what the model returns. The model is loaded when the first new text comes.
    """

    kind: Literal["sentence_transformers"] = "sentence_transformers"
    model: str
    dimension: int = Field(default=384, ge=1)

    def build(self, resources: Resources) -> Embedder:
        """Return the embedder; nothing is loaded yet."""
        model = cache(lambda: _load_transformer(self.model))

        def compute(texts: Sequence[str]) -> Vector:
            rows = model().encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
            if rows.shape[1] != self.dimension:
                raise _other_dimension(f"'{self.model}'", rows.shape[1])
            return np.asarray(rows, dtype=np.float32)

        return _CachedEmbedder(f"{self.model}/{self.dimension}", self.dimension, compute)


def _load_transformer(folder_or_name: str) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # it takes a tenth of a second and shows no progress of ours
    with user_error_context(f"cannot load the model '{folder_or_name}'"):
        return SentenceTransformer(folder_or_name, device="cpu")


def _other_dimension(who: str, size: int) -> UserError:
    return UserError(f"{who} returned {size} dimensions: set embedder.dimension={size}")


class OpenAIEmbedder(EmbedderParams):
    """Embeddings from OpenAI, or any server that speaks its protocol.

    ``dimension`` must be what the model returns. The key is read from the environment only.
    """

    kind: Literal["openai"] = "openai"
    model: str = "text-embedding-3-small"
    dimension: int = Field(default=1536, ge=1)
    base_url: str = OPENAI
    api_key_env: KeyVariable = Field(
        default="OPENAI_API_KEY", description="variable that holds the key"
    )
    timeout: float = Field(default=60.0, gt=0, description="seconds for one request")

    def build(self, resources: Resources) -> Embedder:
        """Return the embedder. Raises ``UserError`` without a key; sends nothing."""
        from langchain_openai import OpenAIEmbeddings

        client = OpenAIEmbeddings(
            model=self.model,
            base_url=self.base_url,
            api_key=SecretStr(key_from(self.api_key_env, self.base_url)),
            timeout=self.timeout,
            max_retries=RETRIES,
            # Texts, not token ids: other servers than OpenAI's do not know its tokens.
            check_embedding_ctx_length=False,
            http_async_client=http_client(self.base_url, self.timeout),
        )
        server = f"the embedding server {self.base_url}"

        def compute(texts: Sequence[str]) -> Vector:
            non_empty = [
                storable(text) or " " for text in texts
            ]  # the protocol refuses an empty text
            answer = run(guarded(client, lambda client: client.aembed_documents(non_empty)))
            try:
                rows = np.asarray(answer, dtype=np.float32)
            except (TypeError, ValueError):
                rows = np.zeros((0, 0), dtype=np.float32)
            if rows.ndim != 2 or not np.isfinite(rows).all() or not rows.size:
                raise ModelUnavailable(f"{server} returned no vectors: is it an embedding server?")
            if rows.shape != (len(texts), self.dimension):
                raise _other_dimension(server, rows.shape[-1])
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)

        where = urlsplit(self.base_url).netloc.rpartition("@")[2]  # it names stores: no password
        name = f"{self.model}@{where}/{self.dimension}"
        return _CachedEmbedder(name, self.dimension, compute)


class Hashing(EmbedderParams):
    """Turns words into numbers without a model; knows no meaning.

    Signed counts of hashed words in ``dimension`` buckets: texts are near where they share words, and
    only there. For tests and tiny machines.
    """

    kind: Literal["hashing"] = "hashing"
    dimension: int = Field(default=256, ge=8)

    def build(self, resources: Resources) -> Embedder:
        """Return the embedder."""
        return HashingEmbedder(self.dimension)


class HashingEmbedder:
    """Signed word counts, hashed into ``dimension`` buckets and scaled to length one."""

    def __init__(self, dimension: int = 256) -> None:
        self.name = f"hashing/{dimension}"
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return float32 unit rows (len(texts), dimension)."""
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
                number = int.from_bytes(digest, "little")
                row[(number >> 1) % self.dimension] += 1 if number & 1 else -1
            length = np.linalg.norm(row)
            if length:
                row /= length
            else:
                row[0] = 1  # no words, or words that cancel out
        return rows
