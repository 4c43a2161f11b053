"""A test kit for nodes: what every kind must keep to, whoever wrote it.

In your own tests::

    from stategate.nodes.conformance import check_context
    def test_mine() -> None:
        check_context(MyContext(budget=300))

Each check raises ``AssertionError`` with the rule that was broken, or ``UserError`` where the graph
would; ``check(params)`` picks the checks of the params' slot. The pages are the first ones of every
world that is installed, played with the defaults of its params, and small invented ones.
"""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import cast

import numpy as np
from langchain_core.messages import BaseMessage

from stategate.envs.protocols import (
    INPUT_KINDS,
    Observation,
    View,
    complete,
    fill,
    fragments_of,
    is_legal,
    takes_text,
    target_of,
    verb_of,
)
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.protocols import (
    ActorParams,
    BuiltContext,
    ContextParams,
    ContextRequest,
    Decision,
    EnvParams,
    MemoryParams,
    Params,
    StepRecord,
    UpdaterParams,
    WorldProfile,
    require,
    require_events,
    require_page,
)
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource, text_of
from stategate.nodes.update_state import packed, unpacked
from stategate.stores.tokens import count_tokens
from stategate.stores.traces import Event

BUDGETS = (1, 12, 40, 90, 200, 600, 4000)
_GARDEN = "Bring the red lantern to the garden, and close the gate."
_GARDEN_PAGES = (
    Observation(
        "You are in the hall. A red lantern stands on a table.\nThe door to the garden is open.\n",
        ("take red lantern", "go garden", "look"),
    ),
    Observation(
        "Garden. Old trees.\n\nThe gate is open.", ("close gate", "go hall", "say[<words>]")
    ),
    Observation("The gate closes. Well done.", (), 1.0, True),
)
_STEPS = 12  # steps that ``check_world`` takes
_PAGES = 8  # pages of a world on which nodes of the other slots are checked
_INPUTS = 16  # most inputs of a state model for one event


def check(params: Params, resources: Resources | None = None) -> None:
    """Run the checks of ``params``' slot; a slot without its own gets :func:`check_params`."""
    checks: dict[str, Callable[..., None]] = {
        "context": check_context,
        "actor": check_actor,
        "updater": check_updater,
        "memory": check_memory,
        "env": check_world,
    }
    try:
        checks.get(params.slot, check_params)(params, resources)
    except Exception as error:
        error.add_note(f"while checking {params.slot} {params.kind}")
        raise


def check_params(params: Params, resources: Resources | None = None) -> None:
    """Params survive JSON and have a schema."""
    cls = type(params)
    again = cls.model_validate(json.loads(params.model_dump_json()))
    kind = params.kind
    assert again == params, f"{kind}: params do not survive JSON: {params!r} became {again!r}"
    assert cls.model_fields["kind"].default == kind, f"{kind}: kind is not its default"
    json.dumps(cls.model_json_schema())


def check_context(params: ContextParams, resources: Resources | None = None) -> None:
    """Budget kept, pieces add up, tokens and actions honest, deterministic, pure."""
    check_params(params)
    resources = resources or _resources()
    build = params.build(resources)
    for request in requests(resources):
        before = copy.deepcopy(_plain(request))
        context = require(build(request), BuiltContext, params)
        where = f"{params.kind} at budget {request.budget}"
        check_built(context, request, where)
        assert _plain(request) == before, f"{where}: the request was changed"
        assert build(request) == context, f"{where}: a second call differs"
        again = params.model_copy().build(resources)(request)
        assert again == context, f"{where}: an equal builder differs"


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
        parts = text_of(piece.fragments)
        assert parts in ("", piece.text), f"{where}: {piece.id}'s fragments are not its text"
        for action in piece.actions:
            assert action in page, f"{where}: {piece.id} offers {action}, which the page does not"
            spelled = any(f.action == action and f.text.strip() for f in piece.fragments)
            label = verb_of(action) if takes_text(action) else target_of(action)
            is_shown = spelled or label.lower() in piece.text.lower()
            assert is_shown, f"{where}: {piece.id} hides {action}"
    accounted = set(context.actions) | set(context.dropped_actions)
    assert accounted == page, f"{where}: {sorted(page - accounted)} neither kept nor dropped"


