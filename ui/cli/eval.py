"""``stategate eval``: compare agents on the same tasks."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stategate.ui.cli.bench import bench_app
from stategate.ui.cli.evaluating import WORKERS, Run, evaluation, names
from stategate.ui.cli.output import Limit, command, opt, say
from stategate.ui.cli.settings_command import command_group

eval_app = command_group(
    "Compare agents on the same tasks; each run is a directory that tables are made from.",
    "stategate eval live --agents full,window,query_rag --goals 0-499 --out runs/rule",
    "stategate eval report runs/rule runs/budget --out docs/results/mine.md",
)
eval_app.add_typer(bench_app, name="bench")

_Agent = Annotated[
    list[str] | None, opt("An agent of your own; repeatable.", metavar="NAME=SLOT.FIELD=VALUE,…")
]
_Goals = Annotated[str, opt("Of the world's tasks: 0-499, 3,5,8, all.", "--goals", "--tasks")]
_Only = Annotated[str, opt("Just these agents, comma-separated; all if empty.")]
_Answer = Annotated[bool, opt("Also ask the chat model: token F1 and abstention.", "--answer")]
_Conversations = Annotated[
    str, typer.Argument(metavar="FILE", help="The published JSON; or home, work: made by rule.")
]
_Rankers = Annotated[str, opt("Comma-separated; see `evals/memory/rankers.py`.")]
_Ranker = Annotated[
    list[str] | None, opt("One of your own; repeatable.", metavar="NAME=kind=bm25,stem=false")
]
_Pool = Literal["given", "bm25"]
_Loss = Literal["content", "mean"]
_States = Literal["fp32", "fp16", "int8"]
_First = Annotated[int | None, opt("The first so many conversations.", min=1)]
_Split = Annotated[Literal["dev", "test"], opt("dev to tune on, test to report.")]


@evaluation(eval_app, "stategate eval live --agents full,window --goals 0-499 --out runs/rule")
def live(
    run: Run,
    agents: Annotated[str, opt("Context kinds, comma-separated.")] = "",
    agent: _Agent = None,
    goals: _Goals = "0-9",
) -> Any:
    """Play the same tasks with several agents: success, score, steps, tokens, paired tests."""
    from stategate.evals.worlds.live import parse_agents, run_live

    chosen = parse_agents(agents, agent or ())
    return partial(run_live, run.config, chosen, goals, run.out, run.overrides, run.seed)


@evaluation(
    eval_app,
    "stategate eval wordings --split negation,typos --goals clean --actors rule --out runs/w",
)
def wordings(
    run: Run,
    split: Annotated[
        str, opt("train, develop, held-out, or families, comma-separated.")
    ] = "develop",
    actors: Annotated[str, opt("Kinds of actors.")] = "rule,policy",
    contexts: Annotated[str, opt("Of full, window, compress.")] = "full,compress",
    goals: _Goals = "developing:40",
    mixed: Annotated[bool, opt("A split's families in turn, as one wording.")] = False,
) -> Any:
    """Play WebShop's goals in many wordings: success by family, with full and with compress."""
    from stategate.evals.webshop.wordings import run_wordings

    how = (names(contexts), run.overrides, run.seed, mixed)
    return partial(run_wordings, run.config, split, names(actors), goals, run.out, *how)


@evaluation(
    eval_app,
    "stategate eval experience --state-bank banks/s --only state,gated --out runs/e",
    config="webshop-experience",
)
def experience(
    run: Run,
    state_bank: Annotated[str | None, opt("Made of other tasks.", metavar="FOLDER")] = None,
    trace_bank: Annotated[str | None, opt("Likewise.", metavar="FOLDER")] = None,
    goals: _Goals = "0-299",
    inner: Annotated[str, opt("The context that is wrapped.")] = "full",
    only: _Only = "",
) -> Any:
    """Compare no advice, state, gated, trace, random and shuffled-worth advice on the same goals."""
    from stategate.evals.worlds.experience import run_experience

    how = (state_bank, trace_bank, inner, run.overrides, names(only), run.seed)
    return partial(run_experience, run.config, goals, run.out, *how)


@evaluation(
    eval_app,
    "stategate eval qa --data FOLDER --experiments A,C --limit 20 --out runs/qa",
    config="qa",
)
def qa(
    run: Run,
    data: Annotated[str, opt("'sample', or a folder with corpus/ and questions.")] = "sample",
    experiments: Annotated[str, opt("A size, B kind, C retrieval, D memory.")] = "A,B,C,D",
    only: _Only = "",
    limit: Limit = None,
) -> Any:
    """Measure retrieval, answers, latency, tokens and cost; without a model unless actor is set."""
    from stategate.evals.qa.experiments import run_qa

    what = (data, names(experiments), run.config, _extractive(run), limit, names(only))
    return partial(run_qa, run.out, *what, run.seed)


