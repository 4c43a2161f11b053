"""Questions over files, streamed answers, and memory, in a real browser."""

import re
from contextlib import suppress

import pytest
from playwright.sync_api import expect

from tests.ui.browser.steps import button, choose, fill, press_row, radio, rows, settings, tab

pytestmark = pytest.mark.browser
ZORB = (
    "# Zorbling\n\nThe zorbling is a lamp made in Quentin Bay since 1911. It hums at 440 hertz.\n"
)


@pytest.fixture
def talk(new_tab):
    page = new_tab()
    tab(page, "QA")
    page.locator("#sg-ask").wait_for()
    return page


def name(page, user):
    """Let the conversation read and write the memory of ``user``."""
    fill(page, "#sg-qa-user", user)
    with page.expect_response(re.compile("queue/join")):
        page.locator("#sg-qa-user").locator("textarea, input").first.press("Enter")


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


def add(page, *files):
    with page.expect_file_chooser() as chooser:
        button(page, "Add files to the corpus").click()
    chooser.value.set_files([str(file) for file in files])
    page.locator("#sg-qa-status .sg-note", has_text="Added.").wait_for(timeout=90_000)


def test_a_question_over_an_uploaded_file_and_what_is_remembered_of_it(talk, tmp_path, place):
    page = talk
    good, bad = tmp_path / "zorb.md", tmp_path / "broken.pdf"
    good.write_text(ZORB)
    bad.write_bytes(b"%PDF nothing")
    name(page, "ann")
    add(page, good, bad)
    assert "broken.pdf" in page.locator("#sg-qa-status").inner_text()
    ask(page, "At how many hertz does the zorbling hum?")
    assert "440 hertz" in page.locator("#sg-chat").inner_text()
    sources = page.locator("#sg-sources").inner_text()
    assert "zorb.md" in sources
    ask(page, "Where is the zorbling made?")
    after = page.locator("#sg-sources .sg-piece").all_inner_texts()
    assert any("history" in text and "440 hertz" in text for text in after)
    assert any("fact" in text and "hum" in text for text in after)
    page.reload()
    tab(page, "QA")
    page.locator("#sg-chat", has_text="440 hertz").wait_for()
    tab(page, "Memory")
    facts = rows(page, "#sg-facts")
    expect(facts).to_have_count(2)
    press_row(page, "#sg-facts", -1)
    expect(page.locator("#sg-memory-status")).to_contain_text("ui-qa-")
    press_row(page, "#sg-facts", -1)
    page.locator("#sg-forget").click()
    page.locator("#sg-memory-status", has_text="Forgotten: 1 facts").wait_for()
    expect(facts).to_have_count(1)
    home = place / "home"
    files = [path for path in home.glob("*.sqlite*") if path.is_file()]
    stores = [path.name for path in files if b"At how many hertz" in path.read_bytes()]
    assert stores == [], "the button forgets in every store, as `memory forget` does"
    page.locator("#sg-memory-words").locator("textarea, input").first.fill("Quentin Bay")
    button(page, "Search").click()
    expect(page.locator("#sg-facts")).to_contain_text("1 of 1 facts")
    page.reload()
    tab(page, "Memory")
    expect(facts).to_have_count(1)


@pytest.fixture
def model(talk, fake_model):
    """The fake model, which answers in this tab."""
    settings(talk, llm={"kind": "openai", "base_url": fake_model.url})
    tab(talk, "QA")
    pick(talk, "answer")
    return fake_model


def test_what_a_model_made_up_is_struck_through_and_stays(talk, model):
    model.answer = lambda body: "Brinicles cost 312 <b>purple</b> tractors."
    ask(talk, "Why does a brinicle grow?")
    taken_back = talk.locator("#sg-chat del")
    expect(taken_back).to_have_text("Brinicles cost 312 <b>purple</b> tractors.")
    expect(talk.locator("#sg-chat")).to_contain_text("Nothing found.")
    expect(talk.locator("#sg-chat")).to_contain_text("most of it has no source")
    model.answer = lambda body: "Sea water freezes and squeezes out its salt as brine."
    ask(talk, "Why does a brinicle grow downward?")
    expect(taken_back).to_have_count(1)
    talk.reload()
    tab(talk, "QA")
    expect(taken_back).to_have_count(1, timeout=60_000)


