"""What a sentence does to what was said before: corrects it, takes it back, or tells that it is over.

"I said Rome, but I meant Milan", "forget what I said about the boat", "Rex died": such sentences name
something that was said and not the relation it was said by, so that what they change is found by its
words (``stores.memory.statements``). English, closed classes: verbs of ending, of cancelling, of
correcting; no list of things.
"""

import re
from dataclasses import dataclass

from stategate.language.words import FUNCTION_WORDS

#: Relations of changes: what is had, done or so of the value has ended; plans and events, too; all that
#: was said of it is taken back; it stands in place of other words. Kept where they changed anything.
OVER, OFF, RETRACTED, CORRECTED = "no more", "called off", "taken back", "corrected"
CHANGES = (OVER, OFF, RETRACTED, CORRECTED)
#: What a statement stands in place of, where its words are not told: what the same was said of before
#: (surely, or only where the values are alike), or the last number, date or name of its kind.
FORMER, ALIKE, SAME_KIND = "*", "?", "#"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_NAME = r"(?-i:[A-Z])[\w'-]+"
_ME = r"\b(?:I|we)"
_IT = r"(?:it|he|she|they|that|this)"
_IS = r"(?:'s|'re| is| are| was| were| should be| should read)"
_PART = r"(?:[^,;:!?]|(?<=\d)[:,](?=\d))+?"
_A, _B, _END = rf"(?P<old>{_PART})", rf"(?P<new>{_PART})", r" ?[.!]? ?$"
_NOT = r"(?:,? (?:and )?not|,? instead of|,? rather than)"
_BUT = r"(?:, (?:but )?| but )"
#: "It is penicillin *that I am allergic to*, not latex".
_CLEFT = r"(?: (?:(?:that|which|who|whom) |(?=(?:I|we|my|our)\b))[^,;:!?]+?)?"
_MEANT = rf"{_ME} (?:really |actually )?(?:meant|mean) (?:to say )?"
_LEAD = (
    r"^(?:(?:sorry|oops|no|wait|actually|well|ah|oh|hm+|rather|correction|and|but)\b[ ,.:!–—-]*)*"
)
_CORRECTED = tuple(
    _compiled(_LEAD + pattern + _END)
    for pattern in (
        rf"(?:when )?{_ME} (?:said|wrote|told you) {_A}[,;]? (?:but |and |though )?"
        rf"(?:{_MEANT}|(?:I|we|it) should have (?:said|been) ){_B}",
        rf"by {_A},? {_MEANT}{_B}",
        rf"{_MEANT}{_B}{_NOT} {_A}",
        rf"not {_A}{_BUT}{_B}",
        rf"{_IT}(?:{_IS} not| (?:is|are|was|were)n't) {_A}{_CLEFT}{_BUT}(?:{_IT}{_IS} )?{_B}",
        rf"{_IT}{_IS} {_B}{_CLEFT}{_NOT} {_A}",
        rf"(?:make (?:that|it)|(?:that|it|this) should (?:be|read|have been)|read that as) {_B}",
    )
)
_ASKED_BACK = _compiled(r"\bdid (?:I|we) (?:just )?say ([^?.!]+)\? *(?=(?:I|we)\b)")
#: A contrast behind a clause of its own: "the key is in the shed, not under the pot".
_CONTRAST = _compiled(r"(?:, (?:and )?not|,? instead of|,? rather than) ([^,;:.!?]+)[.!]?$")

