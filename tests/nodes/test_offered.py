"""What the general encoder reads of entries, choices and what is shown by itself."""

import random

import pytest

from stategate.envs.webshop import WebShop
from stategate.nodes.act import offered
from stategate.nodes.act.general import GENERAL, PAGE_FEATURES, ROW_FEATURES
from stategate.nodes.act.policy import load_scorer
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.trainers.episodes import Readers, make_resources


@pytest.fixture(scope="module")
def pages():
    """Return what is read at each step of an episode: [(row by action, page)], and the actions."""
    world = WebShop.load("sample", observation="rich")
    readers = Readers({"full": 1}, make_resources("hashing", "none", WebShopEnv()), 2000, 2000)
    goal = next(i for i, g in enumerate(world.goals) if len(g["goal_options"]) > 1)
    session, page = world.reset({"goal": goal})
    walk = readers.start(readers.draw(random.Random(0)), world.instruction(session))
    seen, taken = [], []

    def look():
        encoded = GENERAL.encode(walk.look(page), walk.step, readers.resources.profile)
        rows = {
            action: dict(zip(ROW_FEATURES, row.tolist(), strict=True))
            for action, row in zip(encoded.actions, encoded.rows, strict=True)
        }
        seen.append((rows, dict(zip(PAGE_FEATURES, encoded.page.tolist(), strict=True))))
        return rows

    for wanted in ("written 0", "is entry", "is value", "< prev", "end"):
        rows = look()
        if wanted == "end":
            break
        name = f"offered: {wanted}"
        action = (
            "click[< prev]" if wanted == "< prev" else next(a for a, r in rows.items() if r[name])
        )
        taken.append(action)
        session, after = world.step(session, action)
        walk.took(page, action, after)
        page = after
    return seen, taken


def test_texts_to_write_are_made_of_what_is_asked(pages):
    (rows, _), *_ = pages[0]
    texts = [a for a, row in rows.items() if row["takes text"]]
    assert len(texts) > 1
    assert all(sum(rows[a][f"offered: written {i}"] for i in range(5)) == 1 for a in texts)


def test_entries_are_ranked_and_known_again_when_they_were_opened(pages):
    seen, taken = pages
    first, back = seen[1][0], seen[4][0]
    entries = {a: row for a, row in first.items() if row["offered: is entry"]}
    assert len(entries) > 1
    assert sum(row["offered: rank"] == 0 for row in entries.values()) == 1
    assert not any(row["offered: tried"] for row in entries.values())
    opened = back[taken[1]]
    assert (
        opened["offered: tried"],
        opened["offered: last opened"],
        opened["offered: is met"],
    ) == (1, 1, 1)
    assert sum(row["offered: tried"] for row in back.values()) == 1


def test_a_value_that_was_taken_is_chosen_and_waits_no_more(pages):
    seen, taken = pages
    (before, page), (after, then) = seen[2], seen[3]
    assert before[taken[2]]["offered: chosen now"] == 0
    assert after[taken[2]]["offered: chosen now"] == 1
    assert page["offered: has subject"] == then["offered: has subject"] == 1
    assert then["offered: since opening"] > page["offered: since opening"]
    assert (page["offered: something chosen"], then["offered: something chosen"]) == (0, 1)


def test_a_world_that_recalls_has_none_of_it_and_its_policy_loads_as_it_was():
    scorer, meta = load_scorer("policy-alfworld")
    assert meta["architecture"]["d_row"] == len(ROW_FEATURES)
    later = [i for i, name in enumerate(ROW_FEATURES) if name.startswith("offered: ")]
    assert len(later) == len(offered.ROW)
    if "offered: rank" not in meta["features"]["row"]:  # made before they were
        assert not scorer.row.weight[:, later].any()