@evaluation(
    eval_app,
    "stategate eval memory --policies stm,both --set actor.kind=answer --out runs/m",
    config="qa",
)
def memory(
    run: Run,
    dialogues: Annotated[str, opt("'sample' or a YAML file.")] = "sample",
    policies: Annotated[str, opt("Of neither, stm, ltm, both.")] = "neither,stm,ltm,both",
    limit: Limit = None,
) -> Any:
    """Measure memory where it matters: follow-ups and questions about earlier sessions."""
    from stategate.evals.memory.dialogues import run_memory

    what = (dialogues, names(policies), run.config, _extractive(run), limit)
    return partial(run_memory, run.out, *what, run.seed)


@evaluation(
    eval_app,
    "stategate eval replay --data threads.jsonl --out runs/replay",
    without=("config", "overrides"),
)
def replay(
    run: Run,
    data: Annotated[str, opt("JSON lines of {id, task, messages}.", metavar="FILE")],
    arms: Annotated[str, opt("nothing, last, clear, or context kinds.")] = "",
    budget: Annotated[int, opt("Tokens of a prompt, the same for every arm.", min=500)] = 8000,
    limit: Limit = None,
) -> Any:
    """Read recorded threads again under each arm: tokens, billed cost, what calls needed."""
    from stategate.evals.replay.run import DEFAULT_ARMS, run_replay

    what = (data, names(arms) or DEFAULT_ARMS, budget, run.out, limit, run.seed)
    return partial(run_replay, *what)


@evaluation(
    eval_app,
    "stategate eval rerank --split dev --limit 20 --rankers bm25 --out runs/dev",
    without=("config", "overrides"),
)
def rerank(
    run: Run,
    split: _Split = "dev",
    datasets: Annotated[str, opt("Comma-separated.")] = "hotpotqa,2wikimultihopqa,musique",
    limit: Annotated[int | None, opt("The first so many of each dataset.", min=1)] = None,
    rankers: Annotated[str, opt("a+b adds z-scores. Default: BM25, MiniLM, RICO.")] = "",
    pool: Annotated[_Pool, opt("given, or bm25: the best of all documents.")] = "given",
    depth: Annotated[int, opt("Documents in a bm25 pool.", min=1)] = 20,
    model: Annotated[str, opt("Asset, folder, .gguf file or hub name.")] = "smollm2-135m",
    loss: Annotated[_Loss, opt("content words only, or mean over all.")] = "content",
    steps: Annotated[int, opt("AdamW steps (multistep, warm_*).", min=1)] = 5,
    learning_rate: Annotated[float, opt("AdamW's learning rate.")] = 0.1,
    states: Annotated[_States, opt("How states are kept.")] = "fp16",
    data: Annotated[str | None, opt("The questions; or $STATEGATE_DATA.", metavar="FOLDER")] = None,
    states_folder: Annotated[str | None, opt("Of the documents' states.", metavar="DIR")] = None,
    threads: Annotated[int | None, opt("Cores for the model.", min=1)] = None,
) -> Any:
    """Rank the documents of multi-hop questions: nDCG@10, MAP, precision, recall, paired tests."""
    from stategate.evals.rerank.rankers import DEFAULT_RANKERS, Settings, run_rerank

    chosen: dict[str, Any] = {
        "split": split,
        "datasets": tuple(names(datasets)),
        "limit": limit,
        "pool": pool,
        "rankers": tuple(names(rankers)) or DEFAULT_RANKERS,
        "depth": depth,
        "model": model,
        "loss": loss,
        "steps": steps,
        "learning_rate": learning_rate,
        "states": states,
        "seed": run.seed,
    }
    if threads:
        import torch

        torch.set_num_threads(threads)
    return partial(run_rerank, Settings(**chosen), run.out, data, states_folder)


def _show_evidence(summary: Mapping[str, Any]) -> None:
    from stategate.evals.memory.evidence import compact

    typer.echo(compact(summary))


@evaluation(
    eval_app,
    "stategate eval locomo locomo10.json --out runs/locomo",
    "stategate eval locomo home --agents bm25,hybrid,memory --out runs/home",
    "stategate eval locomo locomo10.json --agents bm25"
    " --agent raw=kind=bm25,stem=false,speaker=false --out runs/bm25",
    config="qa",
    show=_show_evidence,
    without=WORKERS,
)
def locomo(
    run: Run,
    file: _Conversations,
    agents: _Rankers = "bm25,bm25_sessions,minilm,minilm_sessions,hybrid,parent,memory",
    agent: _Ranker = None,
    limit: _First = None,
    answer: _Answer = False,
) -> Any:
    """Evidence recall on LoCoMo's file: turns, turns ± 1 and sessions, any and all, by category."""
    return _evidence(run, file, "locomo", agents, agent or (), limit, answer)


