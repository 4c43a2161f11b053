"""The write gate: what is worth keeping. Small talk is not, nor a question that found no answer.

A turn is refused only where nothing in it could ever be asked for: no name, number, time, and no word
beyond those of greetings, thanks and reactions. Whatever is in doubt is kept: a fact that was never
written cannot be found, while one too many is only outranked.
"""

import re

from stategate.language.dates import spans
from stategate.language.words import FUNCTION_WORDS
from stategate.stores.memory.records import Turn

#: Words of greetings, thanks, reactions and farewells: a closed class of general English.
_SMALL = frozenset(
    """
    hi hey hello hiya morning evening afternoon night bye goodbye cheers cheerio thanks thank
    please sorry welcome ok okay alright right sure yes yeah yep yup no nope nah oh ah aw wow ha
    haha lol hmm hm um uh well so great good nice lovely cool awesome amazing wonderful fantastic
    brilliant perfect excellent super fine glad happy pleased sounds sound look looks looking
    forward see soon later talk talking speak chat catch again take care luck congrats
    congratulations really totally absolutely definitely exactly indeed true agree course know
    think guess suppose hope feel mean say said tell told ask hear heard understand guys man dear
    friend thing things way lot bit kind pretty interesting fun exciting day week time today going
    go doing long much hope best wishes yay ooh whoa gosh goodness got get keep touch anyway bless
    worries worry problem appreciate believe wait anytime back how's what's it's that's i'm you're
    weekend weather sense makes make made never mind matter fingers crossed
    don't can't let's i'll you'll we'll i've you've didn't doesn't
    """.split()
)
#: Times that greetings and thanks name.
_GREETED = frozenset(["today", "tonight", "this morning", "this afternoon", "this evening"])
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def why_not(turn: Turn) -> str:
    """Return why the turn is not kept, "" if it is."""
    text = turn.text
    if not text.strip():
        return "empty"
    if not turn.success and not turn.statements:
        return "a question that found no answer"
    told = [span for span in spans(text, turn.at or 0.0) if span.text.lower() not in _GREETED]
    if re.search(r"\d", text) or told:
        return ""
    if (
        text.rstrip().endswith("?")
        and not turn.answer
        and words_of_content(text, _names(turn)) <= 2
    ):
        return "small talk: a question that tells nothing"
    return "small talk" if words_of_content(text, _names(turn)) == 0 else ""


def content_of(text: str, speaker: str = "") -> float:
    """Return from 0 to 1 how much ``text`` says: four words of content, or any number, is 1."""
    if re.search(r"\d", text):
        return 1.0
    return min(1.0, words_of_content(text, {speaker.lower()}) / 4)


def words_of_content(text: str, names: set[str]) -> int:
    """Return how many words are neither function words, small talk, ``names`` nor forms of address."""
    addressed = set(re.findall(r"(?:^|[,!]\s*)([A-Z]\w+)(?=\s*[!,.?]|$)", text))
    known = FUNCTION_WORDS | _SMALL | names | {name.lower() for name in addressed}
    words = [word.lower().replace("’", "'") for word in _LETTERS.findall(text)]
    return sum(word not in known and word.split("'")[0] not in known for word in words)


def _names(turn: Turn) -> set[str]:
    return {turn.speaker.lower()}
