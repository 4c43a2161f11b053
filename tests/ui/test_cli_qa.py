"""`stategate ask`, `chat`, `ingest`, `memory` and `eval qa|memory` as people call them."""

import json
import signal
import sqlite3
import time
from pathlib import Path

import pytest
import yaml

from stategate.evals.qa import AGENTS
from stategate.nodes.act.answer import Extract
from stategate.stores import progress
from stategate.stores.corpus.corpus import corpus_names
from stategate.stores.home import home
from stategate.stores.trace_store import TraceStore
from stategate.ui.cli import output
from tests.kit import call, refused, run_command, text_in

EXTRACT = ("--set", "actor.kind=extract", "--set", "embedder=hashing")


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "boat.md").write_text("# Boat\n\nThe boat is called Albatros. It lies in Messina.")
    (folder / "cat.txt").write_text("The cat sleeps on the red sofa all day.")
    (folder / "bad.json").write_text("{")
    return folder


def test_ask_answers_from_a_folder_and_tells_what_it_read(notes, tmp_path):
    out = call("ask", "What is the boat called?", "--corpus", notes, "--show", *EXTRACT)
    assert all(words in out for words in ("The boat is called Albatros.", "<document"))
    target = tmp_path / "answer.json"
    call("ask", "Where does the cat sleep?", "--corpus", notes, "--json", target, *EXTRACT)
    told = json.loads(target.read_text())
    assert "red sofa" in told["answer"]
    assert {piece["kind"] for piece in told["pieces"]} >= {"passage", "question"}


def test_a_thread_goes_on_in_another_process_and_memory_crosses_threads(notes):
    call("ask", "What is the boat called?", "--corpus", notes, "--thread", "a", *EXTRACT)
    shown = call("ask", "And where?", "--corpus", notes, "--thread", "a", "--show", *EXTRACT)
    assert "User: What is the boat called?" in shown
    call("ask", "My boat is called Albatros.", "--thread", "a", *EXTRACT)
    shown = call("ask", "The boat?", "--corpus", notes, "--thread", "b", "--show", *EXTRACT)
    assert "Remembered from before" in shown
    eve = ("--corpus", notes, "--thread", "c", "--user", "eve", "--show")
    assert "Remembered from before" not in call("ask", "The boat?", *eve, *EXTRACT)


def test_ctrl_c_while_it_thinks_ends_in_a_line_and_loses_nothing(notes, monkeypatch):
    build, here = Extract.build, ("--corpus", notes, "--thread", "night", *EXTRACT)

    def interrupted(params, resources):
        act = build(params, resources)

        def slow(context, step):
            if "cat" in text_in(context, "question"):
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.2)
            return act(context, step)

        return slow

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    with monkeypatch.context() as patch:
        patch.setattr(Extract, "build", interrupted)
        words = ["chat", *map(str, here)]
        asked = "What is the boat called?\nWhere does the cat sleep?\n"
        result = run_command(*words, stdin=asked)
    signal.signal(signal.SIGINT, handler)
    assert result.exit_code == 130
    assert "Albatros" in result.stdout
    assert "stopped; go on with: stategate chat --thread night" in result.stderr
    assert "Traceback" not in result.output
    again = call("chat", *here, stdin="Where does the cat sleep?\n\n")
    assert "sofa" in again
    assert json.loads(call("memory", "list", "--json", "-")) == []  # a question is no fact


def test_what_takes_long_says_so(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.25)
    with output.working("reading"):
        for _ in progress.Progress(range(4), unit="text"):
            time.sleep(0.1)
    assert "working: 2 of 4 texts, 00:00 so far" in capsys.readouterr().err
    with progress.Progress(total=4, initial=2) as bar:  # what goes on has no speed yet
        assert bar.line().endswith("so far")


def test_ingest_reads_updates_and_removes(notes):
    words = ("ingest", notes, "--corpus", "mine", "--embedder", "hashing")
    (notes / "trip.csv").write_text("day,harbour\nMonday,Messina\n")
    (notes / "photo.png").write_bytes(b"\x89PNG")
    out = call(*words)
    assert all(part in out for part in ("3 added", "bad.json", "skipped .png"))
    (notes / "cat.txt").unlink()
    told = json.loads(call(*words, "--json", "-"))
    assert (told["removed"], told["unchanged"], told["skipped"][0]["id"]) == (1, 2, "bad.json")
    assert "Albatros" in call("ask", "What is the boat called?", "--corpus", "mine", *EXTRACT)


