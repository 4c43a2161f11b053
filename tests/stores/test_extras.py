"""The core stands alone: what an extra brings is asked for in one line, and only where it is used."""

import subprocess
import sys

import pytest

from stategate.stores.errors import missing_extra

REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

EXTRAS = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Refuse())
"""
EXTRAS = (
    "torch,sentence_transformers,transformers,xllamacpp,accelerate,gguf,"
    "jinja2,chromadb,bm25s,bs4,pypdf,gradio,markupsafe,"
    "matplotlib,starlette,tabulate,sklearn,ir_measures,pytrec_eval,psycopg,ray,pandas"
)


def core(code, *words, **environment):
    """Run ``code`` where no extra's package can be imported; return what it wrote."""
    command = [sys.executable, "-c", REFUSE + code, EXTRAS, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    return done.returncode, done.stdout + done.stderr


USES = {
    "from stategate.stores.corpus.reader import shared; shared.read(b'<p>x', '.html')": "qa",
    "from stategate.stores.corpus.reader import shared; shared.read(b'', '.pdf')": "qa",
    "from stategate.stores.corpus.lexical import Lexical; Lexical(['x'])": "qa",
    "from stategate.stores.corpus.vectors import Vectors; Vectors('v', 'n')": "qa",
    "stategate.stores.assets.weights.load_trained('state-gru', 'state', dict)": "local",
    "stategate.stores.assets.weights.save_weights('x', {}, {})": "local",
}


def test_stores_import_without_any_extra_and_a_missing_one_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    modules = "tokens files sql embeddings home text assets.fetch assets.weights trace_store"
    modules += " bank corpus.corpus corpus.documents errors"
    lines = [f"import stategate.stores.{name}" for name in modules.split()]
    for use in USES:
        lines += ["try:", f"    {use}", "except ModuleNotFoundError as error:"]
        lines += ["    print(stategate.stores.errors.missing_extra(error))"]
    code, told = core("\n".join(lines))
    assert code == 0, told
    for line, extra in zip(told.splitlines(), USES.values(), strict=True):
        assert f"is not installed: pip install 'stategate[{extra}]'" in line


def test_an_episode_of_webshop_needs_no_extra(tmp_path):
    play = f"""
from stategate.graph import build_graph, load_config
overrides = ["actor.kind=rule"]
overrides += ["memory=[{{kind: short_term}}, {{kind: trace, path: {tmp_path}/t.sqlite}}]"]
graph = build_graph(load_config("configs/webshop.yaml", overrides=overrides))
task = {{"task": {{"env": "webshop", "goal": 3}}}}
out = graph.invoke(task, {{"configurable": {{"thread_id": "t"}}}})
loaded = EXTRAS & {{name.partition(".")[0] for name in sys.modules}}
print("reward", out["reward"], out["done"], sorted(loaded))
"""
    code, told = core(play)
    assert code == 0, told
    assert "reward 1.0 True []" in told
    assert (
        "no recurrent state: " in told
    )  # the preset's updater is an extra's, and nothing reads it


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("run webshop --set actor.kind=rule --set context.kind=retrieve", "local"),
        ("eval worlds --agents full --goals 0-1 --set actor.kind=rule --out run", "eval"),
    ],
)
def test_a_command_without_its_extra_says_so_in_one_line(words, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    play = (
        "import sys\nsys.argv[1:] = sys.argv[2:]\nfrom stategate.ui.cli.main import main\nmain()\n"
    )
    code, told = core(play, *words.split())
    assert code == 2, told
    assert "Traceback" not in told
    assert f"is not installed: pip install 'stategate[{extra}]'" in told.splitlines()[-1]


def test_what_no_extra_brings_stays_a_fault():
    assert missing_extra(ModuleNotFoundError("gone", name="nowhere")) is None
    assert missing_extra(ImportError("gone", name="torch")) is None
