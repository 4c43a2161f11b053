"""Closed classes of English words (``words.toml``): function words, calendar names, verb forms."""

import tomllib
from pathlib import Path

_LISTS = {
    name: tuple(words.split())
    for name, words in tomllib.loads(
        Path(__file__).with_name("words.toml").read_text("utf-8")
    ).items()
}
FUNCTION_WORDS = frozenset(_LISTS["function_words"])
MONTHS = _LISTS["months"]
WEEKDAYS = _LISTS["weekdays"]
CALENDAR = frozenset((*MONTHS, *WEEKDAYS, *_LISTS["feasts"]))


def word_list(name: str) -> tuple[str, ...]:
    """Return a list of ``words.toml`` in its order."""
    return _LISTS[name]
