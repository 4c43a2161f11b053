"""The `stategate` command as people call it: what it prints, what it writes, how it fails."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
import yaml

import stategate.ui.app.web
import stategate.ui.cli.serve
from stategate.graph import Session
from stategate.nodes.registry import registry
from stategate.stores.bank import Bank
from stategate.stores.trace_store import TraceStore
from stategate.ui.cli.doctor import CHECKS, DoctorSettings, examine
from stategate.ui.cli.main import app
from tests.kit import call, completion, http_server, refused, run_command

pytestmark = pytest.mark.usefixtures("home")
_FILES = ("summary", "args")
BUY_NOTHING = ["search[desk lamp]", "click[no such button]", "click[back to search]"]
PROGRAM = [sys.executable, "-m", "stategate"]
PLAIN = ["--set", "updater.kind=none", "--set", "embedder.kind=hashing"]


@pytest.fixture
def agent(tmp_path):
    """Write a config that searches and never buys (a purchase needs the noun model)."""
    path = tmp_path / "agent.yaml"
    values = {
        "env": "webshop",
        "context": "full",
        "actor": {"kind": "scripted", "actions": BUY_NOTHING},
        "embedder": "hashing",
        "memory": ["short_term", "trace"],
        "max_steps": 3,
    }
    path.write_text(yaml.safe_dump(values))
    return str(path)


def test_every_command_has_help_with_an_example():
    group = typer.main.get_command(app)
    context = group.make_context("stategate", [], resilient_parsing=True)

    def walk(command, words, context):
        shown = run_command(*words, "--help").output
        assert f"stategate {' '.join(words)}".strip() in shown.split("Examples")[1], words
        if hasattr(command, "commands"):
            for name in command.list_commands(context):
                inner = command.resolve_command(context, [name])[1]
                if not inner.hidden:
                    below = type(context)(inner, parent=context, info_name=name)
                    walk(inner, [*words, name], below)

    walk(group, [], context)
    assert "Start here" in call()
    assert call("--version").startswith("stategate ")


def test_help_imports_nothing_heavy():
    heavy = ["torch", "langgraph", "langchain_core", "pydantic", "numpy", "spacy", "gradio"]
    code = f"import sys, stategate.ui.cli.main; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_run_prints_every_step_and_writes_the_whole_episode(agent, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    target = tmp_path / "new" / "episode.json"
    words = ("--set", "context.kind=window", "--budget", 120, "--show", "page")
    shown = call("run", agent, "--goal", 4, "--json", target, *words)
    parts = ("step 3 of at most 3", "not finished: the step cap", "more lines")
    parts += ("illegal action: nothing happened",)
    assert all(words in shown for words in (*BUY_NOTHING, *parts))
    assert all(len(line.rstrip()) <= 80 for line in shown.splitlines())
    episode = json.loads(target.read_text())
    assert episode["task"] == {"env": "webshop", "goal": 4}
    assert episode["config"]["context"]["kind"] == "window"
    steps = episode["steps"]
    assert [(step["step"], step["decision"]["action"]) for step in steps] == [
        *enumerate(BUY_NOTHING)
    ]
    said = [step["decision"]["fallback"] for step in steps]
    assert said[:2] == [None, "illegal action: nothing happened"]
    assert episode["totals"]["tokens"] == sum(step["context"]["tokens"] for step in steps)
    assert any(piece["dropped_actions"] for piece in steps[1]["context"]["pieces"])
    assert [path.name for path in target.parent.iterdir()] == ["episode.json"]


def test_a_run_in_circles_says_so(agent):
    shown = call("run", agent, "--say", "xyzzy", "--max-steps", 13)
    assert "in circles: no page after step 5 was new" in shown


def test_json_to_stdout_is_nothing_but_json_and_set_wins_over_shortcuts(agent):
    words = ("run", agent, "--json", "-", "--budget", 90, "--max-steps", 2)
    episode = json.loads(call(*words))
    assert (episode["totals"]["steps"], episode["config"]["context"]["budget"]) == (2, 90)
    changed = json.loads(call(*words, "--set", "context.budget=70"))
    assert changed["config"]["context"]["budget"] == 70


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--goal", "99999"], "no task 99999"),
        (["--goal", "x"], "'--goal' / '--game': Input should be a valid integer"),
        (["--set", "context.kind=windo"], "did you mean 'window'"),
        (["--set", "contxt.kind=full"], "did you mean 'context'?"),
        (["--set", "context.budgt=4"], "did you mean 'budget'?"),
        (["--budget", "0"], "budget"),
        (["--set", "context.budget=x"], "budget: a whole number, not 'x'"),
        (["--set", "env.data=/no/such/folder"], "/no/such/folder"),
        (["--resume"], "--thread"),
        (["--say", "hello there"], "not understood: 'hello there' names nothing to look for"),
        (["--task", "goal"], "KEY=VALUE"),
        (["--task", "goal=3", "--goal", "4"], "leave --goal"),
        (["--thread", "t", "--resume"], "nothing to resume"),
        (["--actor", "human"], "in the app: stategate ui --config "),
        (["--json", "/proc/x/y"], "/proc/x/y"),
        (["--json", "/proc"], "is a folder"),
        (["--embedder", "x"], "No such option: --embedder (see "),
        (["--budgt", "5"], "--budget"),
        (["--show", "pages"], "'pages' is not one of 'page', 'context'"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(agent, words, told, tmp_path):
    target = () if "--json" in words else ("--json", tmp_path / "x.json")
    assert told in refused("run", agent, *words, *target)
    assert not list(tmp_path.glob("x.json*"))


def test_mistakes_of_other_commands(tmp_path):
    broken = tmp_path / "mine.yaml"
    broken.write_text("env: [\n")
    (tmp_path / "a.md").write_text("The sea.")
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, told in (
            (("run", "nosuch"), "webshop-policy"),
            (("rnu",), "Did you mean 'run'?"),
            (("memroy",), "Did you mean 'memory'"),
            (("xyzzy",), "No such command 'xyzzy' (see "),
            (("ask", "Why?", "--set", "actor.kind=policy"), "human, noisy, scripted"),
            (("kinds", "contxt"), "did you mean 'context'?"),
            (("checkpoints", "prune", "--where", tmp_path / "none.sqlite"), "no database of"),
            (("checkpoints", "prune", "--thread", "nosuch"), "no thread 'nosuch'"),
            (("train", "tagger", "--set", f"games={tmp_path}/x.xz"), "--set games=PATH"),
            (("train", "tagger", "--epochs", "3"), "train tagger --help)"),
            (("ui", "--host", "nowhere.invalid"), "no address 'nowhere.invalid'"),
            (("rank", "Who?", "--corpus", tmp_path / "a.md", "--model", "nosuch"), "smollm2-135m"),
            (("kinds", "compress"), "a kind of context: stategate kinds context"),
            (("demo", "--builders", "full"), "two memories"),
            (("ui", "--config", broken), "cannot read config"),
            (("bank", "build", tmp_path / "x", "--out", tmp_path / "b"), "no traces at"),
            (("bank", "build", empty, "--out", tmp_path / "b", *PLAIN[2:]), "no episode to learn"),
            (("ui", "--auth", "me"), "user:password"),
            (("ui", "--port", port, *PLAIN), str(port)),
        ):
            assert told in refused(*words), words


@pytest.mark.parametrize("words", ["memory list", "run webshop --thread t", "chat"])
def test_a_home_that_cannot_be_made_is_one_line(words, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", "/proc/none/home")
    assert "set STATEGATE_HOME" in refused(*words.split())


def test_a_thread_is_resumed_where_it_stopped(agent, home, monkeypatch):
    step = Session.step

    def stopped(session, on_text=None):
        if session.values["steps"] == 1:
            raise KeyboardInterrupt
        return step(session, on_text)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "step", stopped)
        done = run_command("run", agent, "--goal", 3, "--thread", "my t")
        assert done.exit_code == 130
        assert done.stderr.strip().endswith("--thread 'my t' --resume")
    assert (home / "checkpoints.sqlite").is_file()
    assert "unfinished" in refused("run", agent, "--thread", "my t")
    assert "leave --goal out" in refused("run", agent, "--thread", "t", "--resume", "--goal", 5)
    episode = json.loads(call("run", agent, "--thread", "my t", "--resume", "--json", "-"))
    assert episode["resumed_at"] == 1
    assert [step["decision"]["action"] for step in episode["steps"]] == BUY_NOTHING[1:]
    assert episode["totals"]["steps"] == 3
    assert "over" in refused("run", agent, "--thread", "my t", "--resume")
    call("run", agent, "--thread", "my t")  # a new episode on the same thread


def test_episodes_print_a_summary_and_keep_a_run_directory(agent, tmp_path):
    words = ["eval", "worlds", "--config", agent, "--agents", "full", "--goals"]
    first = [*words, "5-7", "--out", tmp_path / "run"]
    call(*first)
    read = {name: json.loads((tmp_path / "run" / f"{name}.json").read_text()) for name in _FILES}
    assert (read["summary"]["rows"][0]["n"], read["args"]["goals"]) == (3, [5, 6, 7])
    call(*first)
    assert "other arguments" in refused(*first, "--set", "context.budget=77")
    once = call(*words, "0", "--out", tmp_path / "one", "--json", "-")
    row = json.loads(once, parse_constant=pytest.fail)["rows"][0]
    assert (row["n"], row["success_se"]) == (1, None)


def test_all_episodes_failing_is_an_error(agent, tmp_path):
    words = ["--config", agent, "--agents", "full", "--goals", "0", "--out", tmp_path / "run"]
    words += ["--set", "llm.kind=openai", "--set", "llm.base_url=http://127.0.0.1:9/v1"]
    assert "the same command goes on" in refused("eval", "worlds", *words, "--set", "actor=chat")


def test_a_reply_in_parts_is_read_without_a_warning(agent):
    body = json.dumps(completion([{"type": "text", "text": "search[lamp]"}])).encode()
    with http_server(lambda request: (200, "application/json", body)) as (url, _):
        model = ["--set", "actor=chat", "--set", f"llm={{kind: openai, base_url: {url}/v1}}"]
        words = ["run", agent, "--goal", "3", "--set", "max_steps=1", *model]
        done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
    assert "search[lamp]" in done.stdout
    assert "Warning" not in done.stderr


def test_traces_are_exported_and_make_banks(agent, tmp_path, home):
    episode = json.loads(call("run", agent, "--goal", 3, "--json", "-"))["episode_id"]
    target = tmp_path / "all.jsonl"
    assert TraceStore(home / "traces.sqlite").export_jsonl(target) == 1
    row = json.loads(target.read_text())
    acts = [event["text"] for event in row["events"] if event["event_type"] == "ACT"]
    assert (row["episode_id"], acts) == (episode, BUY_NOTHING)
    target.write_text(json.dumps({**row, "done": True}))  # it was cut short
    for kind in ("state", "trace"):
        words = ("bank", "build", target, "--kind", kind, "--out", tmp_path / kind, *PLAIN[2:])
        assert "from 1 episode in" in call(*words, "--include-incorrect")
    again = call(*words, "--include-incorrect")
    assert "0 rows from 0 episodes" in again
    assert "1 already there" in again


def test_kinds_lists_every_kind_with_parameters_and_what_is_broken(monkeypatch):
    monkeypatch.setitem(registry().broken, "stranger: odd", "ImportError: no luck")
    shown = call("kinds")
    parts = ("window", "budget: int = 2000", "Literal['text', 'rich']", "stranger: odd")
    assert all(part in shown for part in parts)
    found = json.loads(call("kinds", "--json", "-"))
    assert {kind["kind"] for kind in found["slots"]["context"]} >= {"full", "window", "query_rag"}
    assert found["broken"] == {"stranger: odd": "ImportError: no luck"}
    assert list(json.loads(call("kinds", "actor", "--json", "-"))["slots"]) == ["actor"]


def test_the_page_of_kinds_shows_those_that_there_are():
    page = (Path(__file__).parents[2] / "docs" / "kinds.md").read_text("utf-8")
    shown = page.partition("<!-- kinds -->\n")[2].partition("\n<!-- /kinds -->")[0]
    lines = ["| slot | kind | what it does |", "|---|---|---|"]
    for slot, members in json.loads(call("kinds", "--json", "-"))["slots"].items():
        ours = [kind for kind in members if kind["owner"].partition(" ")[0] == "stategate"]
        lines += [f"| {slot} | `{kind['kind']}` | {kind['hint']} |" for kind in ours]
    made = "\n".join(lines)
    assert shown == made, f"docs/kinds.md is behind: put in\n{made}"


def test_what_is_refused_prints_nothing_before():
    for words in (("demo", "--goal", 99999), ("chat", "--corpus", "lost")):
        assert run_command(*words).stdout == ""


def test_demo_shows_one_moment_through_every_memory():
    printed = call("demo")
    rows = re.findall(r"^(full|window|compress) +([01]\.\d\d) +\d+ +([\d,]+)", printed, re.M)
    (_, full, most), (_, window, _), (_, compress, least) = rows
    assert (full, window, compress) == ("1.00", "0.00", "1.00")
    assert int(least.replace(",", "")) < int(most.replace(",", ""))
    assert "the same page through each memory" in printed
    assert "no model: searches rooms" in printed
    assert printed.count("│ Instruction:") == 3
    words = ("demo", "--config", "webshop-policy", "--set", "actor.kind=rule", *PLAIN, "--goal", 3)
    assert "did the same at every step" in call(*words, "--builders", "full,window")


def test_the_app_without_its_part_is_one_line():
    code = "import sys; sys.modules['gradio'] = None; sys.argv = ['x', 'ui'];"
    code += "import stategate.ui.cli.main as program; program.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "pip install 'stategate[ui]'" in done.stderr


def test_an_app_that_others_can_reach_is_warned_of_and_asks_for_the_password(monkeypatch):
    seen = {}
    waiting = SimpleNamespace(Event=lambda: SimpleNamespace(wait=lambda: None))
    monkeypatch.setattr(stategate.ui.cli.serve, "threading", waiting)
    monkeypatch.setattr(
        stategate.ui.app.web, "serve", lambda config, **how: seen.update(how) or "http://x/"
    )
    assert "warning" not in run_command("ui").stderr
    assert (seen["host"], seen["auth"]) == ("127.0.0.1", None)
    result = run_command("ui", "--host", "0.0.0.0", "--auth", "me:a:b", "--port", 8123)
    assert "warning: 0.0.0.0 lets other machines in" in result.stderr
    assert (seen["auth"], seen["port"]) == (("me", "a:b"), 8123)
    assert "without a password" in run_command("ui", "--host", "0.0.0.0").stderr


def test_a_reader_that_leaves_is_no_error():
    words = [*PROGRAM, "kinds", "--json", "-"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait()


def test_what_steers_a_terminal_is_not_printed(tmp_path, agent):
    """Names of files, texts of pages and an error's own words: shown, and harmless."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a\x1b[2J\x1b]0;mine\x07.pdf").write_bytes(b"%PDF nothing")
    (folder / "b.md").write_text("Snailfish live deep.")
    shown = [call("ingest", folder, "--corpus", "notes", "--embedder", "hashing")]
    shown.append(refused("run", agent, "--set", "actor.x\x1b]0;mine\x07\u202e=1"))
    shown.append(run_command("run", agent, "--thread", "t\x1b[31m[red]").output)
    for text in shown:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), text
    assert "a\ufffd[2J\ufffd]0;mine" in shown[0]


