"""WebShop as pure functions, on the sample catalogue and on small broken ones."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from stategate.envs.protocols import complete
from stategate.envs.webshop import WebShop, reward
from stategate.envs.webshop.bm25 import Bm25, analyze, lossy_length
from stategate.envs.webshop.catalogue import read_catalogue
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reward import _ratio
from stategate.nodes.conformance import check
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from tests.kit import ceiling
from tests.nodes.test_conformance import Bell


@pytest.fixture(scope="module", params=["text", "rich"])
def shop(request):
    return WebShop.load("sample", observation=request.param)


def buy(shop, goal):
    wanted = shop.goals[goal]
    session, seen = shop.reset({"goal": goal})
    name = shop.products[wanted["asin"]].name
    clicks = [wanted["asin"].lower(), *wanted["goal_options"].values(), "buy now"]
    for action in [f"search[{name}]", *(f"click[{target}]" for target in clicks)]:
        assert action in seen.actions or action.startswith("search[")
        session, seen = shop.step(session, action)
    return session, seen


def test_buying_what_was_asked_for_earns_the_ceiling(shop):
    for goal in range(0, len(shop.goals), max(len(shop.goals) // 25, 1)):
        _, seen = buy(shop, goal)
        assert seen.done
        assert seen.reward == ceiling(shop, goal)
        assert 0 < seen.info["reward"]["r_type"] <= 1


@pytest.mark.parametrize("observation", ["text", "rich"])
def test_it_keeps_the_rules_of_the_kit(observation):
    check(registry().parse("env", {"kind": "webshop", "observation": observation}))


def test_step_is_pure_under_threads(shop):
    session, _ = shop.reset({"goal": 1})
    session, seen = shop.step(session, "search[lamp]")
    action = seen.actions[-1]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: shop.step(session, action), range(80)))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    "action",
    ["", "buy", "click[]", "search[]", "click[nowhere]", "click[search]", "click[buy now]", "[x]"],
)
def test_what_the_page_does_not_offer_changes_nothing(shop, action):
    session, seen = shop.reset({"goal": 0})
    assert shop.step(session, action) == (session, seen)


def test_after_the_purchase_nothing_changes(shop):
    session, seen = buy(shop, 0)
    assert not seen.actions
    again, after = shop.step(session, "search[lamp]")
    assert (again, after.reward, after.done) == (session, 0.0, True)
    assert shop.observe(session).reward == seen.reward


def test_pages_turn_and_options_are_replaced_and_cleared():
    shop = WebShop.load("sample", observation="rich")
    goal = next(g for g in shop.goals if len(g["goal_options"]) >= 2)
    product = shop.products[goal["asin"]]
    session, seen = shop.reset({"goal": goal["index"]})
    session, seen = shop.step(session, f"search[{product.name}]")
    session, seen = shop.step(session, "click[next >]")
    assert "Page 2" in seen.text
    session, seen = shop.step(session, "click[< prev]")
    assert "Page 1" in seen.text
    session, seen = shop.step(session, f"click[{product.asin.lower()}]")
    name, values = next((n, v) for n, v in product.options.items() if len(v) > 1)
    for value in values[:2]:
        session, seen = shop.step(session, f"click[{value}]")
        assert dict(session["options"]) == {name: value}
        assert seen.text.startswith(f"You have clicked {value}.")
    session, seen = shop.step(session, "click[description]")
    session, seen = shop.step(session, "click[< prev]")
    assert dict(session["options"]) == {name: values[1]}
    session, seen = shop.step(session, "click[< prev]")
    assert not session["options"]
    assert f"[clicked button] {product.asin} [clicked button_]" in seen.text
    session, seen = shop.step(session, "click[back to search]")
    assert seen.actions == (SEARCH,)
    assert not session["visited"]


def test_a_free_instruction_has_no_goal(shop):
    session, seen = shop.reset({"instruction": "a desk lamp that folds"})
    assert "a desk lamp that folds" in seen.text
    session, seen = shop.step(session, "search[desk lamp]")
    session, seen = shop.step(session, next(a for a in seen.actions if a.startswith("click[b0")))
    session, seen = shop.step(session, "click[buy now]")
    assert (seen.done, seen.reward, seen.info["reward"]) == (True, 0.0, None)


@pytest.mark.parametrize(
    "task",
    [{"goal": -1}, {"goal": 10**6}, {"goal": "1"}, {"goal": True}, {}, 5, {"instruction": " "}],
)
def test_wrong_tasks_are_one_clear_line(shop, task):
    with pytest.raises(UserError) as error:
        shop.reset(task)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("action", [None, 5, ["search[lamp]"]])
def test_an_action_that_is_no_text_is_told_so(shop, action):
    session, _ = shop.reset({"goal": 0})
    with pytest.raises(UserError, match="an action is text"):
        shop.step(session, action)


@pytest.mark.parametrize(
    "change",
    [
        {"page": "nowhere"},
        {"page": "results"},
        {"keywords": 5},
        {"page": "item", "keywords": ["a"], "number": 1, "asin": "B000000000"},
        {"more": 1},
        None,
    ],
)
def test_what_is_no_session_of_this_world_is_told_so(shop, change):
    session, _ = shop.reset({"goal": 0})
    with pytest.raises(UserError) as error:
        shop.step(None if change is None else {**session, **change}, "click[buy now]")
    assert "\n" not in str(error.value)


def test_human_goals_come_in_product_order_before_the_shuffle():
    catalogue = read_catalogue("sample")
    reordered = replace(catalogue, human=dict(reversed(catalogue.human.items())))
    assert len(catalogue.human) > 1
    first, second = WebShop(catalogue, goals="human"), WebShop(reordered, goals="human")
    assert first.goals == second.goals
    assert {goal["asin"] for goal in first.goals} == set(catalogue.human)
    with pytest.raises(UserError, match="synthetic or human"):
        WebShop(catalogue, goals="neither")
    asin = next(iter(catalogue.human))
    with pytest.raises(UserError, match=f"items_human_ins.json: the instructions of {asin}"):
        WebShop(replace(catalogue, human={asin: [{"instruction": "a lamp"}]}), goals="human")


def test_special_searches(shop):
    product = next(iter(shop.products.values()))
    session, _ = shop.reset({"goal": 0})
    for words in (f"<c> {product.category}", f"<q> {product.query}", "<r>", "<r> again"):
        _, seen = shop.step(session, f"search[{words}]")
        assert len(seen.actions) > 2
    _, seen = shop.step(session, "search[zzzzqqq]")
    assert "Total results: 0" in seen.text


def test_missing_data_are_named(tmp_path):
    with pytest.raises(UserError, match="'official'"):
        WebShop.load(tmp_path / "nothing")
    with pytest.raises(UserError, match="items_shuffle_1000.json"):
        WebShop.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Women's running SHOES", ["women", "run", "shoe"]),
        ("caresses agreed conflated hopping filing", ["caress", "agre", "conflat", "hop", "file"]),
        ("happy possibly analogically adoption", ["happi", "possibl", "analog", "adopt"]),
        ("color:red size: 28", ["color:r", "size", "28"]),
        ("U.S.A 10.5mm 1,000 a_b", ["u.s.a", "10.5mm", "1,000", "a_b"]),
        ("us assembly \u2605 \u2764\ufe0f \u98df\u54c1", None),
    ],
)
def test_analysis_is_lucenes(text, terms):
    found = analyze(text)
    if terms is None:
        assert found[:2] == ["us", "assembl"]
        assert len(found) == 6
    else:
        assert found == terms


def test_bm25_ties_keep_document_order_and_lengths_are_lossy():
    engine = Bm25(["red lamp", "blue lamp", "red lamp"])
    assert [i for i, _ in engine.search("red lamp")] == [0, 2, 1]
    assert engine.search("nothing") == []
    assert engine.search("lamp", k=1)[0][0] == 0
    assert [lossy_length(n) for n in (0, 23, 39, 40, 41, 100, 1000)] == [0, 23, 39, 40, 40, 96, 984]


@pytest.mark.parametrize(
    ("first", "second", "score"),
    [
        ("light weight", "lightweight", 96),
        ("café au lait", "caf au lait", 100),  # Latin-1's letters are left out,
        ("naïve", "nave", 100),
        ("Ω red", "red", 100),  # others are not
        ("size: 8 m us", "8 m us", 100),
        ("navy blue | white", "navy blue", 100),
        ("('color', 'black')", "black", 100),
        ("XX-Large", "x-large", 93),
        ("machine washable", "wash machine", 86),
        ("3.5 ounce (pack of 1)", "3.5 ounce (pack of 2)", 95),
        ("", "", 0),
        ("—", "", 0),
    ],
)
def test_words_are_compared_as_thefuzz_compares_them(first, second, score):
    assert _ratio(first, second) == score


def test_search_finds_most_goal_products_but_not_all_of_them(sample_shop):
    goals = sample_shop.goals[::3]
    top10 = [g["asin"] in sample_shop.search(g["instruction_text"], 10) for g in goals]
    first = [g["asin"] in sample_shop.search(g["instruction_text"], 1) for g in goals]
    assert 0.9 < sum(top10) / len(goals) < 1
    assert 0.5 < sum(first) / len(goals) < 0.85


def test_the_sample_is_played_without_the_parser(sample_shop, monkeypatch):
    """The nouns of its titles ship: nobody needs a download for a first episode."""

    def refuse():
        raise AssertionError("the parser was asked for")

    reward.nouns.cache_clear()
    monkeypatch.setattr(reward, "_parser", refuse)
    assert all(ceiling(sample_shop, goal) == 1.0 for goal in range(0, len(sample_shop.goals), 9))


def test_the_shipped_nouns_are_the_parsers():
    parser = reward._parser()
    for title, nouns in list(reward._sample_nouns().items())[::20]:
        assert nouns == [t.text.lower() for t in parser(title) if t.pos_ in ("NOUN", "PROPN")]


def test_a_world_that_inherits_nothing_gets_the_defaults():
    world = complete(Bell())
    assert (list(world.tasks()), world.group_of(0), world.fingerprint) == ([{}], None, "")
    assert world.step(*world.reset({})[:1], "wait")[1].text == "It rang 1 times."
    with pytest.raises(UserError, match="lacks reset, step, observe, instruction"):
        complete(object())
