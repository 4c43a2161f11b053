"""What kind of thing a question asks for, and whether a sentence holds one: an age, a day, a person.

Questions name it by closed classes of words ("how old", "what does it cost", "who"); sentences hold it
as numbers with units, days, names. A sentence that shares all words of a question and holds nothing of
the kind beside them is of the subject, and no answer.
"""

import re
from functools import lru_cache

from stategate.envs.asking.text import content
from stategate.language.words import CALENDAR, word_list

_NUMBER = (
    r"(?:\d[\d.,:/]*|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|"
    r"fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|"
    r"hundreds?|thousands?|millions?|billions?|half|third|quarter|dozens?|once|twice|both|none|no|an?|"
    r"several)\b)"
)
_TIME = r"(?:second|minute|hour|day|night|week|month|year|decade|centur(?:y|ie))s?"
_LENGTH = (
    r"(?:mm|cm|km|m|(?:kilo|centi|milli)?met(?:re|er)s?|miles?|feet|foot|ft|inch(?:es)?|yards?|"
    r"light[- ]years?|fathoms?)"
)
_WEIGHT = r"(?:kg|g|(?:kilo)?gram(?:me)?s?|kilos?|tons?|tonnes?|pounds?|lbs?|ounces?|stones?)"
_MONEY = (
    r"(?:euros?|cents?|dollars?|pounds?|pence|francs?|crowns?|kron(?:er|or)|yen|rupees?|pesos?)"
)
_PERSON = (
    r"\b(?:by|with|from|for|to) (?:(?:the|an?|his|her|its|their|my|our) )?[a-z]+|"
    r"\b(?:the|an?|his|her|its|their|my|our) [a-z]*(?:er|or|ist|ian|man|woman|men|women|brother|sister|"
    r"uncle|aunt|son|wife|husband|club|team|group|city|company|board|council)s?\b|"
    r"\b(?:volunteers|pupils|children|people|members|students|owners|monks|nuns)\b"
)
_WHEN = (
    r"\b(?:1\d|20)\d\d\b|\b\d{1,2}[:.]\d\d\b|\b(?:january|february|march|april|may|june|july|august|"
    r"september|october|november|december|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|century|noon|"
    r"midnight|midday|dawn|dusk|spring|summer|autumn|winter|morning|evening|afternoon|night|yesterday|"
    r"today|tomorrow|tonight|easter|christmas|o'clock|daily|weekly|monthly|yearly|"
    r"every (?:day|week|month|year))\b|"
    rf"\b(?:at|from|until|till|by|past|to|before|after|since) (?:half past )?{_NUMBER}|"
    rf"\b{_NUMBER} {_TIME} (?:ago|later|after|before|earlier)"
)
#: What is asked for: its name, how questions ask for it, and how it looks; the first that fits decides.
_KINDS = tuple(
    (name, re.compile(ask, re.IGNORECASE), re.compile(look, re.IGNORECASE))
    for name, ask, look in (
        (
            "money",
            rf"\b(?:{'|'.join(word_list('words_asking_for_money'))})\b",
            rf"[€$£¥]|\bfree\b|\b{_NUMBER} (?:\w+ )?{_MONEY}\b|{_MONEY}\b.*\b\d",
        ),
        (
            "age",
            r"\bhow old\b|\bwhat age\b|\bage of\b",
            rf"\b(?:1\d|20)\d\d\b|\b{_NUMBER}(?: {_TIME})?[ -]old\b|\b{_NUMBER} years\b|"
            rf"\b(?:aged?|under|over|born|turned|is|at) {_NUMBER}",
        ),
        ("temperature", r"\bhow (?:hot|cold|warm)\b|\btemperature\b", r"\bdegrees?\b|°"),
        (
            "weight",
            r"\bhow heavy\b|\bweigh[st]?\b|\bweight\b|\bmass\b",
            rf"\b{_NUMBER} ?(?:\w+ )?{_WEIGHT}\b",
        ),
        (
            "length",
            r"\bhow (?:high|tall|deep|far|wide|thick|broad|large|big)\b|"
            r"\b(?:height|depth|width|distance|size|altitude)\b",
            rf"\b{_NUMBER} ?(?:\w+ )?{_LENGTH}\b|\b{_NUMBER} (?:times|square|hectares?|acres?)\b",
        ),
        (
            "duration",
            r"\bhow long\b|\blength\b",
            rf"\b{_NUMBER} ?(?:\w+ )?(?:and a half )?(?:{_TIME}|{_LENGTH})\b|\b{_NUMBER} [a-z]+s\b|"
            r"\b(?:until|since|from .* to)\b",
        ),
        (
            "rate",
            r"\bhow often\b",
            r"\b(?:every|once|twice|times|daily|weekly|monthly|yearly|annually|each)\b|"
            r"\ba (?:day|week|month|year)\b",
        ),
        (
            "count",
            r"\bhow (?:many|much|fast|loud|strong)\b|\bnumber of\b|"
            r"\bwhat (?:number|share|percentage|amount|total)\b",
            rf"\b{_NUMBER}",
        ),
        ("phone", r"\b(?:tele)?phone number\b", r"\d[\d /-]{4,}\d"),
        (
            "colour",
            r"\b(?:what|which) colou?rs?\b|\bcolou?r of\b",
            r"\b(?:red|blue|green|yellow|white|black|brown|gr[ae]y|orange|purple|violet|pink|gold(?:en)?|"
            r"silver|crimson|scarlet|turquoise)\b",
        ),
        (
            "when",
            r"\bwhen\b|\b(?:what|which) (?:year|date|days?|month|time)\b",
            _WHEN,
        ),
        (
            "why",
            r"\bwhy\b|\bwhat caused\b|\bfor what reason\b",
            r"\b(?:because|since|so|due|cause[sd]?|reason|as|for|to|thanks|therefore|which)\b|[;:]",
        ),
        (
            "who",
            r"\bwho(?:se|m)?\b|\b(?:which|what) (?:person|man|woman|author|company|team|club|firm)\b",
            _PERSON,
        ),
        (
            "where",
            r"\bwhere\b|\b(?:which|what) (?:city|town|country|place|village|street|island)\b",
            r"\b(?:in|at|on|near|under|behind|beside|from|to|between|below|above|inside|outside|of|into|off|"
            r"over|along|across|beneath)\b",
        ),
        ("name", r"\bname[sd]?\b|\bcalled\b|\bsurname\b|\btitle\b", r"(?!)"),
    )
)
#: "When is the rent due?" asks for no money, "What do I do when the light is red?" for no time.
_LEAD = re.compile(
    r"\W*(?:(?P<word>when|where|who|why)\b|(?P<main>(?:what|which|how)\b.*?)\s(?:when|if|while)\s)",
    re.IGNORECASE,
)
_CAPITAL = re.compile(r"(?<=[\w,;:)] )[\"“]?([A-Z][\w'’-]+)")