def check_actor(params: ActorParams, resources: Resources | None = None) -> None:
    """Answers every context, even an empty one, and never outside what the context holds."""
    check_params(params)
    resources = resources or _resources()
    act = params.build(resources)
    build = Full().build(resources)
    for request in requests(resources, worlds=params.worlds):
        context = build(request)
        decision = act(context, 0)
        require(decision, Decision, params)
        require(decision.action, str, params, "its action is")
        legal = is_legal(decision.action, context.actions)
        legal = legal or request.view.actions.accepts(decision.action, request.observation)
        assert legal or decision.fallback, f"{params.kind}: {decision.action} is not in the context"
    nothing = act(BuiltContext((), (), 0), 0)
    assert nothing.fallback, f"{params.kind}: an empty context must yield a recorded fallback"


def check_updater(params: UpdaterParams, resources: Resources | None = None) -> None:
    """Constant size, deterministic, the argument left alone, and nothing that a checkpoint loses."""
    check_params(params)
    updater = params.build(resources or _resources())
    state = updater.initial()
    for t in range(5):
        events = (Event("OBS", f"page {t}", t), Event("ACT", "go on", t))
        before = copy.deepcopy(state)
        first, second = updater.update(state, events), updater.update(state, events)
        restored = unpacked(packed(first))
        if restored is None or second is None or state is None:
            assert first is second is state is None, f"{params.kind}: a state came out of nothing"
            continue
        require(first, np.ndarray, params)
        assert np.array_equal(state, before), f"{params.kind}: the argument was changed"
        assert restored.shape == np.shape(state), f"{params.kind}: the state changed its shape"
        assert np.array_equal(first, second), f"{params.kind}: two calls differ"
        state = restored


def check_memory(params: MemoryParams, resources: Resources | None = None) -> None:
    """Writing a step twice keeps what writing it once kept."""
    check_params(params)
    resources = resources or _resources()
    write = params.build(resources)
    request = next(requests(resources, budgets=(600,)))
    context = Full().build(resources)(request)
    action = _action(request.observation, 0, request.instruction)
    record = StepRecord(
        "conformance",
        "conformance",
        0,
        {"env": "test"},
        request.instruction,
        request.observation,
        context,
        Decision(action),
        request.observation,
        (),
    )
    first, again = (require_events(write(record), params) for _ in range(2))
    assert first == again, f"{params.kind}: writing twice differs"
    if first is not None:
        third = require_events(write(replace(record, events=first)), params)
        assert third == first, f"{params.kind}: a repeated step is kept twice"


def check_world(params: EnvParams, resources: Resources | None = None) -> None:
    """Pure, JSON sessions, chunks that make the page again, every command readable, inputs bounded."""
    check_params(params)
    world = complete(params.build(resources or _resources()))
    view = params.view()
    session, page = require_page(world.reset(world.tasks()[0]), params)
    for t in range(_STEPS):
        where = f"{params.kind}, step {t}"
        before = json.dumps(session, default=repr)
        restored = json.loads(before)
        advice = "texts as keys, lists instead of tuples, no objects"
        assert restored == session, f"{where}: the session does not survive JSON: {advice}"
        assert world.observe(restored) == page, f"{where}: drawn again, it differs"
        instruction = require(world.instruction(session), str, params, "its instruction is")
        check_view(view, page, instruction)
        if page.done or not page.actions:
            break
        action = view.actions.safe(page.actions, instruction)
        assert view.actions.accepts(action, page), f"{where}: the safe action {action} is refused"
        action = _action(page, t, instruction)
        first, second = (require_page(world.step(session, action), params) for _ in range(2))
        assert json.dumps(session) == before, f"{where}: step changed the session that it was given"
        assert first[0] == second[0], f"{where}: two equal steps differ"
        assert first[1] == second[1], f"{where}: two equal steps show different pages"
        session, page = first