def test_where_nothing_is_kept_nothing_is_said_to_be(monkeypatch):
    monkeypatch.setattr("stategate.stores.home.os.access", lambda *_: False)
    assert "remembered as fact" not in call("ask", "I live in Oslo.", "--remember", *EXTRACT)


def test_memory_is_listed_searched_and_forgotten(notes):
    facts = ("My boat is called Albatros.", "My cat sleeps on the sofa.")
    for fact in facts:
        assert "remembered as fact" not in call("ask", fact, "--corpus", notes, *EXTRACT)
        assert "remembered as fact" in call("ask", fact, "--remember", *EXTRACT)
    listed = json.loads(call("memory", "list", "--json", "-"))
    assert tuple(fact["text"] for fact in listed) == facts
    found = json.loads(call("memory", "search", "boat", "--embedder", "hashing", "--json", "-"))
    assert found[0]["id"] == listed[0]["id"]
    assert "forgot 1" in call("memory", "forget", listed[0]["id"])
    assert len(json.loads(call("memory", "list", "--json", "-"))) == 1
    call("memory", "forget", "--all")
    assert json.loads(call("memory", "list", "--json", "-")) == []


def test_standing_wishes_stand_apart_go_with_every_question_and_are_superseded(notes):
    empty = [call("memory", *words) for words in (("list",), ("search", "x"), ("why", "x"))]
    assert len(set(empty)) == 1
    told = ("Call me Sam.", "Always answer in metric units.", "From now on use miles, please.")
    for text in (*told, "I sold Puffin."):
        call("ask", text, "--remember", *EXTRACT)
    for words in (("list",), ("search", "Puffin"), ("why", "Puffin")):
        facts, _, wishes = call("memory", *words).partition("Standing wishes")
        assert "I sold Puffin." in facts
        assert "Call me Sam." in wishes
        assert "metric" not in wishes
        assert "probability" not in wishes
    question = ("ask", "Where does the cat sleep?", "--corpus", notes, "--show", *EXTRACT)
    assert "- Call me Sam.\n- From now on use miles, please.\nQuestion:" in call(*question)
    call("memory", "forget", 3)
    assert "- Always answer in metric units." in call(*question)


def test_what_holds_is_answered_before_what_it_corrected():
    told = ("I live in Oslo.", "I moved to Bergen last month.", "Where do I live?")
    told += ("My sister Lena keeps bees.", "No, it is my cousin Lena who keeps bees.")
    out = call("chat", *EXTRACT, stdin="\n".join((*told, "Who keeps bees?", "", "")))
    assert "it ends fact 1: I live in Oslo." in out
    assert "it ends fact 3: My sister Lena keeps bees." in out
    *_, live, bees = (line for line in out.splitlines() if "(until " in line)
    assert "I moved to Bergen last month" in live.partition("I live in Oslo. (until")[0]
    assert "my cousin Lena" in bees.partition("My sister Lena keeps bees. (until")[0]


def test_a_wish_to_forget_names_the_facts_and_asks_back():
    for text in ("My dentist is Dr Wu.", "My cat is called Miso."):
        call("ask", text, "--remember", *EXTRACT)
    out = call("ask", "Please forget my dentist.", "--remember", *EXTRACT)
    assert 'Forget this? "My dentist is Dr Wu."' in out
    assert "stategate memory forget 1 forgets" in out
    assert "Nothing to forget was found." in call("ask", "Forget my motorbike.", *EXTRACT)
    answer, documents, memory = call("ask", "Who sang Waterloo?", *EXTRACT).splitlines()
    assert (answer, documents[:12]) == ("Nothing found.", "(nearest in ")
    assert memory.startswith("(nothing remembered: chance 0.")
    out = call("chat", *EXTRACT, stdin="Forget my cat.\nn\nForget my dentist.\ny\n\n")
    assert "forgot 1 of 1" in out
    out = call("ask", "Forget everything you know about me.", *EXTRACT)
    assert "I cannot tell which" in out
    assert "stategate memory forget --all forgets all" in out
    (left,) = json.loads(call("memory", "list", "--json", "-"))
    assert left["text"] == "My cat is called Miso."
    call("ask", "Forget my cat, I have a dog called Rex.", "--remember", *EXTRACT)
    call("ask", "My PIN is 9921. Please don't remember that.", "--remember", *EXTRACT)
    _, dog = json.loads(call("memory", "list", "--json", "-"))
    assert dog["text"] == "I have a dog called Rex."
    out = call("ask", "Forget my dog and my cat.", *EXTRACT)
    assert "Rex" in out.partition("Miso")[0]