def test_a_fault_s_traceback_tells_no_key(monkeypatch, agent):
    key = "a-key-of-no-known-form-0123"
    monkeypatch.setenv("STRANGERS_API_KEY", key)

    def fail(*_):
        raise ZeroDivisionError(f"401 for {key}")

    monkeypatch.setattr("stategate.graph.session.Session.step", fail)
    done = run_command("run", agent)
    assert done.exit_code == 1
    assert "ZeroDivisionError: 401 for ***" in done.stderr
    assert key not in done.output


def told(name, *overrides):
    """Return whether the check ``name`` is well, and what it says."""
    return examine(name, DoctorSettings(overrides=overrides))


def test_everything_is_looked_at_without_a_fault():
    assert all("Error:" not in told(name)[1] for name in CHECKS)


def test_a_model_without_its_key_and_an_embedder_without_its_packages(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ok, text = told("model", "llm={kind: openai}")
    assert (ok, "OPENAI_API_KEY" in text) == (False, True)
    server = "llm={kind: openai, base_url: 'http://127.0.0.1:9/v1'}"
    assert told("model", server) == (True, "gpt-4o-mini; its server was not called")
    assert told("embedder", "embedder.kind=hashing")[0]
    monkeypatch.setattr("stategate.ui.cli.doctor.find_spec", lambda name: None)
    for name in ("embedder", "model"):
        ok, text = told(name, "embedder={kind: sentence_transformers, model: x}")
        assert (ok, "stategate[local]" in text) == (False, True)


def test_a_damaged_database_of_the_home_is_named_with_its_mend(home):
    file = home / "banks" / "mine" / "bank.sqlite"
    Bank(file.parent, "state", "m", create=True).close()
    assert told("databases") == (True, "1 looked through, none damaged")
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    ok, text = told("databases")
    assert (ok, str(file) in text, "delete it" in text) == (False, True, True)
    assert "\n" not in text
