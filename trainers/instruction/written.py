"""Other writers' requests, annotated by hand (``written.txt``), and recombined out of their parts.

A line is what a person would type, with its parts in tags: ``<thing>kettle</thing>``. The writers had
seen neither this code nor its other sentences: how a limit is said differs more between writers than
within any list of ways to say it.
"""

import random
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stategate.stores.files import read_yaml
from stategate.trainers.instruction.marked import mark

#: Ways to say a limit and to name another number, by name.
PARTS: dict[str, list[Any]] = read_yaml(Path(__file__).with_name("parts.yaml").read_text("utf-8"))
WRITTEN = Path(__file__).with_name("written.txt")
_PART = re.compile(r"<(\w+)>(.*?)</\1>")
_LIMIT = ("limit", "high", "low")
_HELD_OUT = 10  # of the requests, one in so many
_OTHER_PART, _OTHER_LIMIT = 0.5, 0.5  # share of parts, and of limits, that are another sentence's
_OTHER_NUMBER = 0.25  # share of texts that name a further number
_OTHER_AMOUNT = 0.7  # share of amounts in digits that are another one
_CENTS = 0.15  # share of these with cents
_END = re.compile(r"<(?:high|low)>")  # the mark that opens an amount
_DIGITS = re.compile(rf"({_END.pattern})\d{{1,4}}(?:\.\d\d)?(?=\D)")

#: A part of a request: its tag ("" for talk, "said" for a whole limit) and its text, marked.
Part = tuple[str, str]


def parts_of(line: str) -> list[Part]:
    """Return the parts of a line in tags; the words and ends of a limit are one part, "said".

    >>> [tag for tag, _ in parts_of("A <thing>mug</thing>, <limit>under</limit> <high>9</high>")]
    ['', 'thing', '', 'said']
    """
    parts: list[Part] = []
    at = 0
    for match in _PART.finditer(line):
        between, tag, text = line[at : match.start()], match[1], match[0]
        if tag in _LIMIT and parts and parts[-1][0] == "said" and not between.strip():
            parts[-1] = ("said", parts[-1][1] + between + text)
        else:
            parts += [("", between)] if between else []
            parts.append(("said" if tag in _LIMIT else tag, text))
        at = match.end()
    return [*parts, ("", line[at:])] if line[at:] else parts


def written_texts(count: int, seed: int) -> Iterator[str]:
    """Yield ``count`` marked texts: the writers' requests with things, values and limits exchanged."""
    requests = [parts_of(line) for i, line in enumerate(_lines()) if i % _HELD_OUT]
    pools: dict[str, list[str]] = {}
    for tag, text in (part for request in requests for part in request):
        if tag != "said" or _has_end(text):
            pools.setdefault(tag, []).append(text)
    pools["said"] += map(_filled, [*PARTS["limits"], *PARTS["other_writers_limits"]])
    rng = random.Random(f"written {seed}")
    for _ in range(count):
        text = _exchanged(rng.choice(requests), pools, rng)
        if rng.random() < _OTHER_NUMBER:
            other = rng.choice(PARTS["others"]).format(n=rng.randint(1, 400))
            text = rng.choice((f"{other}. {text}", f"{text}. {other}", f"{text}, {other}"))
        yield _DIGITS.sub(partial(_redrawn, rng), text)


def _redrawn(rng: random.Random, match: re.Match[str]) -> str:
    """Return another amount for the end of a limit, or the same."""
    if rng.random() >= _OTHER_AMOUNT:
        return match[0]
    amount = rng.choice((rng.randint(3, 99), 5 * rng.randint(2, 60), rng.randint(100, 900)))
    cents = f".{rng.choice(('99', '50', '95'))}" if rng.random() < _CENTS else ""
    return f"{match[1]}{amount}{cents}"


def held_requests() -> list[str]:
    """Return the marked requests that :func:`written_texts` leaves out, as they were written."""
    return _lines()[::_HELD_OUT]


def _lines() -> list[str]:
    return WRITTEN.read_text("utf-8").splitlines()


def _filled(form: str) -> str:
    """Return a form of a limit, marked; its amounts are redrawn later."""
    low, high = mark("low", "20"), mark("high", "45")
    return mark("limit", form.format(low=low, n=high, words=high))


def _has_end(text: str) -> bool:
    """Say whether a limit's text holds an amount, and not only words beside one."""
    return _END.search(text) is not None


def _exchanged(request: Sequence[Part], pools: dict[str, list[str]], rng: random.Random) -> str:
    texts = []
    for tag, text in request:
        share = _OTHER_LIMIT if tag == "said" else _OTHER_PART
        is_whole = tag not in ("", "said") or (tag == "said" and _has_end(text))
        texts.append(rng.choice(pools[tag]) if is_whole and rng.random() < share else text)
    return "".join(texts)