def test_who_forgets_a_part_of_a_message_is_told_that_all_of_it_goes():
    walks = " ".join(f"On walk {n} we saw {n} herons by the old stone bridge." for n in range(12))
    call("ask", f"My dentist is Dr Wu. {walks} My cat is Miso.", "--remember", *EXTRACT)
    assert "with the other" in call("ask", "Please forget my cat.", "--remember", *EXTRACT)


def test_a_wish_that_no_fact_be_kept_says_what_still_holds_it():
    out = call("chat", "--thread", "t", *EXTRACT, stdin="My PIN is 9921, don't save that.\n\n")
    assert "stategate memory forget --thread t this conversation, your words too" in out
    assert "forgot" in call("memory", "forget", "--thread", "t")


def test_of_a_user_who_is_forgotten_no_question_and_no_name_is_left():
    for text, thread in (("I sail.", "a"), ("What is my pulse?", "a"), ("Who am I?", "b")):
        call("ask", text, "--user", "kim lee", "--thread", thread, *EXTRACT)
    call("ask", "What is a boat?", "--user", "bo", "--thread", "a", *EXTRACT)
    call("memory", "forget", "--all", "--user", "kim lee")
    for text in ("kim%20lee", "What is my pulse?", "Who am I?"):
        assert "not a byte" in call("memory", "prove-forgotten", text)
    assert "traces" in refused("memory", "prove-forgotten", "What is a boat?")


