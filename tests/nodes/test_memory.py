"""Memory writers."""

from dataclasses import replace

from stategate.envs.protocols import Observation
from stategate.nodes.conformance import check_memory
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import Decision, StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.write_memory.short_term import ShortTerm
from stategate.nodes.write_memory.trace import Trace, events_of
from stategate.stores.tokens import count_tokens
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore


def record(step=0, events=(), page="WebShop [SEP] Instruction: [SEP] a lamp [SEP] Search", **kw):
    seen = Observation(page, ("click[x]",))
    made = StepRecord(
        "t",
        "e",
        step,
        {"env": "webshop"},
        "a lamp",
        seen,
        None,
        Decision("click[x]"),
        seen,
        tuple(events),
    )
    return replace(made, **kw)


def test_writers_conform(tmp_path):
    check_memory(ShortTerm())
    check_memory(ShortTerm(budget=5))
    check_memory(Trace(path=str(tmp_path / "t.sqlite")))


def test_short_term_keeps_the_newest_within_its_budget():
    write = ShortTerm(budget=60, page_tokens=10).build(Resources(env=WebShopEnv()))
    events = ()
    for step in range(30):
        events = write(record(step, events, page=f"page {step} " + "word " * 50))
        assert sum(count_tokens(event.text) for event in events) <= 60
    assert events[-1] == Event("ACT", "click[x]", 29)
    assert events[0].t > 8
    steps = [event.t for event in events if event.kind == "ACT"]
    assert steps == list(range(steps[0], 30))


def test_what_an_items_page_met_is_noted_and_outlives_the_page():
    wish = "i want a glass lamp, color: black, under 20 dollars"
    item = (
        "Instruction: [SEP] x [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] black [SEP] red"
    )
    item += " [SEP] Oak lamp [SEP] Price: $9.00 [SEP] Rating: N.A. [SEP] Description [SEP] Features"
    item += " [SEP] Reviews [SEP] Buy Now"
    links = ("back to search", "< prev", "black", "red", "description", "features", "reviews")
    page = Observation(item, (*(f"click[{link}]" for link in links), "click[buy now]"))
    write = ShortTerm(budget=24, page_tokens=10).build(Resources(env=WebShopEnv()))
    events = write(record(3, (), observation=page, instruction=wish))
    assert [e.text for e in events if e.kind == "NOTE"] == ["lamp, black"]
    for step in range(4, 8):
        events = write(record(step, events))
    assert [e.kind for e in events if e.t == 3] == ["NOTE", "ACT"]


def test_trace_events_come_in_order_with_errors_and_the_last_page():
    receipt = Observation("Thank you", (), reward=0.5, done=True)
    kinds = [
        e.kind for e in events_of(record(decision=Decision("x", fallback="why"), outcome=receipt))
    ]
    assert kinds == ["OBS", "ACT", "ERROR", "REWARD", "OBS", "DONE"]


def test_trace_forks_through_its_store(tmp_path):
    path = str(tmp_path / "t.sqlite")
    writer = Trace(path=path).build(Resources(env=WebShopEnv()))
    for step in range(3):
        writer(record(step))
    writer.fork("e", "f", 1)
    assert len(TraceStore(path).events("f")) == 2
