"""Closed classes of English (``words.toml``): function words, the calendar, verbs, numbers."""

import tomllib
from functools import lru_cache
from pathlib import Path

_LISTS: dict[str, tuple[str, ...]] = {
    name: tuple(words.split())
    for name, words in tomllib.loads(
        Path(__file__).with_name("words.toml").read_text("utf-8")
    ).items()
}
FUNCTION_WORDS, SMALL_WORDS, SMALL_TALK, FORGET_WORDS = (
    frozenset(_LISTS[name])
    for name in ("function_words", "small_words", "small_talk", "forget_words")
)
MONTHS = _LISTS["months"]
WEEKDAYS = _LISTS["weekdays"]
CALENDAR = frozenset((*MONTHS, *WEEKDAYS, *_LISTS["feasts"]))
#: ``one`` to ``nineteen`` and the tens to ``ninety``.
CARDINALS = {word: value for value, word in enumerate(_LISTS["numbers"], 1)} | {
    word: 10 * value for value, word in enumerate(_LISTS["tens"], 2)
}
#: ``first`` to ``thirty-first``: the days of a month.
ORDINALS = {word: value for value, word in enumerate(_LISTS["ordinals"], 1)}


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return ``word`` without its commonest English endings."""
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)].removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word