_SAID = rf"{_ME}(?:'ve| have)? (?:ever |just |once )?(?:said|told you|mentioned|wrote)(?: to you)?"
_UNDO = (
    r"(?:forget|ignore|disregard|scratch|strike|erase|delete|drop|never mind|"
    rf"{_ME}(?:'d like to| want to)? (?:take|took) back)"
)
_TAKEN_BACK = _compiled(
    r"^(?:\W*(?:please|oh|no|sorry|actually|ok(?:ay)?|and|just|you can|could you|better)\b[ ,.:!]*)*"
    rf"{_UNDO} (?:"
    r"(?:(?:all|everything|anything|that|it|what(?:ever)?|the (?:thing|part|bit))(?: that)? )?"
    rf"(?:{_SAID} ?)?(?:about|regarding|concerning|on|of) (?P<topic>.+?)"
    rf"|(?:all|everything|what(?:ever)?)(?: that)? {_SAID}|(?:that|it|this)"
    rf"|(?:that|how) (?P<clause>(?:I|we|my|our|the|{_NAME})\b.+?)){_END}"
)
_UNTRUE = _compiled(
    r"^\W*(?:(?:no|sorry|actually)\b[ ,]*)*(?:it|that)(?P<verb>'s| is| was| isn't| wasn't) "
    r"(?P<not>not )?(?:any more )?(?P<word>true|correct|right|false|wrong|untrue|a lie) that "
    r"(?P<clause>.+)$"
)
_TURNS_OUT = _compiled(r"^(?:it )?turn(?:s|ed) out (?:that )?")
#: What says that the next clause puts something right: surely, or perhaps.
_CUE = _compiled(
    r"^\W*(?:(?:sorry|oh|no|oops)\b[ ,.!]*)*(?:correction"
    rf"|{_ME} (?:was|were) (?:wrong|mistaken)(?: about (?P<about>[^,:;.–—]+))?"
    rf"|{_ME} (?:got|had) (?:that|it) wrong|{_ME} mis(?:spoke|remembered|stated|wrote|read)"
    rf"|{_ME} (?:confused|mixed up|muddled) (?:that|it|things|them)(?: up)?"
    rf"|let me correct (?:that|myself|it)|{_ME} made (?:a mistake|an error)"
    r"|my (?:mistake|bad|error)) ?[,.:;!–—-]+ *(?=\S)"
)
_MAYBE = _compiled(
    r"^\W*(?:actually|no[, ]+wait|wait|sorry|no|I mean|or rather|rather)\b ?[,.:!–—-]+ *"
)

