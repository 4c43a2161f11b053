"""A corpus as a LangChain retriever: use it in any chain, ``retriever.invoke("question")``."""

from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, PrivateAttr

from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.protocols import EmbedderParams
from stategate.nodes.resources import Resources, shared_resources
from stategate.nodes.retrieval.corpus import Retrieval


class CorpusRetriever(BaseRetriever):
    """Passages of a corpus: ``CorpusRetriever(corpus="notes", k=3)``.

    Documents have the metadata ``title``, ``document`` (its id), ``start``, ``end`` (characters) and
    ``score``. The retrievers of a process share models and corpora, unless ``resources`` are given.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    corpus: str | Path = "sample"
    chunking: str = "fixed-256-50"
    k: int = Field(default=4, ge=1)
    retrieval: Retrieval = "hybrid"
    embedder: EmbedderParams = Field(default_factory=MiniLM)
    vectors: str | None = None
    resources: Resources | None = Field(default=None, exclude=True, repr=False)
    _resources: Resources = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Prepare what is shared between calls; the corpus is opened at the first one."""
        super().model_post_init(context)
        shared = shared_resources() if self.resources is None else self.resources
        self._resources = shared.with_models(None, self.embedder)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        env = QaEnv(corpus=str(self.corpus), chunking=self.chunking, vectors=self.vectors)
        index = env.index(self._resources)
        documents = []
        for place, score in index.find(query, self.k, self.retrieval):
            passage = index.passages[place]
            facts = {key: getattr(passage, key) for key in ("title", "document", "start", "end")}
            documents.append(
                Document(passage.text, id=passage.id, metadata={**facts, "score": float(score)})
            )
        return documents
