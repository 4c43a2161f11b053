"""Input made to stall, fill or crash what reads it: replies, actions, YAML, imports, downloads."""

import hashlib
import itertools
import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stategate.envs.messages.reading import readable, spans
from stategate.envs.qa.questions import load_dialogues, load_questions
from stategate.envs.webshop import WebShop
from stategate.evals.core.reports import read_run
from stategate.evals.memory.published import read_conversations
from stategate.evals.qa import load_set
from stategate.graph import load_config
from stategate.graph.exported import read_messages
from stategate.nodes.act.replies import parse
from stategate.nodes.models.calls import json_in
from stategate.stores.assets.downloads import SourceError, byte_progress, download
from stategate.stores.assets.weights import load_arrays
from stategate.stores.errors import UserError
from stategate.stores.files import read_yaml
from stategate.stores.runs import read_rows
from stategate.stores.traces import read_trajectories
from stategate.trainers.settings import StateSettings, read_settings
from tests.kit import serving

LEGAL = ("search[<words>]", "click[a]", "click[b]")
REPLIES = {
    "actions": "click[" * 13_000,
    "objects": '{"a":' * 50_000,
    "lists": "[" * 200_000,
    "fence": "```" + " " * 100_000,
    "spaces": "click" + " " * 100_000 + "[",
    "late": '{"a": [' + "{}," * 20_000,
}
PAGES = {
    "comments": "<!--" * 30_000,
    "scripts": "<script>" * 20_000,
    "half": "<script " * 30_000,
    "links": "<a href=x>" * 20_000,
    "open": "<a " * 60_000,
    "page": "<html>" + "<!--" * 30_000,
}
ACTIONS = ["click[" * 13_000, "search[" * 13_000, "search[" + "]" * 50_000, "click" + "[" * 50_000]


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_of_open_brackets_is_read_at_once(name):
    started = time.process_time()
    assert parse(REPLIES[name], LEGAL) is None
    assert json_in(REPLIES[name]) == {}
    assert time.process_time() - started < 2


@pytest.mark.parametrize("name", PAGES)
def test_a_tool_s_page_of_open_tags_is_read_at_once(name):
    started = time.process_time()
    readable(PAGES[name])
    assert "".join(s.text for s in spans(PAGES[name])) == PAGES[name]
    assert time.process_time() - started < 2


def test_a_page_is_read_as_a_person_sees_it():
    page = (
        "<html><head><title>T</title></head><!-- no <b> --><p>One &lt;two&gt; <a class=c href='x.html'>"
        "<b>three</b></a>.<SCRIPT>var a = '<p>';</SCRIPT ><a name=n>four</a> 3 < 4<style>p {}</style>"
    )
    assert readable(page) == "One <two> three (x.html). four 3 < 4"


@pytest.mark.parametrize("observation", ["text", "rich"])
@pytest.mark.parametrize("action", [*ACTIONS, "search[<r> \ud800]", "search[\ud800]", "search[\0]"])
def test_a_world_takes_any_action(observation, action):
    shop = WebShop.load("sample", observation)
    session, _ = shop.reset({"goal": 3})
    started = time.process_time()
    after, page = shop.step(session, action)
    assert shop.observe(json.loads(json.dumps(after))) == page
    assert time.process_time() - started < 2


BOMB = [f"&{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in itertools.pairwise("abcdefgh")]
YAML = {
    "aliases": f"[{', '.join(['&a [x]', *BOMB])}]",
    "cycle": "&a [*a]",
    "lists": "[" * 20_000,
    "mappings": "{a: " * 3_000 + "}" * 3_000,
    "block": "\n".join(" " * n + "a:" for n in range(300)),
    "date": "2024-13-45",
    "digits": "9" * 5_000,
    "repeated": "{a: 1, a: 2}",
}


@pytest.mark.parametrize("name", YAML)
def test_no_yaml_of_a_person_s_stalls_or_crashes(tmp_path, name):
    from yaml import YAMLError

    started = time.process_time()
    with pytest.raises(YAMLError):
        read_yaml(YAML[name])
    (tmp_path / "x.yaml").write_text(f"run: {YAML[name]}" if name != "block" else YAML[name])
    with pytest.raises(UserError, match=r"x\.yaml"):
        load_config(str(tmp_path / "x.yaml"))
    with pytest.raises(UserError, match=r"x\.yaml"):
        read_settings(StateSettings, tmp_path / "x.yaml")
    with pytest.raises(UserError):
        load_config("webshop", [f"context.budget={YAML[name]}"])
    assert time.process_time() - started < 5


def test_a_deep_line_is_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(UserError, match="line 1"):
        read_rows(tmp_path / "rows.jsonl")


@pytest.mark.parametrize("depth", [700, 100_000])
@pytest.mark.parametrize(
    "reads",
    [
        read_trajectories,
        read_messages,
        load_dialogues,
        load_questions,
        load_set,
        read_conversations,
        lambda path: read_run(Path(path).parent),
    ],
)
def test_deep_json_is_told_in_one_line_whoever_reads_it(tmp_path, reads, depth):
    for name in ("deep.json", "args.json"):
        (tmp_path / name).write_text('{"messages": [' * depth + "]}" * depth)
    refused = pytest.raises(UserError, match=r"\A.+\Z")
    with refused if depth > 700 else suppress(UserError):
        reads(str(tmp_path / "deep.json"))


@pytest.mark.parametrize("path", ["endless", "large"])
def test_a_download_ends_where_the_file_should(tmp_path, path):
    """The server sends a file without an end, or of a size that it names."""
    sent = []

    def pour(handler):
        handler.send_response(200)
        if path == "large":
            handler.send_header("Content-Length", str(21 * 10**9))
        handler.end_headers()
        with suppress(OSError):
            while len(sent) < 200:
                handler.wfile.write(b"x" * (1 << 20))
                sent.append(1)

    refused = pytest.raises(SourceError, match="3 MB")
    with serving(pour) as url, byte_progress(3_000_000, "x") as bar, refused:
        download(f"{url}/{path}", tmp_path / "x", bar)
    assert not (tmp_path / "x").exists()
    assert len(sent) < 100


@pytest.mark.parametrize(
    "head",
    [
        (2 << 30).to_bytes(8, "little") + b"{",
        b"\xff" * 8 + b"{}",
        b"\1",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
        (71).to_bytes(8, "little")
        + b'{"x":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}',
    ],
)
def test_weights_with_a_false_head_are_told_in_one_line(tmp_path, head):
    """Their hash is right: whoever made them made the JSON, too."""
    meta = {"kind": "x", "architecture": {}, "sha256": hashlib.sha256(head).hexdigest()}
    (tmp_path / "w.json").write_text(json.dumps(meta))
    (tmp_path / "w.safetensors").write_bytes(head)
    with pytest.raises(UserError, match="holds no tensors"):
        load_arrays(str(tmp_path / "w"), "x")
