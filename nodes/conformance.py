"""A test kit for nodes: what every kind must keep to, whoever wrote it.

In your own tests::

    from nodes.conformance import check_context
    def test_mine() -> None:
        check_context(MyContext(budget=300))

Each check raises ``AssertionError`` with the rule that was broken; ``check(params)`` picks the
checks of the params' slot. The pages are small invented ones in both WebShop modes.
"""

import copy
import json
from collections.abc import Iterator, Sequence

import numpy as np
from langchain_core.messages import BaseMessage

from envs.protocols import ANSWER, FREE, SEARCH, Observation
from nodes.build_context.render import describe
from nodes.observe.webshop import chunk_page
from nodes.protocols import (
    ActorParams,
    BuiltContext,
    ContextParams,
    ContextRequest,
    Decision,
    MemoryParams,
    Params,
    StepRecord,
    UpdaterParams,
)
from nodes.resources import Resources
from nodes.retrieval.page import PageSource
from stores.tokens import count_tokens
from stores.traces import Event

BUDGETS = (1, 12, 40, 90, 200, 600, 4000)
_INSTRUCTION = "Find me a warm wool scarf with color: red, and price lower than 30.00 dollars"
_PRODUCTS = [
    (f"B0TEST{i:04d}", f"Invented wool scarf number {i}, soft", f"${i}.50") for i in range(10)
]
_VALUES = {"color": ["red", "dark blue", "green"], "size": ["one size", 'wide 10"']}


def check(params: Params, resources: Resources | None = None) -> None:
    """Run the checks of ``params``' slot; slots without a kit of their own get the common ones."""
    if isinstance(params, ContextParams):
        check_context(params, resources)
    elif isinstance(params, ActorParams):
        check_actor(params, resources)
    elif isinstance(params, UpdaterParams):
        check_updater(params, resources)
    elif isinstance(params, MemoryParams):
        check_memory(params, resources)
    else:
        check_params(params)


def check_params(params: Params) -> None:
    """Params survive JSON and have a schema."""
    cls = type(params)
    again = cls.model_validate(json.loads(params.model_dump_json()))
    assert again == params, (
        f"{params.kind}: params do not survive JSON: {params!r} became {again!r}"
    )
    assert cls.model_fields["kind"].default == params.kind, (
        f"{params.kind}: kind is not its default"
    )
    json.dumps(cls.model_json_schema())


def check_context(params: ContextParams, resources: Resources | None = None) -> None:
    """Budget kept, pieces add up, tokens and actions honest, deterministic, pure."""
    check_params(params)
    resources = resources or _resources()
    build = params.build(resources)
    for request in requests(resources):
        before = copy.deepcopy(_plain(request))
        context = build(request)
        where = f"{params.kind} at budget {request.budget}"
        check_built(context, request, where)
        assert _plain(request) == before, f"{where}: the request was changed"
        assert _shown(build(request)) == _shown(context), f"{where}: a second call differs"
        again = params.model_copy().build(resources)(request)
        assert _shown(again) == _shown(context), f"{where}: an equal builder differs"


def check_built(context: BuiltContext, request: ContextRequest, where: str = "context") -> None:
    """Check the invariants of one built context (see ``BuiltContext``)."""
    assert all(isinstance(m, BaseMessage) for m in context.messages), f"{where}: not messages"
    joined = "".join(piece.text for piece in context.pieces)
    assert joined == context.text, f"{where}: the pieces do not add up to the prompt"
    size = count_tokens(context.text)
    assert context.tokens == size, f"{where}: says {context.tokens} tokens, has {size}"
    assert size <= request.budget or context.over_budget, f"{where}: has {size} tokens"
    page = set(request.observation.actions)
    for piece in context.pieces:
        assert piece.tokens_after == count_tokens(piece.text), f"{where}: {piece.id} miscounts"
        for action in piece.actions:
            assert action in page, f"{where}: {piece.id} offers {action}, which the page does not"
            label = "answer" if action == ANSWER else action.partition("[")[2].removesuffix("]")
            assert label in piece.text.lower(), f"{where}: {piece.id} does not show {action}"
    accounted = set(context.actions) | set(context.dropped_actions)
    assert accounted == page, f"{where}: {sorted(page - accounted)} neither kept nor dropped"


def check_actor(params: ActorParams, resources: Resources | None = None) -> None:
    """Answers every context, even an empty one, and never outside what the context holds."""
    check_params(params)
    resources = resources or _resources()
    act = params.build(resources)
    from nodes.build_context.full import Full

    build = Full().build(resources)
    for request in requests(resources):
        context = build(request)
        decision = act(context, 0)
        assert isinstance(decision, Decision), f"{params.kind}: {decision!r} is no Decision"
        is_free = any(decision.action.startswith(free.partition("<")[0]) for free in FREE)
        legal = decision.action in context.actions or is_free
        assert legal or decision.fallback, f"{params.kind}: {decision.action} is not in the context"
    nothing = act(BuiltContext((), (), 0), 0)
    assert nothing.fallback, f"{params.kind}: an empty context must yield a recorded fallback"


