"""Five epochs of a small model, its checkpoint, and the plot."""

import hashlib
import json
import tempfile
import threading
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm

from stategate.stores.assets.weights import load_arrays, save_weights
from stategate.trainers.settings import Settings
from stategate.trainers.trainer import Trainer

EPOCHS = 5


def _run(folder, told):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = nn.Linear(4, 1)
    settings = Settings(run=str(folder / "run"), checkpoint=str(folder / "model"), epochs=EPOCHS)
    (folder / "run").mkdir(exist_ok=True)
    x = torch.arange(32.0).reshape(8, 4) / 32
    y = x.sum(1, keepdim=True)

    def data(generator):
        told(["began", generator.initial_seed()])
        for _ in range(3):
            yield torch.randperm(8, generator=generator)[:4]

    def loss(rows):
        return ((model(x[rows]) - y[rows]) ** 2).mean()

    def metric():
        with torch.no_grad():
            return {"gain": -float(((model(x) - y) ** 2).mean())}

    Trainer(data, model, loss, metric).fit(settings)
    save_weights(settings.checkpoint, model.state_dict(), {"kind": "t", "architecture": {}}, False)
    told(["saved", 0])


def prepare():
    # The default lock is shared among forks: whoever is killed while it holds it would stop all later.
    tqdm.set_lock(threading.RLock())
    with tempfile.TemporaryDirectory() as place:
        _run(Path(place), lambda _: None)


def work(folder, acknowledge):
    _run(folder, acknowledge)


def check(folder, acknowledged):
    history = folder / "run" / "history.json"
    epochs = [row["epoch"] for row in json.loads(history.read_text())] if history.exists() else []
    assert epochs == sorted(set(epochs)), f"an epoch is there twice: {epochs}"
    if not any(what == "saved" for what, _ in acknowledged):
        return None
    arrays, _ = load_arrays(str(folder / "model"), "t")
    weights = hashlib.sha256(b"".join(one.tobytes() for one in arrays.values())).hexdigest()
    assert epochs == list(range(EPOCHS + 1))
    rows = json.loads(history.read_text())
    return [weights, [round(row["gain"], 9) for row in rows]]