def test_what_is_kept_and_forgotten_is_said_with_whose_it_is():
    text = "My cello teacher is Ludmila."
    assert "not remembered: --remember keeps it" in call("ask", text, *EXTRACT)
    assert "not a byte" in call("memory", "prove-forgotten", text)
    out = call("ask", text, "--remember", "--user", "kim lee", *EXTRACT)
    assert "stategate memory forget 1 --user 'kim lee' undoes it" in out
    out = run_command("memory", "forget", "1", "999", "--user", "kim lee").output
    assert "forgot 1 fact" in out
    assert "no fact 999" in out
    refusal = refused("memory", "forget", "--all", "--user", "bo")
    assert "nothing of user 'bo'" in refusal
    assert "None" not in refusal


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ask", " "), "empty"),
        (("ask", "x", "--corpus", "lost"), "no corpus or folder 'lost'"),
        (("ask", "x", "--corpus", "./lost"), "name a folder that is here"),
        (("ingest", "file:///etc/passwd", "--corpus", "x"), "no folder or file"),
        (("ask", "x", "--corpus", "bad.txt"), "bad.txt: a binary file"),
        (("ask", "x", "--config", "webshop"), "no conversation"),
        (("ingest", "/no/such/folder", "--corpus", "x"), "no folder or file"),
        (("ingest", ".", "--corpus", "../x"), "no corpus name"),
        (("memory", "forget"), "--thread, --source, --all"),
        (("memory", "forget", "99"), "no such fact"),
        (("memory", "forget", "--thread", "gym"), "nothing is remembered"),
        (("memory", "list", "--db", "mysql://x"), "sqlite"),
        (("memory", "list", "--db", "none.sqlite"), "needs no --db"),
        (("memory", "why", "x", "--tokens", "5"), "No such option: --tokens"),
        (("mcp", "--corpus", "lost"), "no corpus or folder 'lost'"),
        (("ask", "-5 degrees?"), "after --"),
        (("eval", "worlds", "--agents", "full", "--goals", "5-2", "--out", "runs/x"), "smaller"),
        (("eval", "worlds", "--agents", "nonsense", "--out", "runs/x"), "nonsense"),
        (("eval", "worlds", "--agents", "full", "--goals", "x", "--out", "runs/x"), "x"),
        (("eval", "worlds", "--agents", "full", "--tasks", "9999", "--out", "runs/x"), "9999"),
        (("eval", "worlds", "--goals", "0", "--out", "runs/x"), "at least one agent"),
        (("eval", "rerank", "--rankers", "best", "--out", "runs/x"), "'best' is none"),
        (("eval", "rerank", "--split", "train", "--out", "runs/x"), "is not one of 'dev', 'test'"),
        (("train", "state", "--set", "data=nowhere.jsonl"), "stategate data trajectories"),
        (("train", "state", "--set", "epochs=0"), "epochs"),
        (("train", "state", "--set", "colour=red"), "colour"),
        (("eval", "qa", "--data", "/no/such", "--out", "runs/x"), "no question set"),
        (("eval", "memory", "--policies", "x", "--out", "runs/x"), "'neither', 'stm'"),
    ],
)
def test_mistakes_are_one_line_with_the_fix(words, told, notes, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("bad.txt").write_bytes(bytes(range(256)))
    assert told in refused(*words)
    assert not Path("runs").exists()


@pytest.mark.parametrize("made", ["", "create table notes (n)"])
def test_a_file_that_is_no_memory_is_refused_unchanged(made, tmp_path):
    path = tmp_path / "notes.db"
    sqlite3.connect(path).execute(made)
    before = path.read_bytes()
    for words in ("list", "search x", "why x", "forget --all"):
        for name in (path, f"sqlite:///{path}", "sqlite:///gone.db"):
            assert "needs no --db" in refused("memory", *words.split(), "--db", name)
    assert {file: file.read_bytes() for file in tmp_path.glob("notes.db*")} == {path: before}


def test_eval_qa_and_memory_write_run_directories(tmp_path):
    run = tmp_path / "qa"
    words = ("eval", "qa", "--limit", "2", "--out", run)
    words += ("--set", "embedder=hashing", "--json", tmp_path / "summary.json")
    assert "MRR" in call(*words)
    assert len((run / "questions.jsonl").read_text().splitlines()) == 6 * 2
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {row["agent"] for row in summary["rows"]} == set(AGENTS)
    dialogues = tmp_path / "dialogues.yaml"
    scored = {"question": "What is my cat called?", "kind": "cross_session", "expects": ["Tom"]}
    value = [{"id": "cat", "sessions": [["My cat is called Tom."], [scored]]}]
    dialogues.write_text(yaml.safe_dump(value))
    words = ("eval", "memory", "--dialogues", dialogues, "--out", tmp_path / "m")
    call(*words, "--set", "embedder=hashing", "--json", tmp_path / "m.json")
    right = {r["agent"]: r["right"] for r in json.loads((tmp_path / "m.json").read_text())["rows"]}
    assert right == {"neither": 0.0, "stm": 0.0, "ltm": 1.0, "both": 1.0}


def test_a_thread_goes_on_with_its_corpus(notes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("ask", "Where does the cat sleep?", "--corpus", "notes", "--thread", "a", *EXTRACT)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for _ in range(2):
        done = run_command("ask", "What is the boat called?", "--thread", "a", *EXTRACT)
        assert "Albatros" in done.stdout
        assert str(notes) in done.stderr
    (elsewhere / "ship.txt").write_text("The ship is called Halcyon.")
    asked = ("ask", "What is the ship called?", "--thread", "a", *EXTRACT)
    assert "Halcyon" in call(*asked, "--corpus", elsewhere)
    assert str(elsewhere) in run_command(*asked).stderr
    assert "goes on" not in run_command("ask", "A moonbow?", "--thread", "b", *EXTRACT).stderr


def test_what_is_empty_says_so(notes, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no text" in run_command("ask", "What?", "--corpus", empty, *EXTRACT).stderr
    assert "no text" in refused("rank", "What?", "--corpus", empty)
    for command in ("ask", "rank"):
        assert "question is empty" in refused(command, " ", "--corpus", empty)
    assert "nothing to read" in refused("ingest", empty, "--corpus", "none", *EXTRACT)
    for source in (notes / "bad.json", "http://127.0.0.1:9/x"):
        assert "nothing could be read" in refused("ingest", source, "--corpus", "none", *EXTRACT)
    assert corpus_names() == []
    call("ingest", notes, "--corpus", "mine", "--embedder", "hashing")
    assert "nothing to read" in refused("ingest", empty, "--corpus", "mine", *EXTRACT)
    assert "mine" in corpus_names()  # one that was there stays


def test_one_page_less_is_told_by_the_exit_code(notes):
    words = ("--embedder", "hashing", "--corpus")
    refused("ingest", "http://127.0.0.1:9/x", *words, "one")
    done = run_command("ingest", notes, "http://127.0.0.1:9/x", *words, "two")
    assert done.exit_code == 2
    assert "two" in corpus_names()  # what could be read was


def test_an_episode_that_nobody_scores_has_no_reward(notes):
    call("ask", "What is the boat called?", "--corpus", notes, "--remember", *EXTRACT)
    (row,) = TraceStore(home() / "traces.sqlite").episodes()
    assert row["reward"] is None