@evaluation(
    eval_app,
    "stategate eval longmemeval longmemeval_oracle.json --agents bm25,memory --out runs/oracle",
    "stategate eval longmemeval longmemeval_s.json --limit 50 --out runs/lme",
    config="qa",
    show=_show_evidence,
    without=WORKERS,
)
def longmemeval(
    run: Run,
    file: _Conversations,
    agents: _Rankers = "bm25,bm25_sessions,memory",
    agent: _Ranker = None,
    limit: _First = None,
    answer: _Answer = False,
) -> Any:
    """Evidence recall on a file of LongMemEval; a question whose id ends in _abs asks to abstain."""
    return _evidence(run, file, "longmemeval", agents, agent or (), limit, answer)


def _evidence(
    run: Run,
    file: str,
    form: str,
    agents: str,
    own: Sequence[str],
    limit: int | None,
    answers: bool,
) -> Any:
    from stategate.evals.memory.answering import answerer
    from stategate.evals.memory.evidence import run_evidence, settings_of

    settings = settings_of(file, form, names(agents), own, limit, run.seed)
    answer = answerer(run.config, run.overrides) if answers else None
    return partial(run_evidence, settings, run.out, answer)


@command(eval_app, "stategate eval dialogues home --conversations 12 --out home.json")
def dialogues(
    family: Annotated[str, typer.Argument(help="home (to tune on) or work (held out).")],
    out: Annotated[Path, opt("The JSON to write.", metavar="FILE")],
    conversations: Annotated[int, typer.Option(min=1)] = 12,
    seed: Annotated[int, opt("Of what is drawn at random.")] = 0,
) -> None:
    """Write made-up conversations in LoCoMo's format; the same words make the same file."""
    from stategate.evals.memory.generated import generated_text
    from stategate.stores.files import write_text

    write_text(out, generated_text(family, conversations, seed))
    say(f"wrote {conversations} conversations to {out}")


@evaluation(
    eval_app,
    "stategate eval statements --out runs/statements",
    "stategate eval statements --agents rules,model --set llm.kind=embedded --out runs/s2",
    config="qa",
    without=(*WORKERS, "seed"),
)
def statements(
    run: Run,
    agents: Annotated[str, opt("Readers: rules, model (needs llm), times, dateparser.")] = "rules",
    split: Annotated[
        str, opt("dev to develop on, test to report, fresh: its newest part, all.")
    ] = "test",
) -> Any:
    """Compare what memory reads, merges and refuses with marks made by hand."""
    from stategate.evals.memory.marking import run_statements
    from stategate.graph.config import load_config
    from stategate.nodes.resources import Resources

    loaded = load_config(run.config, run.overrides)
    resources = partial(Resources, loaded.llm, loaded.embedder)
    how = (split, resources().embedder, resources)
    return partial(run_statements, run.out, names(agents), *how)


@evaluation(
    eval_app,
    "stategate eval remembered --set env.data=official --goals 0-49 --out runs/remembered",
    without=WORKERS,
)
def remembered(
    run: Run,
    goals: Annotated[str, opt("Numbers of the world's tasks, five a user.")] = "0-49",
) -> Any:
    """Ask again for what a user settled on in a world, without saying it, and see if memory knows."""
    from stategate.evals.memory.worlds import run_remembered

    return partial(run_remembered, run.out, goals, run.config, run.overrides, run.seed)


@evaluation(eval_app, "stategate eval served --out runs/served", config="alfworld", without=WORKERS)
def served(
    run: Run,
    users: Annotated[int, opt("Users, each in a scene of their own.", min=2)] = 20,
    tasks: Annotated[int, opt("Tasks of each, one after another.", min=2)] = 6,
) -> Any:
    """Play one task after another in one place, with and without what was seen there before."""
    from stategate.evals.memory.worlds import run_served

    return partial(run_served, run.out, run.config, run.overrides, users, tasks, run.seed)


@command(eval_app, "stategate eval report runs/rule runs/budget --out docs/results/mine.md")
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished run directories.")],
    out: Annotated[Path, opt("The page to write.", metavar="FILE.md")],
) -> None:
    """Write a page of tables and plots from run directories, and copies of what they came from."""
    from stategate.evals.core.report import report as write_report

    write_report(runs, out)
    typer.echo(f"page: {out}")


def _extractive(run: Run) -> list[str]:
    """Answer without a language model unless the caller names an actor."""
    return ["actor.kind=extract", *run.overrides]
