"""Number words of English: cardinals and ordinals by their values."""

_UNITS = "one two three four five six seven eight nine".split()
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_FIRST = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth".split()
)

#: ``one`` to ``nineteen`` and the tens to ``ninety``.
CARDINALS = {word: value for value, word in enumerate((*_UNITS, *_TEENS), 1)} | {
    word: 10 * value for value, word in enumerate(_TENS, 2)
}
#: ``first`` to ``thirty-first``: the days of a month.
ORDINALS = {
    **{word: value for value, word in enumerate(_FIRST, 1)},
    **{f"twenty-{word}": 20 + value for value, word in enumerate(_FIRST[:9], 1)},
    "thirtieth": 30,
    "thirty-first": 31,
}
