"""Wordings: many families, apart by split; what the goal asks stays in its text."""

from pathlib import Path

import pytest
import yaml

from stategate.envs.webshop import WebShop, wordings
from stategate.envs.webshop.wordings import SPLITS, families, names_of, reword
from stategate.language.instruction.choices import locate
from stategate.language.instruction.parsed import parse
from stategate.stores.errors import UserError

CHANGED = [
    name for name, family in families().items() if family.get("change") not in (None, "lower")
]


def every_pattern(split):
    return [(name, i) for name in names_of(split) for i in range(len(families()[name]["patterns"]))]


def test_families_are_many_and_apart():
    assert len(families()) >= 12
    assert len(families()) == sum(len(names_of(split)) for split in SPLITS)
    files = Path(wordings.__file__).with_name("families").glob("*.yaml")
    named = [name for file in files for name in yaml.safe_load(file.read_text("utf-8"))]
    assert sorted(named) == sorted(families())  # no name stands in two splits
    assert all(len(set(family["patterns"])) >= 20 for family in families().values())
    assert len(names_of("held-out")) >= 4
    patterns = [p for family in families().values() for p in family["patterns"]]
    assert len(set(patterns)) == len(patterns)
    assert len(every_pattern("held-out")) >= 80
    with pytest.raises(UserError, match="no wording 'klingon'"):
        names_of("klingon")


@pytest.mark.parametrize("split", SPLITS)
def test_every_value_stays_and_the_limit_is_read(sample_shop, split):
    missed, read = [], 0
    goals = [goal for goal in sample_shop.goals[:40] if goal["goal_options"]]
    for number, (family, pattern) in enumerate(every_pattern(split)):
        goal = goals[number % len(goals)]
        product = sample_shop.products[goal["asin"]]
        said = reword(goal, product, family, "7", pattern)
        assert said == reword(goal, product, family, "7", pattern)
        parsed = parse(said["instruction_text"])
        # What is held out is played, not tuned on: its read need not all be read.
        if goal["price_upper"] < 1e6 and family not in CHANGED and split in ("train", "develop"):
            read += 1
            missed += [said["instruction_text"]] * (parsed.limit is None)
        if family in CHANGED:
            continue
        for name, value in said["goal_options"].items():
            excluded = said["excluded"].get(name)
            found = locate(parsed, str(value), name).is_whole
            read += 1
            missed += [said["instruction_text"]] * (not found and not excluded)
    assert len(missed) <= read // 25, missed


def test_ranges_share_no_product(sample_shop):
    parts = {
        name: {sample_shop.goals[i]["asin"] for i in goals}
        for name, goals in sample_shop.ranges.items()
    }
    assert not parts["training"] & parts["test"]
    assert not parts["clean"] & (parts["test"] | parts["training"])


def test_a_wording_is_a_parameter_of_the_world(sample_shop):
    said = WebShop.load("sample", wording="question")
    assert [g["asin"] for g in said.goals] == [g["asin"] for g in sample_shop.goals]
    assert said.goals[3]["instruction_text"] != sample_shop.goals[3]["instruction_text"]
    assert said.group_of(3) == sample_shop.goals[3]["asin"]
