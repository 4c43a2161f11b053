"""The sample catalogue: goals worth a search, and nouns that ship."""

from stategate.envs.webshop import reward


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
    assert all(sample_shop.oracle(goal) == 1.0 for goal in range(0, len(sample_shop.goals), 9))


def test_the_shipped_nouns_are_the_parsers(home):
    parser = reward._parser()
    for title, nouns in list(reward._known(home / "none").items())[::20]:
        assert nouns == [t.text.lower() for t in parser(title) if t.pos_ in ("NOUN", "PROPN")]