@lru_cache(maxsize=1024)
def kind_asked(question: str) -> tuple[str, "re.Pattern[str] | None"]:
    """Return the kind of thing that ``question`` asks for ("" if unknown), and how it looks."""
    lead = _LEAD.match(question)
    asks = (lead["word"] or lead["main"]) if lead else question
    fits = ((name, look) for name, ask, look in _KINDS if ask.search(asks))
    return next(fits, ("", None))


def holds(question: str, text: str) -> float:
    """Return 1 where ``text`` holds what is asked for beside the asked words, else 0; .5 unknown."""
    kind, look = kind_asked(question)
    if look is None:
        return 0.5
    low = question.lower()
    if kind in ("count", "duration", "length"):
        return float(any(match[0].lower() not in low for match in look.finditer(text)))
    if kind in ("who", "name"):
        capitals = (name.lower() for name in _CAPITAL.findall(text))
        if any(name not in low and name not in CALENDAR for name in capitals):
            return 1.0
    if kind in ("where", "why", "who"):
        return float(bool(look.search(text)))
    asked = {token.key for token in content(question)}
    novel = (
        word
        for word in text.split()
        if any(c.isdigit() for c in word) or not {token.key for token in content(word)} & asked
    )
    return float(bool(look.search(" ".join(novel))))
