"""What later turns need: values and where they stand, labels, training, the same scores in NumPy."""

import json
from pathlib import Path

import numpy as np
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from stategate.envs.messages.history import bounded, text_of
from stategate.envs.messages.needs import needed_parts, needs_of
from stategate.graph.exported import Thread
from stategate.nodes.build_context.messages.features import parts_of
from stategate.nodes.build_context.messages.need import NeedScorer, load_scorer
from stategate.stores.errors import UserError

THREAD = [
    HumanMessage("Cancel the order of Ada."),
    AIMessage("", tool_calls=[{"name": "find", "args": {"owner": "Ada"}, "id": "a"}]),
    ToolMessage(json.dumps({"order_id": "X-12", "total": 9.5}), tool_call_id="a", name="find"),
    AIMessage("", tool_calls=[{"name": "cancel", "args": {"order_id": "X-12"}, "id": "b"}]),
    ToolMessage("cancelled, receipt R77", tool_call_id="b", name="cancel"),
    AIMessage("Cancelled. Your receipt is R77."),
]


def test_needs_are_found_with_where_they_stand() -> None:
    assert [(n.value, n.tool_only) for n in needs_of(THREAD[1], THREAD[:1])] == [("Ada", False)]
    assert [(n.value, n.tool_only) for n in needs_of(THREAD[3], THREAD[:3])] == [("X-12", True)]
    assert [(turn, value) for turn, value, _ in needed_parts(THREAD)] == [(3, "X-12"), (5, "R77")]


def test_the_scorer_that_ships_reads_a_thread_and_gives_chances() -> None:
    scorer = load_scorer("need")
    assert bounded('{"id": 7, "to": "Ann Lee"}') == "id: 7\nto: Ann Lee"
    rows = [(parts_of(bounded(text_of(THREAD[2]))), "find", 0)]
    (chances,) = scorer.scores(*scorer.read(THREAD[:3]), rows)
    assert ((chances > 0) & (chances < 1)).all()


def test_training_gives_the_scores_that_numpy_reads(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from stategate.trainers.need import fit, labelled, scored
    from stategate.trainers.settings import NeedSettings

    thread = labelled("made-up", Thread("t", "orders", THREAD))
    assert thread is not None
    settings = NeedSettings(run=str(tmp_path), checkpoint=str(tmp_path / "need"), epochs=2)
    network = fit([thread], settings)
    arrays = {name: w.detach().numpy() for name, w in network.arrays((1.0, 0.0)).items()}
    scorer = NeedScorer(arrays)
    rows = [(parts_of(bounded(text_of(THREAD[2]))), "find", 0)]
    (ours,) = scorer.scores(*scorer.read(THREAD[:3]), rows)
    theirs = 1 / (1 + np.exp(-scored(network, [thread])[thread.decision == 3, 0]))
    np.testing.assert_allclose(sorted(ours), sorted(theirs), rtol=1e-4)
    assert thread.label[thread.decision == 3].max() == 1.0


def test_threads_that_teach_nothing_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from stategate.trainers.need import train
    from stategate.trainers.settings import NeedSettings

    path = tmp_path / "talk.json"
    path.write_text('[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]')
    run, checkpoint = str(tmp_path / "run"), str(tmp_path / "need")
    with pytest.raises(UserError, match="teaches nothing"):
        train(NeedSettings(run=run, checkpoint=checkpoint, threads=[str(path)]))
