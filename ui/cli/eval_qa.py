"""``stategate eval qa`` and ``stategate eval memory``: the QA agent's experiments."""

from typing import Annotated, Any

import typer

from ui.cli.output import check_target, console, examples, write_json

QA_EXAMPLES = examples(
    "stategate eval qa --out runs/qa-sample",
    "stategate eval qa --data FOLDER --experiments A,C --out runs/qa",
    "stategate eval qa --experiments A --only fixed-256 --set actor.kind=answer --out runs/chat",
)
MEMORY_EXAMPLES = examples(
    "stategate eval memory --out runs/memory",
    "stategate eval memory --limit 2 --policies stm,both --set actor.kind=answer --out runs/m",
)
_Out = Annotated[
    str, typer.Option(metavar="DIR", help="Run directory; goes on if it is there already.")
]
_Config = Annotated[str, typer.Option(help="A preset or a YAML file.")]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="For every agent; repeatable."),
]
_Seed = Annotated[int, typer.Option(help="Of the statistics; written to args.json.")]
_Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the summary; - is stdout.")
]


def qa(
    out: _Out,
    data: Annotated[
        str, typer.Option(help="'sample', or a folder with corpus/ and evaluation_dataset.json.")
    ] = "sample",
    experiments: Annotated[
        str,
        typer.Option(
            help="A chunk size, B chunking, C embedding and retrieval, D memory, E reranking."
        ),
    ] = "A,B,C,D",
    only: Annotated[str, typer.Option(help="Just these agents of them, comma-separated.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many questions.")] = None,
    config: _Config = "qa",
    overrides: _Set = None,
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Measure retrieval, answers, latency, tokens and cost; without a model unless actor is set."""
    import sys

    from evals.qa import run_qa
    from evals.qa_report import qa_table

    check_target(json_target)
    summary = run_qa(
        out, data, _names(experiments), config, _extractive(overrides), limit, _names(only),
        seed, sys.argv,
    )  # fmt: skip
    _show(summary, qa_table(summary["rows"]), json_target)


def memory(
    out: _Out,
    dialogues: Annotated[str, typer.Option(help="'sample' or a YAML file.")] = "sample",
    policies: Annotated[
        str, typer.Option(help="Comma-separated: neither, stm, ltm, both.")
    ] = "neither,stm,ltm,both",
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many dialogues.")] = None,
    config: _Config = "qa",
    overrides: _Set = None,
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Measure memory where it matters: follow-ups and questions about earlier sessions."""
    import sys

    from evals.qa_memory import run_memory
    from evals.qa_report import memory_table

    check_target(json_target)
    summary = run_memory(
        out, dialogues, _names(policies), config, _extractive(overrides), limit, seed, sys.argv
    )
    _show(summary, memory_table(summary["rows"]), json_target)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _extractive(overrides: "list[str] | None") -> list[str]:
    """Answer without a language model unless the caller names an actor."""
    return ["actor.kind=extract", *(overrides or ())]


def _show(summary: dict[str, Any], table: str, json_target: str | None) -> None:
    if json_target is not None:
        write_json(json_target, summary)
    if json_target != "-":
        console().print(table, markup=False, soft_wrap=True)
