"""Traps of the forms and lists of the app, one by one."""

from typing import get_args

from stategate.evals.core.run_directory import Outcome
from stategate.graph.config import load_config
from stategate.ui.app.tabs import runs
from stategate.ui.app.tabs.episode import quick
from stategate.ui.app.tabs.settings import swapped


def test_a_list_that_was_left_without_a_choice_changes_nothing():
    draft = load_config("smoke").model_dump(mode="json")
    assert swapped(draft, "memory", len(draft["memory"]), None) == draft
    assert swapped(draft, "context", -1, None) == draft


def test_the_runs_tab_filters_by_outcomes_that_there_are():
    assert tuple(runs._OUTCOMES) == get_args(Outcome)


def test_actors_that_answer_questions_are_not_offered_to_a_world_without_any():
    kinds = quick("actor", load_config("webshop"))["choices"]
    assert not {"answer", "extract", "learned_state"} & set(kinds)
