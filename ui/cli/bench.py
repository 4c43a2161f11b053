"""``stategate eval bench``: how long things take, each measured into a run directory, none asserted."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from stategate.ui.cli.evaluating import WORKERS, Run, evaluation
from stategate.ui.cli.output import opt
from stategate.ui.cli.settings_command import command_group

bench_app = command_group(
    "Measure how long things take; compare figures of one machine and one table only.",
    "stategate eval bench step --data sample --out runs/bench-step",
    "stategate eval bench bank --bank banks/state --sizes 10000,100000 --out runs/bench-bank",
)
_Data = Annotated[str, opt("'sample', or a folder of the world's data.")]
_Db = Annotated[str | None, opt("A PostgreSQL database, or $STATEGATE_POSTGRES.", metavar="URL")]
_bench = partial(evaluation, bench_app, without=("config", "overrides", *WORKERS))
_bench_of_config = partial(evaluation, bench_app, without=("overrides", *WORKERS))


def _measured(
    what: str,
    parts: Any,
    run: Run,
    finish: Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]] = list,
    **settings: Any,
) -> Callable[[], Any]:
    """Return what measures ``parts``; ``finish`` makes the summary's rows of theirs."""
    from stategate.evals.core.task import run_bench
    from stategate.stores.runs import public_path

    shown = {key: public_path(v) if isinstance(v, str) else v for key, v in settings.items()}
    args = {"what": what, "out": public_path(run.out), **shown, "seed": run.seed}
    return partial(run_bench, what, parts, run.out, args, finish)


@_bench("stategate eval bench webshop --out runs/bench-webshop")
def webshop(run: Run, data: _Data = "sample") -> Any:
    """Load WebShop's world, walk it at random, and search."""
    from stategate.evals.bench.worlds import measure_webshop
    from stategate.stores.home import data_folder

    parts = {"world": partial(measure_webshop, data_folder(data, "webshop"), seed=run.seed)}
    return _measured("webshop", parts, run, data=data)


@_bench("stategate eval bench alfworld --out runs/bench-alfworld")
def alfworld(
    run: Run,
    data: _Data = "sample",
    walkthroughs: Annotated[
        bool, opt("Play the games' own walkthroughs.", "--walkthroughs")
    ] = False,
) -> Any:
    """Load ALFWorld's games and walk them at random, or play every walkthrough."""
    from stategate.evals.bench.worlds import measure_alfworld, play_walkthroughs
    from stategate.stores.home import data_folder

    folder = data_folder(data, "alfworld")
    parts: Any = {"speed": partial(measure_alfworld, folder, seed=run.seed)}
    if walkthroughs:
        parts = {"walkthroughs": partial(play_walkthroughs, folder)}
    return _measured("alfworld", parts, run, data=data)


@_bench("stategate eval bench step --out runs/bench-step")
def step(run: Run, data: _Data = "sample") -> Any:
    """Measure a step without the model, part by part, beside a bare LangGraph loop."""
    from stategate.evals.bench.worlds import beside_bare_loop, step_parts

    return _measured("step", step_parts(data, run.seed), run, beside_bare_loop, data=data)


@_bench_of_config(
    "stategate eval bench bank --bank banks/state --sizes 10000,100000 --out runs/bench-bank"
)
def bank(
    run: Run,
    bank: Annotated[str, opt("A state bank to take vectors from.", metavar="FOLDER")],
    sizes: Annotated[str, opt("Numbers of states.")] = "10000,100000",
) -> Any:
    """Search in state banks of growing size, and embed one text."""
    from stategate.evals.bench.stores import bank_parts
    from stategate.graph.config import load_config
    from stategate.nodes.resources import Resources
    from stategate.stores.bank.state_bank import StateBank
    from stategate.stores.runs import parse_numbers

    resources = Resources(None, load_config(run.config).embedder)
    parts = bank_parts(StateBank(bank), parse_numbers(sizes, "sizes"), resources, run.seed)
    return _measured("bank", parts, run, bank=bank, sizes=sizes)


@_bench("stategate eval bench memory --out runs/bench-memory")
def memory(
    run: Run,
    sizes: Annotated[str, opt("Turns written, comma-separated.")] = (
        "500,1000,2000,4000,6000,8000,10000"
    ),
    db: _Db = None,
) -> Any:
    """Write and recall as one user's long-term memory grows; no model is timed."""
    from stategate.evals.bench.stores import memory_parts
    from stategate.stores.runs import parse_numbers

    parts = memory_parts(parse_numbers(sizes), _url(db), run.seed)
    return _measured("memory", parts, run, sizes=sizes, db=_named(db))


@_bench("stategate eval bench middleware --out runs/bench-middleware")
def middleware(
    run: Run,
    messages: Annotated[int, opt("Length of the history.")] = 200,
    budget: Annotated[int, opt("Tokens that force a cut.")] = 16_000,
) -> Any:
    """Decide what one model call of another's agent reads, beside LangChain's own middleware."""
    from stategate.evals.bench.serving import middleware_parts

    parts = middleware_parts(messages, budget)
    return _measured("middleware", parts, run, messages=messages, budget=budget)


@_bench("stategate eval bench sessions --out runs/bench-sessions")
def sessions(
    run: Run,
    count: Annotated[int, opt("Conversations at once.", "--sessions", min=1)] = 64,
    turns: Annotated[int, opt("Questions of each, in a row.", min=1)] = 5,
    seconds: Annotated[float, opt("The stand-in model's time to think.")] = 0.5,
    db: _Db = None,
) -> Any:
    """Serve many conversations in one process, on each saver; the model is a stand-in."""
    from stategate.evals.bench.serving import session_parts

    parts = session_parts(count, turns, seconds, _url(db))
    settings: dict[str, Any] = {
        "sessions": count,
        "turns": turns,
        "seconds": seconds,
        "db": _named(db),
    }
    return _measured("sessions", parts, run, **settings)


def _url(db: str | None) -> str | None:
    from stategate.stores.loopback import from_environment

    return None if db is None else from_environment(db)


def _named(db: str | None) -> str | None:
    return "PostgreSQL" if db else None
