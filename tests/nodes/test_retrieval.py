"""Retrieval over a corpus: fusion, filters, indexes that follow their corpus, the retriever."""

import json

import pytest

from stategate.evals.qa import load_set, relevant
from stategate.nodes.models.embedders import Hashing, HashingEmbedder
from stategate.nodes.observe.qa import CorpusRetriever
from stategate.nodes.retrieval.corpus import CorpusIndex
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Corpus
from stategate.stores.corpus.documents import Document
from tests.kit import DATA

PHENOMENA = DATA / "qa" / "phenomena"


pytestmark = pytest.mark.usefixtures("home")


def sync(corpus, *texts):
    corpus.sync("o", [Document(f"d{i}", f"T{i}", text) for i, text in enumerate(texts)])


def again():
    """Open the same corpus anew, as another process would."""
    corpus = Corpus("c")
    chroma = str(corpus.folder / "chroma")
    return CorpusIndex(corpus, Chunking.parse("fixed-64-10"), HashingEmbedder(), chroma)


def indexed(*texts):
    sync(Corpus("c"), *texts)
    return again()


@pytest.mark.parametrize("how", ["dense", "hybrid"])
def test_every_retrieval_finds_the_passage_with_the_words(how):
    index = indexed("Stones move over thin ice.", "A cloud rolls over a gulf.", "Lakes hold gas.")
    index.sync()
    assert index.find("Which cloud rolls?", 2, how)[0][0] == 1
    assert len(index.find("stones", 2, how)) <= 2
    assert index.find("  ", 2, how) == []


def test_an_unchanged_corpus_is_opened_without_cutting_or_embedding(monkeypatch):
    index = indexed("Stones move over thin ice.", "A cloud rolls over a gulf.", "Lakes hold gas.")
    index.sync()
    found = index.find("Which cloud rolls over the gulf?", 3)

    def never(*_args):
        raise AssertionError("this was done before")

    monkeypatch.setattr(Corpus, "passages", never)
    opened = again()
    monkeypatch.setattr(opened.embedder, "embed", never)
    opened.sync()
    monkeypatch.undo()
    assert opened.passages == index.passages
    assert opened.find("Which cloud rolls over the gulf?", 3) == found


def test_texts_that_come_back_are_found_and_old_files_go():
    index = indexed("Stones move.", "A cloud rolls.")
    index.sync()
    (first,) = (index.corpus.folder / "prepared").iterdir()
    sync(index.corpus, "Stones rest.")
    again().sync()
    (second,) = (index.corpus.folder / "prepared").iterdir()
    assert second != first
    sync(index.corpus, "Stones move.", "A cloud rolls.")
    index.sync()
    assert len(list((index.corpus.folder / "prepared").iterdir())) == 1
    assert index.find("stones move", 1)[0][0] == 0


@pytest.mark.parametrize("damage", ["gone", "cut", "noise", "fewer passages"])
def test_damaged_index_files_are_made_anew(damage):
    index = indexed("Stones move over ice.", "A cloud rolls.")
    index.sync()
    (file,) = (index.corpus.folder / "prepared").iterdir()
    raw = file.read_bytes()
    if damage == "gone":
        file.unlink()
    elif damage == "fewer passages":
        kept = json.loads(raw)
        file.write_bytes(json.dumps({**kept, "passages": kept["passages"][:1]}).encode())
    else:
        file.write_bytes(raw[: len(raw) // 2] if damage == "cut" else bytes(range(256)))
    opened = again()
    opened.sync()
    assert opened.find("cloud", 1)[0][0] == 1
    assert file.read_bytes() == raw


class Dying(HashingEmbedder):
    """Stands for a process that is killed: the third batch of passages is never embedded."""

    calls = 0

    def embed(self, texts):
        self.calls += 1
        if self.calls > 2:
            raise KeyboardInterrupt
        return super().embed(texts)


def test_an_ingest_killed_in_the_middle_goes_on_where_it_stopped():
    texts = [f"Stone number {i} moves." for i in range(600)]
    index = indexed(*texts)
    index.embedder = Dying()
    with pytest.raises(KeyboardInterrupt):
        index.sync()
    opened = again()
    opened.embedder = Dying()  # only the third batch is left
    opened.sync()
    # Killed while it follows a change, which is taken back.
    index.corpus.sync("o", [Document(f"e{i}", "T", f"Cloud {i}.") for i in range(600)])
    index.embedder = Dying()
    with pytest.raises(KeyboardInterrupt):
        index.sync()
    sync(index.corpus, *texts)
    opened = again()
    opened.sync()
    assert opened.find("stone number 17 moves", 1)[0][0] == [p.text for p in opened.passages].index(
        texts[17]
    )


@pytest.mark.skipif(not PHENOMENA.is_dir(), reason="no reference corpus: set STATEGATE_DATA")
def test_the_reference_questions_find_exactly_their_gold_chunks():
    from stategate.nodes.observe.qa import QaEnv
    from stategate.nodes.resources import Resources

    chosen = load_set(str(PHENOMENA))
    rows = json.loads((PHENOMENA / "evaluation_dataset.json").read_text("utf-8"))
    for name in ("fixed-256-50", "fixed-1024-100"):
        index = QaEnv(corpus=chosen.corpus, chunking=name).index(Resources(None, Hashing()))
        key = name.rpartition("-")[0].replace("-", "_")
        for question, row in zip(chosen.questions[key], rows, strict=True):
            gold = {int(i.removeprefix("chunk_")) for i in row["gold_chunk_ids"][key]}
            assert relevant(question, index.passages) == gold


def test_the_retriever_is_a_langchain_retriever():
    retriever = CorpusRetriever(corpus="sample", k=2, embedder=Hashing())
    found = retriever.invoke("Who filmed a brinicle near Razorback Island?")
    assert 1 <= len(found) <= 2
    assert found[0].metadata["title"] == "Brinicle"
    assert found[0].page_content
    assert found[0].metadata["end"] > found[0].metadata["start"]
