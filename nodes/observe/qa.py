"""The QA world as an environment kind: questions over a corpus, which context builders search."""

import hashlib
import os
from pathlib import Path
from typing import ClassVar, Literal

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, field_validator

from stategate.envs.protocols import Observation, View
from stategate.envs.qa import QA
from stategate.envs.qa.questions import load_questions, sample_folder
from stategate.envs.qa.world import QaView
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.protocols import EmbedderParams, EnvParams, Source
from stategate.nodes.resources import Resources, shared_resources
from stategate.nodes.retrieval.corpus import LAZY_FROM, CorpusIndex, CorpusSource
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Corpus, corpora, corpus_names, open_corpus
from stategate.stores.corpus.documents import files_in, read_folder
from stategate.stores.errors import UserError, warn_once
from stategate.stores.files import user_path
from stategate.stores.http import from_environment
from stategate.stores.sql import is_database

_NAMED = 3  # skipped files that a warning names


class QaEnv(EnvParams):
    """Questions about documents, one conversation a thread."""

    kind: Literal["qa"] = "qa"
    conversational: ClassVar[bool] = True
    corpus: str = Field(
        default="sample",
        description="'sample', an ingested name (`stategate ingest`), a folder, or "
        "$STATEGATE_POSTGRES#NAME",
    )
    questions: str | None = Field(
        default=None, description="'sample' or a YAML/JSON file of {question, answer, evidence}"
    )
    chunking: str = Field(
        default="fixed-256-50", description="tokens of a passage, and of an overlap"
    )
    vectors: str | None = Field(
        default=None, description="URL of a Chroma server; by default a folder beside the corpus"
    )

    @field_validator("chunking")
    @classmethod
    def _readable(cls, value: str) -> str:
        return str(Chunking.parse(value))

    def build(self, resources: Resources) -> QA:
        """Load the question set. Raises ``UserError`` where it cannot be read."""
        source = self.questions or ("sample" if self.corpus == "sample" else None)
        return QA(load_questions(source) if source else ())

    def view(self) -> View:
        """Return the reader of a question's page."""
        return QaView()

    def source(self, observation: Observation, resources: Resources) -> Source:
        """Return the corpus as candidates, indexed first where that is not done."""
        return CorpusSource(self.index(resources), is_open=not observation.done)

    def index(self, resources: Resources) -> CorpusIndex:
        """Return the corpus's index under this chunking and the configured embedder, up to date."""
        corpus, embedder = self.open(), resources.embedder
        key = ("index", corpus.name, str(corpus.folder), self.chunking, str(self.vectors))
        index: CorpusIndex = resources.once(
            (*key, embedder.name),
            lambda: CorpusIndex(
                corpus,
                Chunking.parse(self.chunking),
                embedder,
                None if self.vectors is None else from_environment(self.vectors),
                lazy_from=LAZY_FROM if corpus.name.startswith("folder-") else None,
            ),
        )
        index.sync()
        return index

    def open(self) -> Corpus:
        """Return the corpus. Raises ``UserError`` if there is none of that name."""
        if self.corpus == "sample":
            return opened_folder(sample_folder(), "sample")
        if is_database(self.corpus):
            return open_corpus(self.corpus)
        path = user_path(os.path.expandvars(self.corpus))
        if self.corpus not in corpus_names() and path.exists():
            return opened_folder(path)
        return open_corpus(self.corpus)


def opened_folder(folder: Path, name: str | None = None) -> Corpus:
    """Return ``folder``'s corpus, after ingesting what changed in it.

    Raises ``UserError`` if it has files and none gives text.
    """
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12]
    # Outside the folder of named corpora, so that it never takes a name that a person chose.
    corpus = Corpus(name or f"folder-{digest}", corpora().parent / "folders" / digest)
    # If names, sizes and times are those of the last call, no file is read.
    stamps = [(str(path), (s := path.stat()).st_size, s.st_mtime_ns) for path in files_in(folder)]
    fingerprint = hashlib.sha256(repr(stamps).encode("utf-8", "replace")).hexdigest()
    origin = str(folder.resolve())
    if corpus.looked(origin) == fingerprint and not corpus.is_new():
        return corpus
    changes = corpus.sync(origin, read_folder(folder), fingerprint)
    if corpus.is_new() and changes.skipped:
        first = changes.skipped[0]
        raise UserError(f"nothing in '{folder}' could be read: {first.id}: {first.why}")
    if changes.skipped:
        reasons = [f"{skipped.id}: {skipped.why}" for skipped in changes.skipped[:_NAMED]]
        more = f"; and {len(changes.skipped) - _NAMED} more" * (len(changes.skipped) > _NAMED)
        warn_once(f"skipped in '{folder}': {'; '.join(reasons)}{more}")
    return corpus


class CorpusRetriever(BaseRetriever):
    """Passages of a corpus: ``CorpusRetriever(corpus="notes", k=3)``.

    Documents have the metadata ``title``, ``document`` (its id), ``start``, ``end`` (characters) and
    ``score``. The retrievers of a process share models and corpora.
    """

    corpus: str | Path = "sample"
    chunking: str = "fixed-256-50"
    k: int = Field(default=4, ge=1)
    embedder: EmbedderParams = Field(default_factory=MiniLM)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        resources = shared_resources().with_models(None, self.embedder)
        index = QaEnv(corpus=str(self.corpus), chunking=self.chunking).index(resources)
        documents = []
        for number, score in index.find(query, self.k):
            passage = index.passages[number]
            metadata = {key: getattr(passage, key) for key in ("title", "document", "start", "end")}
            metadata["score"] = float(score)
            documents.append(Document(passage.text, id=passage.id, metadata=metadata))
        return documents
