"""Documents into a corpus: three versions of a folder, one after another."""

from pathlib import Path

from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Corpus
from stategate.stores.corpus.documents import Document
from stategate.stores.sql import is_database
from tests.faults.scenarios import kept

VERSIONS = [
    {"a": "A snailfish lives deep.", "b": "A geyser is hot."},
    {"a": "A snailfish lives deepest.", "b": "A geyser is hot.", "c": "Ice grows down."},
    {"b": "A geyser is hot.", "c": "Ice grows down.", "d": "A lake is red."},
]


def _corpus(folder):
    place = kept(folder, "notes", "")
    return Corpus(place) if is_database(place) else Corpus("notes", Path(place))


def prepare():
    _passages({"x": "warm the tokenizer"})


def _passages(texts):
    chunking = Chunking.parse("fixed-64-10")
    return {name: chunking.spans(text) for name, text in texts.items()}


def work(folder, acknowledge):
    corpus = _corpus(folder)
    for number, texts in enumerate(VERSIONS):
        if corpus.looked("o") and int(corpus.looked("o")) >= number:
            continue
        corpus.sync("o", [Document(n, n, t) for n, t in texts.items()], str(number))
        acknowledge(number)
    corpus.passages(Chunking.parse("fixed-64-10"))


def check(folder, acknowledged):
    corpus = _corpus(folder)
    texts = {d.id: d.text for d in corpus.documents()}
    look = corpus.looked("o")
    assert texts == (VERSIONS[int(look)] if look else {}), f"half of a version: {texts}"
    assert int(look or -1) >= max(acknowledged, default=-1), "an acknowledged version is lost"
    return [look, sorted(texts.items())]
