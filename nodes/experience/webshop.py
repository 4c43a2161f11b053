"""WebShop's past steps in words: kinds of moves, pages on one line, which asked words a page holds."""

import re
from collections.abc import Hashable, Mapping

from stategate.envs.protocols import Observation, target_of, verb_of
from stategate.envs.webshop.view import OPENED, chunk_page
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.language.instruction.choices import covered
from stategate.nodes.experience.adapter import OPEN, ExperienceAdapter
from stategate.stores.text import one_line, overlap, words_of

_CLICKED = re.compile(r"\[clicked button\] (.*?) \[clicked button_\]")
_MARKS = re.compile(r"\[/?button_?\]|\[SEP\]|Instruction:|Back to Search|< Prev|Next >|[][]")
_WORD = re.compile(r"[a-z0-9]+")
_FUNCTION_WORDS = frozenset(
    "a s me an of in or i to is the and with for that are from this want need find looking".split()
)
_IN_SEARCH = 0.5  # share of a part's words that a search must hold to include the part
_MIN_WEIGHT = 0.25  # of a word that is noted: how much it matters
_MIN_COVER = 0.5  # how well a page must match a word to hold it
#: The note of a product's page that holds no asked word.
NOTHING = "nothing"


class WebShopExperience(ExperienceAdapter):
    """Searches, products, options, buttons."""

    moves: Mapping[str, str] = {
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

    def summary_line(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line without the instruction, which every page repeats.

        Only the first repetition goes: a short instruction ("a lamp") may be part of a title too.
        """
        text, wish = one_line(page), one_line(instruction)
        if wish:
            framed = f"[SEP] {wish} [SEP] "
            text = text.replace(framed if framed in text else wish, "", 1)
        text = text.replace("Instruction: ", "", 1).strip()
        return one_line(_MARKS.sub(" ", _CLICKED.sub(r"(chosen) \1", text))) if bare else text

    def matched_words(self, observation: Observation, instruction: str) -> str:
        """Return the instruction's words that one product's page holds, adjacent ones as a run.

        On an item's page: those of its title and of asked values that it offers.
        """
        chunks = chunk_page(observation)
        title = " ".join(" ".join(c.data["lines"][:1]) for c in chunks if c.role == "subject")
        detail = " ".join(" ".join(c.data["lines"]) for c in chunks if c.role == "text")
        roles = {chunk.role for chunk in chunks}
        if "entry" in roles or not roles & {"subject", "text"}:
            return ""
        choices = [(c.choice.name, c.choice.values) for c in chunks if c.choice and c.choice.values]
        goal = AlignedInstruction.of(instruction, choices, title)
        parsed = goal.parsed
        matched = [quality > _MIN_COVER for quality in covered(parsed, f"{title} {detail}")]
        for choice in goal.choices:
            if choice.requested[choice.best] >= choice.none:
                for i in choice.spans[choice.best].places:
                    matched[i] = True
        stretches: list[list[int]] = []
        for i, token in enumerate(parsed.tokens):
            if not matched[i] or token.is_small or parsed.matters[i] < _MIN_WEIGHT:
                continue
            last = stretches[-1][-1] if stretches else -2
            if last == i - 1 and parsed.clause[i] == parsed.clause[last]:
                stretches[-1].append(i)
            else:
                stretches.append([i])
        words = parsed.tokens
        texts = [parsed.text[words[run[0]].start : words[run[-1]].end] for run in stretches]
        return ", ".join(dict.fromkeys(texts)) or NOTHING

    def is_echoed(self, action: str) -> bool:
        """Say whether it is a search: the page of results repeats its words."""
        return action.startswith("search[")

    def move_of(self, instruction: str, action: str) -> str:
        """Return a key of ``moves``, else the verb."""
        verb, words = verb_of(action).lower(), target_of(action)
        if verb == "search":  # by the parts of the instruction that its words include
            goal = AlignedInstruction.of(instruction)
            options = words_of(goal.written("value"))
            has_options = overlap(options, words) >= _IN_SEARCH
            if overlap(words_of(goal.written("property")), words) >= _IN_SEARCH:
                return "search" if has_options else "search_no_options"
            return "search_kind_options" if has_options and options else "search_kind"
        if verb != "click":
            return verb
        target = " ".join(words.lower().split())
        if target in self.moves:
            return target
        if OPENED.fullmatch(f"click[{target}]"):
            return OPEN
        wish = instruction.lower()
        is_requested = target in wish or _content(target) <= _content(wish)
        return "option" if is_requested else "other_option"

    def situation(self, instruction: str, last: str) -> Hashable:
        """Return whether options are asked for, and the last move."""
        is_search = last.startswith("search")
        return bool(
            AlignedInstruction.of(instruction).written("value")
        ), "search" if is_search else last


def _content(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if word not in _FUNCTION_WORDS}
