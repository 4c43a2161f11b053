"""The sample catalogue: goals worth a search, and nouns that ship."""

from stategate.envs.webshop import reward


def test_search_finds_most_goal_products_but_not_all_of_them(sample_shop):
    goals = sample_shop.goals[::3]
    top10 = [g["asin"] in sample_shop.search(g["instruction_text"], 10) for g in goals]
    first = [g["asin"] in sample_shop.search(g["instruction_text"], 1) for g in goals]
    assert 0.9 < sum(top10) / len(goals) < 1
    assert 0.5 < sum(first) / len(goals) < 0.85


def test_buying_what_the_goal_names_earns_everything(sample_shop):
    for goal in range(0, len(sample_shop.goals), 20):
        wish = sample_shop.goals[goal]
        name = sample_shop.catalogue.products[wish["asin"]].name
        session, observation = sample_shop.reset(goal=goal)
        link = f"click[{wish['asin'].lower()}]"
        steps = [f"search[{name}]", link]
        steps += [f"click[{value}]" for value in wish["goal_options"].values()]
        for action in [*steps, "click[buy now]"]:
            session, observation = sample_shop.step(session, action)
        assert observation.done
        assert observation.reward == 1.0, (goal, observation.info["reward"])


def test_the_sample_is_played_without_the_parser(sample_shop, monkeypatch):
    """The nouns of its titles ship: nobody needs a download for a first episode."""

    def refuse():
        raise AssertionError("the parser was asked for")

    reward.nouns.cache_clear()
    monkeypatch.setattr(reward, "_parser", refuse)
    assert all(sample_shop.oracle(goal) == 1.0 for goal in range(0, len(sample_shop.goals), 9))


def test_a_title_is_parsed_once(home, monkeypatch):
    for _ in range(2):
        reward.nouns.cache_clear()
        reward._known.cache_clear()
        assert reward.nouns("A folding lamp for desks") == ("lamp", "desks")
        monkeypatch.setattr(reward, "_parser", None)


def test_the_shipped_nouns_are_the_parsers(home):
    parser = reward._parser()
    for title, nouns in list(reward._known(home / "none").items())[::20]:
        assert nouns == [t.text.lower() for t in parser(title) if t.pos_ in ("NOUN", "PROPN")]
