"""Questions over files, streamed answers, memory and banks, in a real browser."""

import re
from contextlib import suppress

import numpy as np
import pytest
from playwright.sync_api import expect

from stategate.stores.bank import Bank, Row
from tests.ui.browser.steps import (
    button,
    fill,
    press_row,
    radio,
    rows,
    settings,
    tab,
    upload,
)

pytestmark = pytest.mark.browser
ZORB = (
    "# Zorbling\n\nThe zorbling is a lamp made in Quentin Bay since 1911. It hums at 440 hertz.\n"
)


def put(page):
    """Press Ask, again where the button was just drawn anew under the first click."""
    box = page.locator("#sg-question").locator("textarea, input").first
    for _ in range(3):
        button(page, "Ask").click()
        with suppress(AssertionError):
            return expect(box).to_have_value("", timeout=25_000)
    raise AssertionError("no question is put")


def pick(page, actor):
    """Choose the actor, and let the server know it before anything is asked."""
    with page.expect_response(re.compile("queue/join")):
        radio(page, "#sg-qa-actor", actor)


def ask(page, question):
    said = page.locator("#sg-chat .bot .message, #sg-chat .message.bot").count()
    fill(page, "#sg-question", question)
    put(page)
    page.wait_for_function(
        "said => document.querySelectorAll('#sg-chat .bot .message, #sg-chat .message.bot').length"
        " > said && !document.querySelector('#sg-ask').disabled",
        arg=said,
        timeout=90_000,
    )


def test_a_question_over_uploaded_files_and_what_is_remembered_of_it(page, new_tab, place):
    tab(page, "QA")
    files = {f"zorb-{n}.md": f"# Lamp {n}\n\nThe lamp {n} hums.\n".encode() for n in range(6)}
    files |= {"zorb.md": ZORB.encode(), "broken.pdf": b"%PDF nothing"}
    upload(page, "Add files to the corpus", files)
    page.locator("#sg-qa-status .sg-note", has_text="Added.").wait_for(timeout=90_000)
    for name in files:
        expect(page.locator("#sg-qa-status")).to_contain_text(name)
    ask(page, "At how many hertz does the zorbling hum?")
    assert "440 hertz" in page.locator("#sg-chat").inner_text()
    assert "zorb.md" in page.locator("#sg-sources").inner_text()
    ask(page, "Where is the zorbling made?")
    after = page.locator("#sg-sources .sg-piece").all_inner_texts()
    assert any("history" in text and "440 hertz" in text for text in after)
    remembered = page.locator("#sg-remembered")
    for told in ("I keep my zorbling in the attic.", "My zorbling hums at night."):
        ask(page, told)
        expect(remembered).to_contain_text(told)
    ask(page, "Where do I keep my zorbling?")
    expect(remembered.locator(".sg-memory", has_text="attic")).to_contain_text("in this answer")
    other = new_tab(wait=False)
    tab(other, "QA")
    other.locator("#sg-sources .sg-empty").wait_for()
    assert not other.locator("#sg-chat .message").count(), "a conversation of its own"
    tab(other, "Memory")
    expect(rows(other, "#sg-facts")).to_have_count(2)
    page.reload()
    tab(page, "QA")
    page.locator("#sg-chat", has_text="440 hertz").wait_for()
    tab(page, "Memory")
    facts = rows(page, "#sg-facts")
    expect(facts).to_have_count(2)
    press_row(page, "#sg-facts", -1)
    expect(page.locator("#sg-memory-status")).to_contain_text("ui-qa-")
    page.locator("#sg-forget").click()
    page.locator("#sg-memory-status", has_text="Forgotten: 1 fact,").wait_for()
    expect(facts).to_have_count(1)
    home = place / "home"
    files = [path for path in home.glob("*.sqlite*") if path.is_file()]
    stores = [path.name for path in files if b"zorbling in the attic" in path.read_bytes()]
    assert stores == [], "the button forgets in every store, as `memory forget` does"
    fill(page, "#sg-memory-words", "night")
    button(page, "Search").click()
    expect(page.locator("#sg-facts")).to_contain_text("1 of 1 fact ")


def test_an_answer_is_streamed_or_taken_back_and_a_dead_model_can_be_asked_again(
    new_tab, fake_model
):
    page = new_tab()
    tab(page, "QA")
    settings(page, "qa", llm={"kind": "openai", "base_url": fake_model.url})
    tab(page, "QA")
    pick(page, "answer")
    fake_model.answer = lambda body: "Brinicles cost 312 <b>purple</b> tractors."
    ask(page, "Why does a brinicle grow?")
    taken_back = page.locator("#sg-chat del")
    expect(taken_back).to_have_text("Brinicles cost 312 <b>purple</b> tractors.")
    expect(page.locator("#sg-chat")).to_contain_text("Nothing found.")
    expect(page.locator("#sg-chat")).to_contain_text("most of it has no source")
    fake_model.halts_at = "which"
    fake_model.answer = lambda body: (
        "Sea water freezes and squeezes out its salt as <b>brine</b> ![x](http://far.away/x.png), "
        "which leaks out through cracks and sinks."
    )
    fill(page, "#sg-question", "Why does a brinicle grow downward?")
    put(page)
    page.locator("#sg-chat", has_text=re.compile("Sea water freezes")).wait_for()
    assert "and sinks" not in page.locator("#sg-chat").inner_text(), "shown before it is whole"
    fake_model.goes_on.set()
    page.wait_for_function("!document.querySelector('#sg-ask').disabled")
    assert "<b>brine</b>" in page.locator("#sg-chat").inner_text(), "a document's HTML is text"
    assert "and sinks." in page.locator("#sg-chat").inner_text()
    expect(taken_back).to_have_count(1)
    fake_model.stop()
    fill(page, "#sg-question", "And then?")
    put(page)
    page.locator("#sg-qa-status .sg-note-bad", has_text="does not answer").wait_for()
    expect(page.locator("#sg-question").locator("textarea, input").first).to_have_value("And then?")
    pick(page, "extract")
    button(page, "Ask").click()
    page.wait_for_function("!document.querySelector('#sg-qa-status .sg-note-bad')")
    page.locator("#sg-sources .sg-context").wait_for()


def test_a_bank_is_browsed(page, place):
    bank = Bank(place / "banks" / "small", "state", "hashing/4", create=True)
    row = Row("row1", "task1", 1.0, {"state": "Question: lamp", "action": "click[x]"})
    bank.add([(row, np.ones(4, np.float32))])
    tab(page, "QA")
    tab(page, "Memory")
    page.locator("#sg-banks button, #sg-banks .label-wrap").first.click()
    folder = page.locator("#sg-bank input").first
    folder.fill("banks/small")
    folder.press("Enter")
    expect(page.locator("#sg-bank-rows")).to_contain_text("state: Question: lamp")
