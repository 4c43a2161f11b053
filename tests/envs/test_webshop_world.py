"""WebShop as pure functions, on the sample catalogue and on small broken ones."""

from dataclasses import replace

import pytest

from stategate.envs.webshop import WebShop, reward
from stategate.envs.webshop.bm25 import Bm25, analyze, lossy_length
from stategate.envs.webshop.catalogue import read_catalogue
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reward import _ratio
from stategate.stores.errors import UserError
from tests.kit import ceiling


@pytest.fixture(scope="module", params=["text", "rich"])
def shop(request):
    return WebShop.load("sample", observation=request.param)


def buy(shop, goal):
    wanted = shop.goals[goal]
    session, seen = shop.reset(goal=goal)
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


@pytest.mark.parametrize(
    "action",
    ["", "buy", "click[]", "search[]", "click[nowhere]", "click[search]", "click[buy now]", "[x]"],
)
def test_what_the_page_does_not_offer_changes_nothing(shop, action):
    session, seen = shop.reset(goal=0)
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
    session, seen = shop.reset(goal=goal["index"])
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


def test_a_session_of_another_world_or_catalogue_is_told_so(shop):
    session, _ = shop.reset(goal=0)
    other = {"page": "item", "keywords": ["a"], "number": 1, "asin": "B000000000"}
    with pytest.raises(UserError, match="of another catalogue"):
        shop.step({**session, **other}, "click[buy now]")
    with pytest.raises(UserError, match="not a WebShop session"):
        shop.step({"room": "kitchen"}, "click[buy now]")


def test_human_goals_come_in_product_order_before_the_shuffle():
    catalogue = read_catalogue("sample")
    reordered = replace(catalogue, human=dict(reversed(catalogue.human.items())))
    assert len(catalogue.human) > 1
    first, second = WebShop(catalogue, goals="human"), WebShop(reordered, goals="human")
    assert first.goals == second.goals
    assert {goal["asin"] for goal in first.goals} == set(catalogue.human)
    with pytest.raises(UserError, match="synthetic, human, both"):
        WebShop(catalogue, goals="neither")
    both, plain = WebShop(catalogue, goals="both"), WebShop(catalogue)
    ours = len(plain.goals)
    assert both.goals[:ours] == plain.goals
    behind = [{**goal, "index": 0} for goal in both.goals[ours:]]
    assert behind == [{**goal, "index": 0} for goal in first.goals]
    assert both.ranges["human"] == list(range(ours, len(both.goals)))
    asin = next(iter(catalogue.human))
    with pytest.raises(UserError, match=f"items_human_ins.json: the instructions of {asin}"):
        WebShop(replace(catalogue, human={asin: [{"instruction": "a lamp"}]}), goals="human")


def test_special_searches(shop):
    product = next(iter(shop.products.values()))
    session, _ = shop.reset(goal=0)
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
        ("color:red size: 28", ["color:r", "size", "28"]),
        ("U.S.A 10.5mm 1,000 a_b", ["u.s.a", "10.5mm", "1,000", "a_b"]),
    ],
)
def test_analysis_is_lucenes(text, terms):
    assert analyze(text) == terms


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
        ("Ω red", "red", 100),  # others are not
        ("navy blue | white", "navy blue", 100),
        ("('color', 'black')", "black", 100),
        ("machine washable", "wash machine", 86),
        ("—", "", 0),
    ],
)
def test_words_are_compared_as_thefuzz_compares_them(first, second, score):
    assert _ratio(first, second) == score


def test_the_sample_is_played_without_the_parser(sample_shop, monkeypatch):
    """The nouns of its titles ship: nobody needs a download for a first episode."""

    def refuse():
        raise AssertionError("the parser was asked for")

    reward.nouns.cache_clear()
    monkeypatch.setattr(reward, "_parser", refuse)
    assert all(ceiling(sample_shop, goal) == 1.0 for goal in range(0, len(sample_shop.goals), 9))
