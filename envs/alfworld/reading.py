"""The parser of ALFWorld's pages and commands: verbs, lists of things, the task.

Things are words with a number ("desk 1"). Both wordings of the published games are read ("move X to Y",
and before "put X in/on Y"), and similar ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from stategate.stores.text import one_line

BANNER = re.compile(r"\A\s*-=.*?=-\s*", re.DOTALL)
TASK = re.compile(r"\s*Your task is to: [^\n]*\s*\Z")
#: A sentence with the space after it; joined they are the text.
SENTENCE = re.compile(r".*?[.!?]\s+|.+\Z", re.DOTALL)
NAME = r"[a-z]+(?:[ -][a-z]+)*? \d+"
_LISTED = re.compile(rf"\ban? ({NAME})\b", re.IGNORECASE)
_ABOUT = re.compile(rf"\b({NAME})\b")
_CLOSED = re.compile(rf"\bthe ({NAME}) is closed", re.IGNORECASE)
_CARRIED = re.compile(rf"\bcarrying:? (?:an?|the)? ?({NAME})", re.IGNORECASE)
_COMMANDS = [
    re.compile(pattern)
    for pattern in (
        r"(?P<verb>go) to (?P<place>.+)",
        r"(?P<verb>open|close) (?P<place>.+)",
        r"(?P<verb>take) (?P<thing>.+?) from (?P<place>.+)",
        r"(?P<verb>move) (?P<thing>.+?) to (?P<place>.+)",
        r"(?P<verb>put) (?P<thing>.+?) (?:in/on|into|onto|in|on) (?P<place>.+)",
        r"(?P<verb>clean|heat|cool|slice) (?P<thing>.+?) with (?P<place>.+)",
        r"(?P<verb>use|examine) (?P<thing>.+)",
        r"(?P<verb>look|inventory|help)",
    )
]
_SYNONYMS = {"move": "put", "inventory": "look", "help": "look"}
#: What is done to a thing in hand.
STATES = ("clean", "heat", "cool")


@dataclass(frozen=True)
class Command:
    """A parsed command; ``verb`` is "other" for an unknown one."""

    verb: str
    thing: str = ""
    place: str = ""


@lru_cache(maxsize=4096)
def command_of(action: str) -> Command:
    """Return the parsed command."""
    for pattern in _COMMANDS:
        if match := pattern.fullmatch(action.strip()):
            parts = {"thing": "", "place": "", **match.groupdict()}
            return Command(**{**parts, "verb": _SYNONYMS.get(parts["verb"], parts["verb"])})
    return Command("other")


def kind_of(name: str) -> str:
    """Return a thing's kind: its name without the number."""
    return name.rpartition(" ")[0] or name


def things_in(text: str) -> list[str]:
    """Return the things that the text lists ("a pen 2, and a cup 1"), in order."""
    return [] if "carrying" in text else _LISTED.findall(text)


def place_in(text: str) -> str:
    """Return the place that a list of things is of: the last name before "you see", "" if none."""
    before, see, _ = text.partition("you see")
    names = _ABOUT.findall(before) if see else []
    return _bare(names[-1]) if names else ""


def closed_in(text: str) -> str:
    """Return the place that the text says is closed, "" if none."""
    match = _CLOSED.search(text)
    return _bare(match[1]) if match else ""


def carried_in(text: str) -> str:
    """Return the item that the text says is carried, "" if it does not say."""
    match = _CARRIED.search(text)
    return _bare(match[1]) if match else ""


def _bare(name: str) -> str:
    """Return the last word and number: sentences run into the names that end them."""
    return " ".join(name.split()[-2:])


def page_text(page: str) -> str:
    """Return a page on one line, without banner and task."""
    return one_line(TASK.sub("", BANNER.sub("", page)))


def item_in_hand(actions: Sequence[str], text: str = "") -> str:
    """Return the item in hand by the possible commands, "" for none or unknown."""
    commands = [command_of(action) for action in actions]
    for command in commands:
        if command.verb in ("put", *STATES):
            return command.thing
        if command.verb == "slice":
            return command.place
    places = {c.place for c in commands if c.place} | {place_in(text), closed_in(text)}
    examined = [c.thing for c in commands if c.verb == "examine" and c.thing not in places]
    takes = any(command.verb == "take" for command in commands)
    kinds = {kind_of(c.place) for c in commands if c.verb == "go"}
    others = [name for name in examined if kind_of(name) not in kinds]
    return others[0] if len(others) == 1 and not takes else ""
