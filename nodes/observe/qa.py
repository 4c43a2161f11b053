"""The QA world as an environment kind: questions over a corpus, which context builders search."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from envs.protocols import ANSWER, Observation, View
from nodes.protocols import EnvParams, Source
from stores.corpus.chunking import Chunking
from stores.corpus.corpus import Corpus

if TYPE_CHECKING:
    from envs.qa import QA
    from nodes.resources import Resources
    from nodes.retrieval.corpus import CorpusIndex


class QaEnv(EnvParams):
    """Questions and answers over a corpus; a thread is one conversation of many turns."""

    kind: Literal["qa"] = "qa"
    conversational: ClassVar[bool] = True
    corpus: str = Field(
        default="sample", description="'sample', an ingested name (`stategate ingest`) or a folder"
    )
    questions: str | None = Field(
        default=None, description="'sample' or a YAML/JSON file of {question, answer, evidence}"
    )
    chunking: str = Field(
        default="fixed-256-50", description="kind-size-overlap in tokens, such as recursive-512-50"
    )
    vectors: str | None = Field(
        default=None, description="URL of a Chroma server; by default a folder beside the corpus"
    )

    @field_validator("chunking")
    @classmethod
    def _readable(cls, value: str) -> str:
        return str(Chunking.parse(value))

    def build(self, resources: "Resources") -> "QA":
        """Load the question set. Raises ``UserError`` where it cannot be read."""
        from envs.qa import QA
        from envs.qa.questions import load_questions

        source = self.questions or ("sample" if self.corpus == "sample" else None)
        return QA(load_questions(source) if source else ())

    def view(self) -> View:
        """Return how a question is read."""
        from envs.qa.view import QaView

        return QaView()

    @classmethod
    def samples(cls) -> Sequence[tuple[str, Observation]]:
        """Return an open question and a finished one."""
        asked = "Which lake turned red?"
        return [
            (asked, Observation(asked, (ANSWER,))),
            (asked, Observation("None.", (), 0.0, True)),
        ]

    def source(self, observation: Observation, resources: "Resources") -> Source:
        """Return the corpus as candidates, indexed first where that is not done."""
        from nodes.retrieval.corpus import CorpusSource

        return CorpusSource(self.index(resources), is_open=not observation.done)

    def index(self, resources: "Resources") -> "CorpusIndex":
        """Return the corpus's index under this chunking and the configured embedder, up to date."""
        from nodes.retrieval.corpus import corpus_index

        return corpus_index(self.open(), self.chunking, self.vectors, resources)

    def open(self) -> Corpus:
        """Return the corpus. Raises ``UserError`` if there is none of that name."""
        from nodes.retrieval.corpus import open_source

        return open_source(self.corpus)