def test_an_answer_is_streamed_and_a_dead_model_can_be_asked_again(talk, model):
    page, fake_model = talk, model
    fake_model.halts_at = "which"
    fake_model.answer = lambda body: (
        "Sea water freezes and squeezes out its salt as <b>brine</b> ![x](http://far.away/x.png), "
        "which leaks out through cracks and sinks."
    )
    fill(page, "#sg-question", "Why does a brinicle grow?")
    put(page)
    page.locator("#sg-chat", has_text=re.compile("Sea water freezes")).wait_for()
    assert "sinks" not in page.locator("#sg-chat").inner_text(), "shown before it is whole"
    fake_model.goes_on.set()
    page.wait_for_function("!document.querySelector('#sg-ask').disabled")
    assert "<b>brine</b>" in page.locator("#sg-chat").inner_text(), "a document's HTML is text"
    assert "and sinks." in page.locator("#sg-chat").inner_text()
    fake_model.stop()
    fill(page, "#sg-question", "And then?")
    put(page)
    page.locator("#sg-qa-status .sg-note-bad", has_text="does not answer").wait_for()
    expect(page.locator("#sg-question").locator("textarea, input").first).to_have_value("And then?")
    pick(page, "extract")
    button(page, "Ask").click()
    page.wait_for_function("!document.querySelector('#sg-qa-status .sg-note-bad')")
    page.locator("#sg-sources .sg-context").wait_for()


def test_two_tabs_have_conversations_of_their_own_and_users_their_memories(talk, new_tab):
    name(talk, "bea")
    ask(talk, "What is a brinicle?")
    other = new_tab()
    tab(other, "QA")
    other.locator("#sg-sources .sg-empty").wait_for()
    assert not other.locator("#sg-chat .message").count()
    name(other, "cyd")
    ask(other, "Why does a brinicle grow?")
    assert "What is a brinicle" not in other.locator("#sg-sources").inner_text()
    tab(other, "Memory")
    expect(other.locator("#sg-memory-whose input").first).to_have_value("cyd / stategate")
    expect(rows(other, "#sg-facts")).to_have_count(1)


def test_a_bank_is_browsed(new_tab, place):
    import numpy as np

    from stategate.stores.bank.bank import Entry, Row
    from stategate.stores.bank.search import StateBank

    folder = place / "banks" / "small"
    bank = StateBank(folder, "hashing/4", create=True).bank
    made = []
    for i in range(3):
        told = {"state": f"Question: lamp {i}", "action": "click[x]", "experience": f"advice {i}"}
        made.append(Row(f"row{i}", f"task{i}", float(i), {**told, "episode": f"e{i}", "by": "me"}))
    vectors = np.eye(4, dtype=np.float32)
    bank.add([Entry(row, vectors[i : i + 1]) for i, row in enumerate(made)])
    page = new_tab()
    tab(page, "Memory")
    page.locator("#sg-banks button, #sg-banks .label-wrap").first.click()
    choose(page, "#sg-bank", "banks/small")
    bank_rows, cards = rows(page, "#sg-bank-rows"), page.locator("#sg-bank-rows")
    expect(bank_rows).to_have_count(3)
    expect(cards).to_contain_text("episode e2")


def test_an_upload_names_every_file(new_tab, tmp_path):
    page = new_tab()
    tab(page, "QA")
    files = [tmp_path / f"zorb-{number}.md" for number in range(7)]
    for file in files:
        file.write_text(f"# {file.stem}\n\nThe lamp {file.stem} hums.\n")
    add(page, *files)
    for file in files:
        expect(page.locator("#sg-qa-status")).to_contain_text(file.name)
