"""Reflect and retry: what a failed trial tells the next; and the picture of an episode."""

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.view import AlfWorldView
from stategate.envs.protocols import Observation
from stategate.evals.worlds.picture import draw_episode
from stategate.evals.worlds.retry import reflect, run_retry
from stategate.nodes.act.seeker import seek
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.build_context.notes import VAIN, ExperienceNotes
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.protocols import ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.stores.traces import Event

MEMORY = "memory=[{kind: short_term, budget: 4000, page_tokens: 250}]"


def test_a_reflection_says_what_was_seen_and_where_nothing_was():
    events = [
        Event("OBS", "You are in the middle of a room.", 0),
        Event("ACT", "go to shelf 1", 0),
        Event("OBS", "You arrive at shelf 1. On the shelf 1, you see a cup 2, and a pen 1.", 1),
        Event("ACT", "go to bed 1", 1),
    ]
    page = Observation("You arrive at bed 1. On the bed 1, you see a pillow 1.", ("go to shelf 1",))
    told = reflect(AlfWorldView(), "put a cup in desk.", events, page, 50)
    assert "cup at shelf (1)" in told
    assert "In vain: bed 1." in told
    assert "pen" not in told


def test_every_trial_is_counted_and_notes_are_only_for_those_who_are_told(tmp_path):
    agents = {"blind": ["context.kind=window", "context.events=0", MEMORY, "max_steps=4"]}
    summary = run_retry("alfworld", agents, "0,1", str(tmp_path / "run"), trials=2)
    rows = {row["agent"]: row for row in summary["rows"]}
    told, untold = rows["blind"], rows["blind, no notes"]
    assert told["success@1"] == untold["success@1"] == 0
    assert told["trials"] == untold["trials"] == 2
    assert told["steps"] == untold["steps"] == 8
    assert told["tokens"] > untold["tokens"]


def test_where_one_looked_in_vain_one_does_not_look_first_again():
    view, resources = AlfWorldView(), Resources(None, Hashing())
    session, page = AlfWorld.load("sample").reset({"game": 8})
    asked = AlfWorld.load("sample").instruction(session)
    source = PageSource(view, page, lambda: resources.embedder)
    request = ContextRequest(asked, page, source, (), 2000, None, view)
    first = seek(resources.get(Full())(request), 0).action
    place = first.removeprefix("go to ")
    assert place != first
    noted = ExperienceNotes(inner=Full(), notes=(f"A trial failed. {VAIN}{place}.",))
    assert seek(resources.get(noted)(request), 0).action != first
    assert seek(resources.get(ExperienceNotes(inner=Full()))(request), 0).action == first


def test_a_picture_shows_what_each_builder_kept_of_what_was_needed(tmp_path):
    agents = {"full": ["context.kind=full"], "window0": ["context.kind=window", "context.events=0"]}
    told = draw_episode("alfworld", agents, 8, str(tmp_path / "e.png"), [MEMORY])
    full, blind = told["rows"]
    assert (tmp_path / "e.png").stat().st_size > 5000
    assert full["needed_shown"] == full["needed"]
    assert blind["needed_shown"] == 0
    assert blind["tokens_per_step"] < full["tokens_per_step"]
