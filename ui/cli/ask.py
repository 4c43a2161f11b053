"""``stategate ask`` and ``stategate chat``: questions to the QA agent, its answer as it is written."""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ui.cli.output import check_target, console, examples, show_scores, write_json

if TYPE_CHECKING:
    from graph.build import Graph
    from graph.config import Config

ASK_EXAMPLES = examples(
    'stategate ask "Why does a brinicle grow?"',
    'stategate ask "What did we decide about the boat?" --corpus notes/',
    'stategate ask "Where is that?" --thread monday --set actor.kind=extract',
)
CHAT_EXAMPLES = examples(
    "stategate chat --corpus notes", "stategate chat --thread monday --config qa-stm"
)
_Corpus = Annotated[
    str | None, typer.Option(metavar="FOLDER|NAME", help="A folder, or an ingested corpus.")
]
_Thread = Annotated[str | None, typer.Option(help="A conversation to begin or to go on with.")]
_Config = Annotated[str, typer.Option(help="A preset or a YAML file.")]
_User = Annotated[str | None, typer.Option(help="Whose long-term memory is read and written.")]
_Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="Repeatable.")
]


def ask(
    question: Annotated[str, typer.Argument(show_default=False)],
    corpus: _Corpus = None,
    config: _Config = "qa",
    thread: _Thread = None,
    user: _User = None,
    overrides: _Set = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print what the model read, and scores.")
    ] = False,
    json_target: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write all of it; - is stdout.")
    ] = None,
) -> None:
    """Answer one question from a corpus and from memory."""
    from stores.errors import UserError

    if not question.strip():
        raise UserError("the question is empty: ask something")
    check_target(json_target)
    graph, settled = open_agent(config, corpus, user, overrides, thread is not None)
    name = thread or f"ask-{uuid.uuid4().hex[:10]}"
    out = console(stderr=json_target == "-")
    found = speak(graph, name, question, out)
    if show:
        out.print(found["context"].text, markup=False, style="dim")
    names = _titles(graph, settled) if show or json_target is not None else {}
    if show:
        show_scores(out, found["context"].pieces, names)
    if json_target is not None:
        write_json(json_target, _answer(question, name, found, settled, names))


def chat(
    corpus: _Corpus = None,
    config: _Config = "qa",
    thread: _Thread = None,
    user: _User = None,
    overrides: _Set = None,
) -> None:
    """Talk with the agent; an empty line or /quit ends, and --thread goes on later."""
    graph, _ = open_agent(config, corpus, user, overrides, True)
    name = thread or f"chat-{uuid.uuid4().hex[:10]}"
    out = console()
    out.print(f"thread {name}; an empty line ends", style="dim", markup=False)
    while True:
        try:
            question = input("> ").strip()
        except EOFError:
            question = ""
        if question in ("", "/quit", "/exit"):
            out.print(f"go on with: stategate chat --thread {name}", style="dim", markup=False)
            return
        speak(graph, name, question, out)


def open_agent(
    config: str, corpus: str | None, user: str | None, overrides: "list[str] | None", is_kept: bool
) -> "tuple[Graph, Config]":
    """Return the compiled agent; ``is_kept`` conversations have their checkpoints on disk."""
    from graph.build import build_graph
    from graph.config import load_config
    from stores.errors import UserError
    from ui.cli.run import durable
    from ui.memory import of_user

    extra = [f"env.corpus={corpus}"] if corpus is not None else []
    settled = load_config(config, [*extra, *(overrides or ())])
    if not settled.env.conversational:
        raise UserError(
            f"config '{config}' is no conversation: its env is {settled.env.kind}, use qa"
        )
    settled = of_user(settled, user) if user is not None else settled
    settled = durable(settled) if is_kept else settled
    return build_graph(settled), settled


def speak(graph: "Graph", thread: str, question: str, out: Any) -> dict[str, Any]:
    """Put one question, print the answer while it is written, return what the run made.

    A question that a crash cut short is answered first, if it is the same; its turn is written once.
    """
    settings: Any = {"configurable": {"thread_id": thread}}
    task: dict[str, Any] | None = {"task": {"question": question}}
    snapshot = graph.get_state(settings)
    values = snapshot.values
    if snapshot.next and values.get("session") and _open_question(graph, values) == question:
        task = None
    found: dict[str, Any] = {}
    written = ""
    parts: Any = graph.stream(task, settings, stream_mode=["messages", "updates"])
    for mode, item in parts:
        if mode == "messages":
            piece, about = item
            if about.get("langgraph_node") == "act" and piece.type == "AIMessageChunk":
                text = str(piece.text)
                written += text
                out.print(text, end="", markup=False, highlight=False, soft_wrap=True)
        else:
            for change in item.values():
                found.update(change or {})
    final = _answered(found)
    if written.strip() != final:
        out.print(("\n" if written else "") + final, markup=False, soft_wrap=True)
    else:
        out.print()
    if found.get("decision", {}).get("fallback"):
        out.print(f"({found['decision']['fallback']})", style="yellow", markup=False)
    return found


def _answered(found: Mapping[str, Any]) -> str:
    from envs.protocols import answered

    action = str(found["action"])
    text = answered(action)
    return action if text is None else text


def _open_question(graph: "Graph", values: Any) -> str:
    agent: Any = graph.agent  # type: ignore[attr-defined]
    session = values.get("before") or values["session"]
    return str(agent.bound().world.instruction(session))


def _titles(graph: "Graph", config: "Config") -> dict[str, str]:
    """Return the titles of the corpus's passages by id; of a world without a corpus, none."""
    index = getattr(config.env, "index", None)
    if index is None:
        return {}
    agent: Any = graph.agent  # type: ignore[attr-defined]
    return {p.id: p.title or p.document for p in index(agent.resources).passages}


def _answer(
    question: str, thread: str, found: dict[str, Any], config: "Config", names: dict[str, str]
) -> dict[str, Any]:
    context = found.get("context")
    pieces = context.pieces if context is not None else ()
    return {
        "question": question,
        "answer": _answered(found),
        "thread": thread,
        "pieces": [
            {**vars(piece), **({"title": names[piece.id]} if piece.id in names else {})}
            for piece in pieces
        ],
        "tokens": context.tokens if context is not None else None,
        "decision": found["decision"],
        "config": config.model_dump(mode="json"),
    }
