"""WebShop's past steps in words: kinds of moves, pages on one line, which asked words a page met."""

import re
from collections.abc import Hashable, Mapping, Sequence

from stategate.envs.protocols import Chunk, Observation, verb_of
from stategate.envs.webshop.reading import FORMS
from stategate.envs.webshop.view import OPENED, chunk_page
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.language.instruction.choices import covered
from stategate.nodes.experience.adapter import OPEN, ExperienceAdapter
from stategate.nodes.experience.episode import parse_action
from stategate.stores.text import one_line, overlap, words_of

_MOVES = {
    "search": "search with all that the question asks for",
    "search_no_options": "search with the kind of thing and its properties, without the options",
    "search_kind_options": "search with the kind of thing and the options, without its properties",
    "search_kind": "search with nothing but the kind of thing",
    "open": "open a product that was not opened yet",
    "next >": "turn to the next page of results",
    "< prev": "go back to the page before",
    "back to search": "go back to the search",
    "description": "read the description",
    "features": "read the features",
    "reviews": "read the reviews",
    "attributes": "read the attributes",
    "option": "choose the option that the question names",
    "other_option": "choose an option that the question does not name",
    "buy now": "buy it now",
    "answer": "give the answer",
}
_CLICKED = re.compile(r"\[clicked button\] (.*?) \[clicked button_\]")
_MARKS = re.compile(r"\[/?button_?\]|\[SEP\]|Instruction:|Back to Search|< Prev|Next >|[][]")
_WORD = re.compile(r"[a-z0-9]+")
_SMALL = frozenset(
    "a s me an of in or i to is the and with for that are from this want need find looking".split()
)
_HALF = 0.5
_SEARCHED = 0.25  # how much a word must matter to be noted
_MET = 0.5  # how far a page must say a word to have met it
#: What is noted of a product's page that met nothing.
NOTHING = "nothing"


class WebShopExperience(ExperienceAdapter):
    """Searches, products, options, buttons."""

    moves: Mapping[str, str] = _MOVES

    def summary_line(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line without the instruction, which every page repeats.

        Only its first place goes: a short instruction ("a lamp") may be part of a title too.
        """
        text, wish = one_line(page), one_line(instruction)
        if wish:
            framed = f"[SEP] {wish} [SEP] "
            text = text.replace(framed if framed in text else wish, "", 1)
        text = text.replace("Instruction: ", "", 1).strip()
        return one_line(_MARKS.sub(" ", _CLICKED.sub(r"(chosen) \1", text))) if bare else text

    def matched_words(self, observation: Observation, instruction: str) -> str:
        """Return the words that an item's title and asked values, or a sub-page, met."""
        return _matched(chunk_page(observation), instruction)

    def is_echoed(self, action: str) -> bool:
        """Say yes of searches: the page of results says what was searched."""
        return action.startswith("search[")

    def move_of(self, instruction: str, action: str) -> str:
        """Return a key of ``moves``, else the verb."""
        tool, words = parse_action(action)
        if tool == "search":
            return _search_form(instruction, words)
        if tool != "click":
            return verb_of(action).lower()
        target = " ".join(words.lower().split())
        if target in self.moves:
            return target
        if OPENED.fullmatch(f"click[{target}]"):
            return OPEN
        wish = instruction.lower()
        is_requested = target in wish or _content(target) <= _content(wish)
        return "option" if is_requested else "other_option"

    def action_of(self, move: str, instruction: str) -> str:
        """Return the search that the move comes to, "" for any other move."""
        query = AlignedInstruction.of(instruction).written(*FORMS[move]) if move in FORMS else ""
        return f"search[{query}]" if query else ""

    def situation(self, instruction: str, last: str) -> Hashable:
        """Return whether options are asked for, and the last move."""
        is_search = last.startswith("search")
        return bool(
            AlignedInstruction.of(instruction).written("value")
        ), "search" if is_search else last


def _search_form(question: str, words: str) -> str:
    """Return which parts of the question the search words hold (half of a part counts)."""
    goal = AlignedInstruction.of(question)
    options = list(words_of(goal.written("value")))
    properties = list(words_of(goal.written("property")))
    has_options = overlap(options, words) >= _HALF
    if overlap(properties, words) >= _HALF:
        return "search" if has_options else "search_no_options"
    return "search_kind_options" if has_options and options else "search_kind"


def _content(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if word not in _SMALL}


def _matched(chunks: Sequence[Chunk], instruction: str) -> str:
    """Return the instruction's words that the page of one product met, those it says side by side.

    On an item's page these are words of its title and of asked values that it offers.
    """
    title = " ".join(" ".join(c.data["lines"][:1]) for c in chunks if c.role == "subject")
    detail = " ".join(" ".join(c.data["lines"]) for c in chunks if c.role == "text")
    roles = {chunk.role for chunk in chunks}
    if "entry" in roles or not roles & {"subject", "text"}:
        return ""
    choices = [(c.choice.name, c.choice.values) for c in chunks if c.choice and c.choice.values]
    goal = AlignedInstruction.of(instruction, choices, title)
    parsed = goal.parsed
    matched = [quality > _MET for quality in covered(parsed, f"{title} {detail}")]
    for choice in goal.choices:
        if choice.requested[choice.best] >= choice.none:
            for place in choice.spans[choice.best].places:
                matched[place] = True
    stretches: list[list[int]] = []
    for i, token in enumerate(parsed.tokens):
        if not matched[i] or token.is_small or parsed.matters[i] < _SEARCHED:
            continue
        last = stretches[-1][-1] if stretches else -2
        if last == i - 1 and parsed.clause[i] == parsed.clause[last]:
            stretches[-1].append(i)
        else:
            stretches.append([i])
    words = parsed.tokens
    texts = [parsed.text[words[part[0]].start : words[part[-1]].end] for part in stretches]
    return ", ".join(dict.fromkeys(texts)) or NOTHING
