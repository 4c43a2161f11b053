"""``stategate ingest``: files and web pages into a corpus."""

import typer

from stategate.graph.config import load_config
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.resources import Resources
from stategate.stores.corpus.corpus import Changes, Corpus, corpus_names, require_corpus_name
from stategate.stores.corpus.documents import SUFFIXES, Skipped, files_in, read_folder, read_web
from stategate.stores.errors import UserError
from stategate.stores.files import user_path
from stategate.stores.http import is_web
from stategate.stores.progress import Progress
from stategate.stores.settings import JsonFile, Overrides, Settings, argument, option
from stategate.stores.sql import is_database
from stategate.stores.text import plural
from stategate.ui.cli.output import say, working, wrote
from stategate.ui.cli.settings_command import command

_COUNTED = ("added", "updated", "unchanged", "removed")


class IngestSettings(Settings):
    """What is read, into which corpus, and how it is cut and indexed."""

    sources: tuple[str, ...] = argument(..., metavar="FOLDER|FILE|URL…")
    corpus: str = option(..., "The corpus to fill.", metavar="NAME|$STATEGATE_POSTGRES#NAME")
    chunking: str = option("fixed-256-50", "Tokens of a passage, and of an overlap.")
    embedder: str = option("minilm", "Kind of embedder: minilm, openai, hashing.")
    max_mb: float = option(20, "Skip larger files.", ge=0.001)
    vectors: str | None = option(None, "A Chroma server; else a folder.", metavar="URL")
    overrides: Overrides = ()
    json_target: JsonFile = None


@command(
    "stategate ingest https://example.org/page.html --corpus nature",
    "stategate ingest notes/ --corpus big --embedder openai --set embedder.base_url=http://…/v1",
)
def ingest(settings: IngestSettings) -> None:
    """Read documents into a corpus and index them; again: change what changed, drop what is gone."""
    corpus, chunking = settings.corpus, settings.chunking
    chosen = [f"embedder.kind={settings.embedder}", *settings.overrides]
    settled = load_config({"env": {"kind": "qa"}}, chosen)
    env = QaEnv(corpus=corpus, chunking=chunking, vectors=settings.vectors)  # refuses at once
    require_corpus_name(corpus)
    with working("reading the documents"):
        changes = _read(settings)
    title = Corpus(corpus).title
    with working(f"indexing corpus {title}"):
        index = env.index(Resources(None, settled.embedder))
    counts = {name: len(getattr(changes, name)) for name in _COUNTED}
    skipped = [{"id": s.id, "why": s.why} for s in changes.skipped]
    report = {**counts, "skipped": skipped, "passages": len(index.passages)}
    if not wrote(settings.json_target, report):
        for document in changes.skipped:
            say(f"skipped {document.id}: {document.why}", "yellow")
        summary = ", ".join(f"{count} {name}" for name, count in counts.items())
        size = plural(len(index.passages), "passage")
        say(f"corpus {title}: {summary}; {size} ({chunking})")
    # A file of a folder may be skipped; what was asked for by name was to be read.
    if {s.id for s in changes.skipped} & {name for name in settings.sources if is_web(name)}:
        raise typer.Exit(2)


def _read(settings: IngestSettings) -> Changes:
    """Read the sources into the corpus, which is made at the first document that can be read."""
    is_there = is_database(settings.corpus) or settings.corpus in corpus_names()
    sources, max_bytes = settings.sources, int(settings.max_mb * 1e6)
    folders = {name: user_path(name) for name in sources if not is_web(name)}
    listed = {name: files_in(folder) for name, folder in folders.items()}  # refuse before any work
    total = Changes()
    count = sum(map(len, listed.values())) + len(sources) - len(folders)
    with Progress(what="read", total=count, unit="document") as bar:
        for name in sources:
            folder = folders.get(name)
            items = [*read_folder(folder, max_bytes)] if folder else [read_web(name, max_bytes)]
            skipped = [item for item in items if isinstance(item, Skipped)]
            if is_there := is_there or len(skipped) < len(items):
                origin = str(folder.resolve()) if folder else name
                total.extend(Corpus(settings.corpus).sync(origin, items))
            else:
                total.skipped += skipped
            bar.update(len(listed.get(name, items)))
    if total.read or total.removed:
        return total
    for first in total.skipped:
        fix = " (check the name, or the network)" if is_web(first.id) else ""
        raise UserError(f"nothing could be read: {first.id}: {first.why}{fix}")
    kinds = " ".join(SUFFIXES)
    raise UserError(f"nothing to read in {', '.join(sources)}: it takes files of {kinds}")