_OWN = r"(?:(?:all|both|most) (?:of )?)?(?:my|our|the|that)"
_SUBJECT = rf"(?P<what>(?:{_OWN} |(?=(?-i:[A-Z])))[\w'-]+(?: [\w'-]+){{0,4}}?)"
_WHAT = rf"(?P<what>(?:{_OWN}|all|both) [\w'-]+(?: [\w'-]+){{0,4}}?|{_NAME}(?: {_NAME})*)"
_THING = r"(?P<what>[\w' -]+?) *(?=[,.;!]|$)"
_STOP = (
    r"(?= (?:on|last|in|at|yesterday|today|this|to|for|after|because|with|and|from|by|when|while|a|"
    r"two)\b| ?[,.;!]| ?$)"
)
_ADVERBS = (
    r"(?:(?:sadly|just|finally|has|have|had|been|already|recently|now|unfortunately|both|all|also|then|"
    r"was|were|is|are|got|'s) )*"
)
_BE = r"(?:was|were|got|been|is|are|be)"
_GONE = (
    r"(?:died|dies|passed (?:away|on)|perished|drowned|sank|sunk|(?:is|are|was|were) "
    rf"(?:dead|gone|no more|over|history)|{_BE} (?:stolen|scrapped|destroyed|wrecked|totalled|"
    r"demolished|torn down|written off|put down|put to sleep|run over|killed|sold|lost|disbanded|"
    r"dissolved|closed down|shut down|thrown away|given away|dismissed|abolished|beyond repair)|"
    r"burn(?:ed|t) down|broke up|split up|disbanded|closed down|shut down|went bust|ha(?:s|ve) ended|"
    r"ended|expired|lapsed|ran out)"
)
_WONT = r"(?:won't|will not|isn't going to|is not going to|didn't|did not) (?:take place|happen)"
_NOT_NOW = rf"(?:{_WONT}|(?:isn't|is not) (?:taking place|happening))"
_GONE_OFF = (
    r"(?:fell through|(?:is|are|was|were|'s) off|"
    rf"{_BE} (?:cancell?ed|called off|scrapped|dropped)|{_NOT_NOW})"
)
_WHO = (
    rf"{_ME}(?:'(?:ve|m|re|d))? (?:(?:have|had|am|are|just|finally|recently|also|already|got|to|then|"
    r"were|was|been|sadly|officially|now) )*"
)
_OPENS = (
    r"^(?:\W*(?:and|so|well|oh|sadly|actually|no|sorry|yes|unfortunately|yesterday|then)\b[ ,]*)*"
)
_AWAY = r"(?:gave|given|give|threw|thrown|throw|tore|torn|tear|traded|trade|handed|sent|took)"
#: How things end: the relation, and a pattern that names what (``what``).
_ENDED = tuple(
    (relation, _compiled(pattern))
    for relation, pattern in (
        (OVER, rf"{_OPENS}{_SUBJECT}(?:'s)?,? {_ADVERBS}{_GONE}\b"),
        (OFF, rf"{_OPENS}{_SUBJECT}(?:'s)?,? {_ADVERBS}{_GONE_OFF}\b"),
        (
            OVER,
            rf"{_WHO}(?:lost|sold|scrapped|donated|replaced|dumped|binned|dissolved|buried|returned|left|"
            rf"quit|closed|divorced|dismissed|lose|sell|replace|bury|return) {_WHAT}{_STOP}",
        ),
        (
            OVER,
            rf"{_WHO}(?:{_AWAY}|put|let|shut|pulled|brought) {_WHAT} "
            r"(?:away|back|out|down|in|go|lapse|off|to sleep)\b",
        ),
        (OVER, rf"{_WHO}{_AWAY} (?:away|back|out|down|in|up) {_WHAT}{_STOP}"),
        (OVER, rf"{_WHO}(?:done|finished|through|fed up) with {_THING}"),
        (
            OVER,
            rf"{_WHO}(?:rid of|drop(?:ped)? out of|(?:resigned|retired|fired|sacked|unsubscribed|"
            rf"withdrew) from|(?:kicked|thrown) out of|(?:broke|split) up with|off|over) "
            rf"{_WHAT}{_STOP}",
        ),
        (
            OFF,
            rf"{_WHO}(?:cancell?ed|called off|cancel|call off|dropped|abandoned) {_WHAT}"
            r"(?= ?[,.;!]| ?$)",
        ),
        (
            OVER,
            rf"\b(?P<what>{_NAME}) and I (?:have |just )*"
            r"(?:broken? up|split(?: up)?|separated|parted)\b",
        ),
        (
            OVER,
            r"\b(?:somebody|someone|thieves|burglars|a thief|they) (?:has |have )?"
            rf"(?:stole|stolen|took|broke) (?=(?:my|our) ){_THING}",
        ),
        (
            OVER,
            rf"^\W*(?!I\b|we\b){_NAME}(?: \w+)? (?:has |have )?(?:gave|given|handed|brought) "
            rf"{_WHAT} back\b",
        ),
    )
)
_RETIRED = _compiled(rf"{_ME}(?:'ve|'m| have| am| got)? (?:just )?retired\b")
#: What makes a clause tell no end: denied, supposed, feared, or nearly so.
_UNREAL = _compiled(
    r"\b(?:not|never|nearly|almost|if|unless|would|could|might|may|should|thought|think|dream\w*|afraid|"
    r"fear\w*|worr\w+|hope\w*|wish\w*|going to|gonna|about to|wants?|wanted|imagine|suppose|pretend\w*|"
    r"says?|claims?)\b|n't\b"
)
_REALLY_OFF = _compiled(_NOT_NOW)
#: "My contract at the library has ended": what ends is what one is tied to.
_TIED = _compiled(r"\b(?:ended|expired|lapsed?|ran out|fell through|off|cancell?ed|cancel)\b")
_TIE = _compiled(r"^(?:my|our) \w+ (?:at|with|to|for) (.+)")
_OTHERS = _compiled(r"\b(?:his|her|their|your|its)\b|\w's? \w")
_DETERMINERS = _compiled(
    r"^(?:(?:all|both|most|of|my|our|the|that|this|an?|some|any|"
    r"(?:one|two|three|four|five|six)(?= )) )+"
)


