"""The `stategate` command as people call it: what it prints, what it writes, how it fails."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from stategate.nodes.protocols import SLOTS
from stategate.nodes.registry import registry
from stategate.ui.cli.kinds import catalogue, markdown
from stategate.ui.cli.main import app

BUY_NOTHING = ["search[desk lamp]", "click[back to search]", "search[chair]"]
COMMANDS = ["", "run", "kinds", "data", "data webshop", "eval", "eval worlds", "doctor"]
COMMANDS += ["ui"]
COMMANDS += ["eval rerank", "rank", "bank", "bank build", "bank practice"]
COMMANDS += ["bank show", "bank search", "bank edit", "bank prune", "bank merge", "bank export"]
COMMANDS += ["traces", "traces list", "traces show", "traces export"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Keep the user's own traces and checkpoints out of it; nothing here needs an asset."""
    folder = tmp_path / "home"
    monkeypatch.setenv("STATEGATE_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


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


def call(*words, stdin=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def refused(*words, stdin=None):
    """Return the one line of a refusal."""
    result = call(*words, stdin=stdin)
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("stategate: ")
    return lines[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command):
    result = call(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"stategate {command}".strip() in result.output.split("Examples")[1]


def test_bare_and_version():
    assert "Commands" in call().output
    assert call("--version").output.startswith("stategate ")


def test_run_prints_every_step(agent):
    result = call("run", agent, "--goal", 3)
    assert result.exit_code == 0, result.output
    for action in BUY_NOTHING:
        assert action in result.output
    assert "step 3 of at most 3" in result.output
    assert "kept 2/2 chunks" in result.output


def test_run_writes_the_whole_episode(agent, tmp_path):
    target = tmp_path / "new" / "episode.json"
    result = call("run", agent, "--goal", 4, "--json", target, "--set", "context.kind=window")
    assert result.exit_code == 0, result.output
    episode = json.loads(target.read_text())
    assert episode["task"] == {"env": "webshop", "goal": 4}
    assert episode["config"]["context"]["kind"] == "window"
    assert [step["step"] for step in episode["steps"]] == [0, 1, 2]
    assert [path.name for path in target.parent.iterdir()] == ["episode.json"]


def test_json_to_stdout_is_nothing_but_json(agent):
    result = call("run", agent, "--json", "-", "--budget", 90, "--max-steps", 2)
    episode = json.loads(result.stdout)
    assert (episode["totals"]["steps"], episode["config"]["context"]["budget"]) == (2, 90)


def test_set_wins_over_the_shortcuts(agent):
    result = call("run", agent, "--json", "-", "--budget", 90, "--set", "context.budget=70")
    assert json.loads(result.stdout)["config"]["context"]["budget"] == 70


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--goal", "99999"], "no goal 99999"),
        (["--goal", "x"], "--goal"),
        (["--set", "context.kind=windo"], "full, query_rag"),
        (["--set", "nonsense"], "slot.field=value"),
        (["--budget", "0"], "budget"),
        (["--set", "env.data=/no/such/folder"], "/no/such/folder"),
        (["--show", "foo"], "--show"),
        (["--resume"], "--thread"),
        (["--start", "3"], "--episodes"),
        (["--out", "x"], "--episodes"),
        (["--episodes", "2", "--thread", "t"], "--out"),
        (["--episodes", "2", "--actor", "human"], "a person plays one"),
        (["--episodes", "2", "--start", "99999"], "no task"),
        (["--task", "goal"], "KEY=VALUE"),
        (["--task", "goal=3", "--goal", "4"], "leave --goal"),
        (["--thread", "t", "--resume"], "nothing to resume"),
        (["--json", "/proc/x/y"], "/proc/x/y"),
        (["--gaol", "3"], "--gaol"),
    ],
)
def test_mistakes_are_one_line(agent, words, told):
    assert told in refused("run", agent, *words)


def test_more_mistakes(tmp_path):
    assert "demo" in refused("run", "nosuch")
    assert "run" in refused("rnu")
    assert "the slots are" in refused("kinds", "nosuch")
    assert "no trace database" in refused("traces", "list", "--db", tmp_path / "none.sqlite")
    assert "--from" in refused("data", "webshop", "--from", tmp_path / "none")
    assert "tasks" in refused("eval", "live", "--agents", "full", "--goals", "x", "--out", tmp_path)


def test_nothing_is_half_written_when_a_run_is_refused(agent, tmp_path):
    refused("run", agent, "--goal", 99999, "--json", tmp_path / "x.json")
    assert not list(tmp_path.glob("x.json*"))
    refused("run", agent, "--episodes", 2, "--start", 99999, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_thread_is_resumed_where_it_stopped(agent, home):
    by_hand = ["--actor", "human", "--goal", 3, "--thread", "t"]
    first = call("run", agent, *by_hand, stdin="search desk lamp\nq\n")
    assert first.exit_code == 0, first.output
    assert "--thread t --resume" in first.output
    assert (home / "checkpoints.sqlite").is_file()
    assert "unfinished" in refused("run", agent, "--thread", "t")
    assert "goal 3" in refused("run", agent, "--thread", "t", "--resume", "--goal", 5)
    resumed = call("run", agent, "--thread", "t", "--resume", "--json", "-")
    episode = json.loads(resumed.stdout)
    assert episode["resumed_at"] == 1
    assert [step["decision"]["action"] for step in episode["steps"]] == BUY_NOTHING[1:]
    assert episode["totals"]["steps"] == 3
    assert "over" in refused("run", agent, "--thread", "t", "--resume")
    assert call("run", agent, "--thread", "t").exit_code == 0  # a new episode on the same thread


def test_a_person_acts_by_number_words_and_action(agent):
    answers = ["foo[bar]", "99", "1", "search desk lamp", "", "1", "search[chair]"]
    result = call("run", agent, "--actor", "human", stdin="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    assert "illegal action 'foo[bar]'" in result.output
    assert "no number 99" in result.output
    assert "to search, type" in result.output
    for action in BUY_NOTHING:
        assert f"→ {action}" in result.output
    assert result.output.count("step 1 ─") == 1  # a mistake does not draw the page again


def test_input_that_ends_in_the_middle_is_told(agent):
    result = call("run", agent, "--actor", "human", stdin="search lamp\n")
    assert result.exit_code == 2
    assert "the input ended" in result.stderr.strip().splitlines()[-1]


def test_a_person_with_json_to_stdout(agent):
    words = ["run", agent, "--actor", "human", "--json", "-"]
    result = subprocess.run(
        [sys.executable, "-m", "stategate.ui.cli.main", *words],
        input="search lamp\nq\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert [s["decision"]["action"] for s in json.loads(result.stdout)["steps"]] == ["search[lamp]"]
    assert "step 2" in result.stderr


def test_episodes_print_a_summary_and_keep_a_run_directory(agent, tmp_path):
    words = ["run", agent, "--episodes", 3, "--start", 5, "--out", tmp_path / "run"]
    result = call(*words)
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["rows"][0]["n"] == 3
    args = json.loads((tmp_path / "run" / "args.json").read_text())
    assert args["goals"] == [5, 6, 7]
    assert "0.0 ± 0.0" in result.output
    again = call(*words)
    assert again.exit_code == 0
    assert "other arguments" in refused(*words, "--budget", 77)


def test_one_episode_has_no_standard_error_and_its_json_is_strict(agent):
    result = call("run", agent, "--episodes", 1, "--json", "-")
    row = json.loads(result.stdout, parse_constant=pytest.fail)["rows"][0]
    assert (row["n"], row["success_se"]) == (1, None)


def test_failed_episodes_are_told_and_all_failing_is_an_error(agent, tmp_path):
    words = ["--set", "env.seed=1", "--set", "llm.kind=openai", "--actor", "chat"]
    words += ["--set", "llm.base_url=http://127.0.0.1:9/v1", "--episodes", "1"]
    result = call("run", agent, *words)
    assert result.exit_code == 2, result.output
    assert "wait for the model's server" in result.output


def test_eval_live_compares_agents(agent, tmp_path):
    words = ["--config", agent, "--agents", "full,window", "--goals", "0-1", "--out"]
    result = call("eval", "live", *words, tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "window against full" in result.output


def test_traces_are_listed_shown_and_exported(agent, tmp_path):
    assert "no episodes" in call("traces", "list").output
    call("run", agent, "--goal", 3)
    rows = json.loads(call("traces", "list", "--json", "-").output)
    assert [row["task"]["goal"] for row in rows] == [3]
    episode = rows[0]["episode_id"]
    assert episode in call("traces", "list").output
    assert "search[chair]" in call("traces", "show", episode[:8]).output
    target = tmp_path / "all.jsonl"
    assert "1 episodes" in call("traces", "export", target).output
    row = json.loads(target.read_text())
    acts = [event["text"] for event in row["events"] if event["event_type"] == "ACT"]
    assert (row["episode_id"], acts) == (episode, BUY_NOTHING)
    assert "no episode" in refused("traces", "show", "nosuch")


def test_kinds_lists_every_kind_with_parameters_and_what_is_broken(monkeypatch):
    monkeypatch.setitem(registry().broken, "stranger: odd", "ImportError: no luck")
    result = call("kinds")
    for told in ("window", "budget: int = 2000", "'text' | 'rich'", "actions: list of str"):
        assert told in result.output
    assert "stranger: odd: ImportError: no luck" in result.output
    found = json.loads(call("kinds", "--json", "-").output)
    assert {kind["kind"] for kind in found["slots"]["context"]} >= {"full", "window", "query_rag"}
    assert found["broken"] == {"stranger: odd": "ImportError: no luck"}
    only = json.loads(call("kinds", "actor", "--json", "-").output)
    assert list(only["slots"]) == ["actor"]


def test_the_readme_shows_the_kinds_that_there_are():
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    shown = readme.partition("<!-- kinds -->\n")[2].partition("\n<!-- /kinds -->")[0]
    made = markdown(catalogue(registry(), SLOTS), "stategate")
    assert shown == made, "README is behind: put in what `stategate kinds --markdown` prints"
    assert call("kinds", "env", "--markdown").output.startswith("| slot | kind |")


def test_the_app_without_its_part_is_one_line():
    code = "import sys; sys.modules['gradio'] = None; sys.argv = ['x', 'ui'];"
    code += "import stategate.ui.cli.main"
    words = [sys.executable, "-c", f"{code}; stategate.ui.cli.main.main()"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "stategate: 'gradio' is not installed: pip install 'stategate[ui]'"
    )
    assert done.stderr.count("\n") == 1


def test_doctor_is_well_here_and_says_what_is_wrong(monkeypatch):
    result = call("doctor")
    assert result.exit_code == 0, result.output
    assert "all is well" in result.output
    monkeypatch.setitem(registry().broken, "stranger: odd", "ImportError: no luck")
    sick = call("doctor", "--json", "-")
    assert sick.exit_code == 1
    wrong = [f["text"] for f in json.loads(sick.output)["findings"] if f["ok"] is False]
    assert wrong == ["stranger: odd: ImportError: no luck"]


def test_doctor_names_a_cache_folder_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "file"))
    result = call("doctor", "--json", "-")
    assert result.exit_code == 1
    told = {finding["what"]: finding["text"] for finding in json.loads(result.output)["findings"]}
    assert "set STATEGATE_HOME" in told["cache"]


def test_help_imports_nothing_heavy():
    heavy = ["torch", "langgraph", "langchain_core", "pydantic", "numpy", "spacy", "gradio"]
    code = f"import sys, stategate.ui.cli.main; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_process_refuses_without_a_traceback(agent):
    words = [sys.executable, "-m", "stategate.ui.cli.main", "run", agent, "--goal", "99999"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stategate: no goal 99999")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error():
    words = [sys.executable, "-m", "stategate.ui.cli.main", "kinds", "--json", "-"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait()


def test_control_c_tells_how_to_resume(agent):
    words = [
        sys.executable,
        "-m",
        "stategate.ui.cli.main",
        "run",
        agent,
        "--actor",
        "human",
        "--thread",
        "my t",
    ]
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A shell that runs the tests in the background has them, and what they start, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    process.stdin.write("search desk lamp\n")
    process.stdin.flush()
    while "→" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)  # with stdin open: its end would be an answer of its own
    _, told = process.communicate()
    assert process.returncode == 130
    assert told.strip().endswith("--thread 'my t' --resume")
    assert "Traceback" not in told
    rest = call("run", agent, "--thread", "my t", "--resume", "--json", "-")
    assert json.loads(rest.stdout)["resumed_at"] == 1


def test_the_app_refuses_a_password_that_is_none_and_a_port_that_is_taken(monkeypatch):
    import socket

    from stategate.ui.cli.ui import parse_auth

    assert parse_auth("me:a:b") == ("me", "a:b")
    assert parse_auth(None) is None
    for wrong in ("me", ":x", "me:"):
        assert "user:password" in refused("ui", "--auth", wrong)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused_last(
            "ui", "--port", port, "--set", "embedder.kind=hashing", "--set", "updater.kind=none"
        )
    assert str(port) in line


def refused_last(*words):
    """Return the last line of a refusal (commands that start something say so first)."""
    result = call(*words)
    assert result.exit_code == 2, result.output
    return result.stderr.strip().splitlines()[-1]


def test_an_app_that_others_can_reach_is_warned_of_and_asks_for_the_password(monkeypatch):
    import stategate.ui.app.web
    import stategate.ui.cli.ui

    seen = {}
    monkeypatch.setattr(stategate.ui.cli.ui, "wait", lambda: None)
    monkeypatch.setattr(
        stategate.ui.app.web, "serve", lambda config, **how: seen.update(how) or "http://x/"
    )
    assert "warning" not in call("ui").stderr
    assert seen["host"] == "127.0.0.1"
    result = call("ui", "--host", "0.0.0.0", "--auth", "me:secret", "--port", 8123)
    assert "warning: 0.0.0.0 lets other machines in" in result.stderr
    assert (seen["auth"], seen["port"]) == (("me", "secret"), 8123)
    assert "without a password" in call("ui", "--host", "0.0.0.0").stderr


def test_what_steers_a_terminal_is_not_printed(tmp_path, agent):
    """Names of files, texts of pages and an error's own words: shown, and harmless."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a\x1b[2J\x1b]0;mine\x07.pdf").write_bytes(b"%PDF nothing")
    (folder / "b.md").write_text("Snailfish live deep.")
    done = call("ingest", folder, "--corpus", "notes", "--embedder", "hashing")
    assert done.exit_code == 0, done.output
    shown = [done.output, refused("run", agent, "--set", "actor.x\x1b]0;mine\x07\u202e=1")]
    shown.append(call("run", agent, "--thread", "t\x1b[31m[red]").output)
    shown.append(call("checkpoints", "list").output)
    for text in shown:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), text
    assert "a\ufffd[2J\ufffd]0;mine" in shown[0]
    assert "[red]" in shown[3]


def test_a_fault_s_traceback_tells_no_key(monkeypatch, agent):
    key = "a-key-of-no-known-form-0123"
    monkeypatch.setenv("STRANGERS_API_KEY", key)

    def fail(*_):
        raise ZeroDivisionError(f"401 for {key}")

    monkeypatch.setattr("stategate.graph.session.Session.step", fail)
    done = call("run", agent)
    assert done.exit_code == 1
    assert "ZeroDivisionError: 401 for ***" in done.stderr
    assert key not in done.output