def check_view(view: View, page: Observation, instruction: str) -> None:
    """Check how ``view`` reads one page (see ``envs.protocols.View``)."""
    where = f"the view {view.name}"
    chunks = view.chunks(page)
    assert "".join(c.text for c in chunks) == page.text, f"{where}: chunks do not make the page"
    assert len({c.id for c in chunks}) == len(chunks), f"{where}: two chunks have one id"
    carried = {action for chunk in chunks for action in chunk.actions}
    assert carried == set(page.actions), f"{where}: chunks carry other actions than the page"
    for chunk in chunks:
        fragments = fragments_of(chunk)
        spelled = {f.action for f in fragments if f.action is not None}
        assert spelled == set(chunk.actions), f"{where}: {chunk.id} does not spell its actions"
        assert "\n\n" not in text_of(fragments), f"{where}: {chunk.id} leaves a line empty"
        if chunk.choice is not None:
            same = len(chunk.choice.values) == len(chunk.actions)
            assert same, f"{where}: {chunk.id} has more values than actions, or fewer"
    for line in view.status(page, chunks):
        assert "\n" not in line.text, f"{where}: a status is one line"
    for clause in view.clauses(instruction):
        inside = 0 <= clause.start <= clause.end <= len(instruction)
        assert inside, f"{where}: the clause '{clause.text}' is outside of the instruction"
    for event in (Event("OBS", page.text, 0, instruction), Event("ACT", "go on", 0, instruction)):
        rows = view.inputs(event)
        assert len(rows) <= _INPUTS, f"{where}: {len(rows)} inputs for one event"
        for row in rows:
            assert row.kind in INPUT_KINDS, f"{where}: no input is of kind {row.kind}"
            assert 0 <= row.match <= 1, f"{where}: a match is from 0 to 1"


def requests(
    resources: Resources, budgets: Sequence[int] = BUDGETS, worlds: Sequence[str] = ()
) -> Iterator[ContextRequest]:
    """Yield requests over pages of ``worlds`` (default: all installed), at several budgets."""
    events = tuple(
        event
        for t in range(4)
        for event in (Event("OBS", f"an earlier page {t}", t), Event("ACT", f"look[{t}]", t))
    )
    state = np.linspace(-1, 1, 384, dtype=np.float32)
    for profile, instruction, page in samples(worlds):
        source = PageSource(profile, page, lambda: resources.embedder)
        for budget in budgets:
            yield ContextRequest(instruction, page, source, events, budget, state, profile)


def samples(worlds: Sequence[str] = ()) -> Iterator[tuple[WorldProfile, str, Observation]]:
    """Yield (profile, instruction, page) of the worlds named, or of every world that is installed."""
    if not worlds or "plain" in worlds:
        yield from ((WorldProfile(), _GARDEN, page) for page in _GARDEN_PAGES)
    for kind in registry().slots["env"]:
        for profile, instruction, page in _first_pages(kind):
            if not worlds or profile.view.name in worlds:
                yield profile, instruction, page


@cache
def _first_pages(kind: str) -> list[tuple[WorldProfile, str, Observation]]:
    """Return a world kind's first pages, those before an error: it may need settings or data."""
    pages = []
    with suppress(Exception):  # a stranger's world has a check of its own
        params = cast(EnvParams, registry().parse("env", kind))
        world = complete(params.build(_resources()))
        session, page = world.reset(world.tasks()[0])
        for t in range(_PAGES):
            instruction = world.instruction(session)
            pages.append((params.profile(), instruction, page))
            if page.done or not page.actions:
                break
            session, page = world.step(session, _action(page, t, instruction))
    return pages


def _action(page: Observation, t: int, instruction: str) -> str:
    """Return the action that the checks take on a page at step ``t``."""
    action = page.actions[t % len(page.actions)]
    return fill(action, instruction) if takes_text(action) else action


def _resources() -> Resources:
    return Resources(None, Hashing())


def _plain(request: ContextRequest) -> tuple[object, ...]:
    state = None if request.state is None else request.state.tobytes()
    page = request.observation.text, request.observation.actions, tuple(request.source.all())
    return request.instruction, *page, request.events, request.budget, state
