"""What a WebShop instruction asks for, read by the grammar of the original's synthetic goals."""

import re
from dataclasses import dataclass
from functools import lru_cache

from stores.text import words_of

_LIMIT = re.compile(r",? and price lower than ([\d.]+)")
_OPTION = re.compile(r"(?: with |, and )([^:,]{1,60}): ")
_JOINT = re.compile(", | with | for ")
_PRICE = re.compile(r"\$([\d,]+(?:\.\d+)?)(?: to \$([\d,]+(?:\.\d+)?))?\s*$")


@dataclass(frozen=True)
class Wish:
    """What the instruction asks for; ``limit`` is in dollars (None if none is named).

    ``phrases`` are its attributes and, among them, ``kind``: the phrase with the kind of product,
    which a last attribute may lead ("machine wash men's shirts").
    """

    phrases: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    limit: float | None
    kind: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The phrases that do not name the kind of product."""
        return tuple(phrase for phrase in self.phrases if phrase != self.kind)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of what is asked for, without options, price and small words."""
        return tuple(dict.fromkeys(w for phrase in self.phrases for w in words_of(phrase)))


@lru_cache(maxsize=256)
def read_wish(instruction: str) -> Wish:
    """Take an instruction apart: "Find me A, B <kind> with C for D with k: v, and price ..."."""
    limit = _LIMIT.search(instruction)
    plain = instruction[: limit.start()] if limit else instruction
    marks = list(_OPTION.finditer(plain))
    options: list[tuple[str, str]] = []
    end = len(plain)
    for mark in reversed(marks):
        # "with long sleeve with color: " starts an option only at its last "with".
        name = mark[1].rsplit(" with ", 1)[-1]
        options.append((name.strip(), plain[mark.end() : end].strip(" ,")))
        end = mark.end() - len(name) - len(": ") - len(" with ")
        if not plain[mark.start() :].startswith(", and "):
            break
        end = mark.start()
    plain = plain[:end].strip().removeprefix("Find me").strip()
    phrases = [part.strip() for part in _JOINT.split(plain)]
    kind = re.split(" with | for ", plain)[0].rpartition(", ")[2].strip()
    price = _number(limit[1]) if limit else None
    return Wish(tuple(p for p in phrases if p), tuple(reversed(options)), price, kind)


def dollars(text: str) -> float | None:
    """Return the price at the end of ``text`` (the lower end of a range), None if there is none."""
    amount = _PRICE.search(text)
    return _number(amount[1]) if amount else None


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").rstrip("."))
    except ValueError:
        return None