def check_updater(params: UpdaterParams, resources: Resources | None = None) -> None:
    """Constant size, deterministic, the argument left alone."""
    check_params(params)
    updater = params.build(resources or _resources())
    state = updater.initial()
    for t in range(5):
        events = (Event("OBS", f"page {t}", t), Event("ACT", "click[next >]", t))
        kept = None if state is None else state.copy()
        first, second = updater.update(state, events), updater.update(state, events)
        if first is None or state is None or kept is None:
            assert first is None, f"{params.kind}: a state came out of nothing"
            assert second is None, f"{params.kind}: two calls differ"
            continue
        assert np.array_equal(state, kept), f"{params.kind}: the argument was changed"
        assert first.shape == state.shape, f"{params.kind}: the state changed its shape"
        assert second is not None, f"{params.kind}: two calls differ"
        assert np.array_equal(first, second), f"{params.kind}: two calls differ"
        state = first


def check_memory(params: MemoryParams, resources: Resources | None = None) -> None:
    """Writing a step twice keeps what writing it once kept."""
    check_params(params)
    resources = resources or _resources()
    write = params.build(resources)
    from nodes.build_context.full import Full

    request = next(requests(resources, budgets=(600,)))
    context = Full().build(resources)(request)
    action = request.observation.actions[0].replace(SEARCH, "search[scarf]")
    record = StepRecord(
        "conformance", "conformance", 0, {"env": "test"}, _INSTRUCTION,
        request.observation, context, Decision(action), request.observation, (),
    )  # fmt: skip
    first = write(record)
    again = write(record)
    assert first == again, f"{params.kind}: writing twice differs"
    if first is not None:
        from dataclasses import replace

        third = write(replace(record, events=tuple(first)))
        assert tuple(third or ()) == tuple(first), f"{params.kind}: a repeated step is kept twice"


def requests(resources: Resources, budgets: Sequence[int] = BUDGETS) -> Iterator[ContextRequest]:
    """Yield requests over search, results and item pages, in both modes, at several budgets."""
    events = tuple(
        event
        for t in range(4)
        for event in (Event("OBS", f"an earlier page {t}", t), Event("ACT", f"search[wool {t}]", t))
    )
    state = np.linspace(-1, 1, 384, dtype=np.float32)
    for observation in observations():
        source = PageSource(chunk_page(observation), lambda: resources.embedder, describe)
        for budget in budgets:
            yield ContextRequest(_INSTRUCTION, observation, source, events, budget, state)


def observations() -> Iterator[Observation]:
    """Yield the kit's pages."""
    lead = ["Instruction:", _INSTRUCTION]
    nav = ["Back to Search", "Page 1 (Total results: 50)", "Next >"]
    yield Observation(" [SEP] ".join(["WebShop", *lead, "Search"]), (SEARCH,))
    clicks = ["back to search", "next >", *(asin.lower() for asin, _, _ in _PRODUCTS)]
    facts = [fact for product in _PRODUCTS for fact in product]
    yield Observation(" [SEP] ".join([*lead, *nav, *facts]), _click(clicks))
    rich = "".join(f"\n[button] {a} [button_]\n{t}\n{p}\n" for a, t, p in _PRODUCTS)
    head = f"Instruction:\n{_INSTRUCTION}\n[button] Back to Search [button_]\n"
    page = f"{nav[1]}\n[button] Next > [button_]\n"
    yield Observation(head + page + rich, _click(clicks))
    buttons = ["description", "features", "reviews", "buy now"]
    values = [value for group in _VALUES.values() for value in group]
    clicks = ["back to search", "< prev", *buttons, *values]
    groups = [part for name, group in _VALUES.items() for part in (name, *group)]
    item = ["An invented wool scarf", "Price: $12.00", "Rating: N.A."]
    names = ["Description", "Features", "Reviews", "Buy Now"]
    parts = [*lead, "Back to Search", "< Prev", *groups, *item, *names]
    yield Observation(" [SEP] ".join(parts), _click(clicks))
    drawn = "".join(
        f"{name}\n" + "".join(_option(v, v == "dark blue") for v in group)
        for name, group in _VALUES.items()
    )
    tail = "\n".join([*item, *(f"[button] {name} [button_]" for name in names)]) + "\n"
    notice = "You have clicked dark blue.\n"
    yield Observation(notice + head + "[button] < Prev [button_]\n" + drawn + tail, _click(clicks))


def _option(value: str, is_clicked: bool) -> str:
    word = "clicked button" if is_clicked else "button"
    return f"  [{word}] {value} [{word}_]\n"


def _click(targets: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"click[{target}]" for target in targets)


def _resources() -> Resources:
    from nodes.models.embedders import Hashing

    return Resources(None, Hashing())


def _plain(request: ContextRequest) -> tuple[object, ...]:
    state = None if request.state is None else request.state.tobytes()
    chunks = tuple(request.source.all())
    seen = request.observation
    return (
        request.instruction,
        seen.text,
        seen.actions,
        chunks,
        request.events,
        request.budget,
        state,
    )


def _shown(context: BuiltContext) -> tuple[object, ...]:
    return ([(m.type, m.content) for m in context.messages], context.pieces, context.tokens)