@dataclass(frozen=True)
class Change:
    """What a sentence does to what was said, and what of it tells something by itself.

    ``what`` are the words of what is changed, ``new`` those that stand in their place; ``rest`` is the
    clause that is to be read like any other and ``standing`` what its statements stand in place of
    (:data:`FORMER` and its kin, "" for nothing); ``is_denied`` says that the rest is taken back.
    """

    kind: str = ""
    what: str = ""
    new: str = ""
    rest: str = ""
    standing: str = ""
    is_denied: bool = False


def joined(text: str) -> str:
    """Return ``text`` with a question back to oneself as a clause: "Did I say Rome? I meant Milan"."""
    return _ASKED_BACK.sub(r"I said \1, but ", text)


def change_of(sentence: str) -> Change:
    """Return what ``sentence`` (on one line) changes; of most that is nothing, and all is ``rest``."""
    plain = sentence.replace("’", "'")
    for pattern in _CORRECTED:
        if match := pattern.match(plain):
            parts = match.groupdict()
            old, new = _bare(parts.get("old") or ""), _bare(parts["new"])
            names = bool(re.search(r"\d", new)) or new[:1].isupper()
            if names or (old and not plain.lower().lstrip().startswith("not ")):
                return Change(CORRECTED, old or SAME_KIND, new)
    if match := _TAKEN_BACK.match(plain):
        if match["clause"]:
            return Change(rest=match["clause"], is_denied=True)
        return Change(RETRACTED, _bare(match["topic"] or ""))
    if match := _UNTRUE.match(plain):
        is_true = match["word"].lower() in ("true", "correct", "right")
        is_denied = bool(match["not"]) or match["verb"].endswith("n't")
        return Change(rest=match["clause"], is_denied=is_true == is_denied)
    rest, standing = _TURNS_OUT.sub("", plain), ""
    if match := _CUE.match(rest):
        rest, standing = rest[match.end() :], FORMER
        if match["about"]:
            rest = re.sub(rf"^{_IT}\b", match["about"], rest, flags=re.IGNORECASE)
    elif _MAYBE.match(rest):
        standing = ALIKE
    if match := _CONTRAST.search(rest):
        return Change("", _bare(match[1]), rest=rest[: match.start()], standing=standing or FORMER)
    kind, what = _ended(rest)
    return Change(kind, what, rest=rest if rest != plain else sentence, standing=standing)


def _ended(sentence: str) -> tuple[str, str]:
    """Return how something is over by ``sentence``, and the words for it; twice "" if nothing is."""
    for relation, pattern in _ENDED:
        match = pattern.search(sentence)
        if match is None or _UNREAL.search(_REALLY_OFF.sub("", sentence[: match.end()])):
            continue
        tie = _TIE.match(match["what"]) if _TIED.search(match[0]) else None
        what = _bare(tie[1] if tie else match["what"])
        if what and not _OTHERS.search(what) and what.lower() not in FUNCTION_WORDS:
            return relation, what
    return "", ""


def is_retirement(sentence: str) -> bool:
    """Say whether somebody has stopped working for good: no place is named."""
    return bool(_RETIRED.search(sentence)) and not _UNREAL.search(sentence)


def _bare(words: str) -> str:
    return _DETERMINERS.sub("", " ".join(words.strip(" ,.'\"“”‘’").split()))
