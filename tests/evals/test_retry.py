"""Reflect and retry: what a failed trial tells the next; and the picture of an episode."""

from envs.alfworld.view import AlfWorldView
from envs.protocols import Observation
from evals.worlds.picture import draw_episode
from evals.worlds.retry import reflect, run_retry
from stores.traces import Event

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


def test_a_told_trial_finds_what_an_untold_one_does_not(tmp_path):
    agents = {"blind": ["context.kind=window", "context.events=2", MEMORY, "max_steps=30"]}
    summary = run_retry("alfworld", agents, "0-5", str(tmp_path / "run"), trials=3)
    rows = {row["agent"]: row for row in summary["rows"]}
    told, untold = rows["blind"], rows["blind, no notes"]
    assert told["success@1"] == untold["success@1"] == untold["success@3"] < 1
    assert told["success@3"] > untold["success@3"]


def test_a_picture_shows_what_each_builder_kept_of_what_was_needed(tmp_path):
    agents = {"full": ["context.kind=full"], "window0": ["context.kind=window", "context.events=0"]}
    told = draw_episode("alfworld", agents, 8, str(tmp_path / "e.png"), [MEMORY])
    full, blind = told["rows"]
    assert (tmp_path / "e.png").stat().st_size > 5000
    assert full["needed_shown"] == full["needed"]
    assert blind["needed_shown"] == 0
    assert blind["tokens_per_step"] < full["tokens_per_step"]
