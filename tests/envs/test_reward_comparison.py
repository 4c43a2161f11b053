"""How the reward compares words: figures that thefuzz 0.22, the original's package, gives."""

import pytest

from stategate.envs.webshop.reward import _ratio


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
def test_scores_are_the_originals(first, second, score):
    assert _ratio(first, second) == score
