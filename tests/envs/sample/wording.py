"""How the sample catalogue's titles and instructions are worded (see ``make``)."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any


def title(
    maker: str,
    noun: str,
    kind: Mapping[str, Any],
    attributes: Sequence[str],
    options: Mapping[str, Any],
    known: Mapping[str, Any],
    rng: random.Random,
) -> str:
    """Return a title of 8 to 25 words that names about half of ``attributes``, and some extras."""
    shown = [a for a in attributes if rng.random() < 0.5]
    before = [a for a in shown if known[a]["role"] == "pre"][:1]
    after = [a for a in shown if a not in before]
    head = capitals(" ".join([maker, *before, noun]))
    parts = rng.sample(kind["extras"], rng.randint(2, 3))
    parts += [("for " if known[a]["role"] == "for" else "") + capitals(a) for a in after]
    other = rng.choice(kind["nouns"])
    if other != noun and rng.random() < 0.6:
        parts.append(capitals(other))
    more = [extra for extra in kind["extras"] if extra not in parts]
    while len(" ".join([head, *parts]).split()) < 9 and more:
        parts.append(more.pop())
    rng.shuffle(parts)
    text = ", ".join([head, *parts])
    if options and rng.random() < 0.4:  # as sellers do: one value of an option ends the title
        group = rng.choice(sorted(options))
        text += f" ({rng.choice(options[group])['value']})"
    return text


def capitals(text: str) -> str:
    """Write ``text`` as marketplaces do: "women's 6mm usb mat" becomes "Women's 6mm USB Mat"."""
    words = re.sub(r"(?<![\w'’])[a-z]", lambda found: found.group().upper(), text)
    return re.sub(r"\b(Usb|Led|Bpa|Gmo|Hdmi)\b", lambda found: found.group().upper(), words)


def countable(noun: str) -> str:
    """Return ``noun`` so that "a" and "is" go with it."""
    if not noun.endswith("s") or noun.endswith("ss"):
        return noun
    return f"pair of {noun}" if re.search("shoes|sneakers|headphones", noun) else f"pack of {noun}"


def instruction(query: str, goal: Sequence[str], known: Mapping[str, Any]) -> str:
    """Word a goal as the official synthetic instructions do."""
    by_role: dict[str, list[str]] = {"pre": [], "with": [], "for": []}
    for attribute in goal:
        by_role[known[attribute]["role"]].append(attribute)
    words = ["Find me", ", ".join(by_role["pre"]), query]
    words += [f"{role} {', '.join(by_role[role])}" for role in ("with", "for") if by_role[role]]
    return " ".join(word for word in words if word)


def human(
    product: Mapping[str, Any],
    kind: Mapping[str, Any],
    goal: Sequence[str],
    rng: random.Random,
) -> dict[str, Any]:
    """Word a goal as a person would, in the format of the official human instructions."""
    options = {
        name.lower(): rng.choice(values)["value"].lower()
        for name, values in (product["customization_options"] or {}).items()
    }
    asked = f" in {' and '.join(options.values())}" if options else ""
    noun = kind["nouns"][0]
    style = rng.choice(
        (
            "i am looking for {n}{o}. it should say {a}.",
            "i need {n}{o}, and please make sure about this: {a}",
            "hello, can you find {n}{o} for me? my list says {a}",
        )
    )
    return {
        "asin": product["asin"],
        "instruction": style.format(n=noun, o=asked, a=" and ".join(goal)),
        "attributes": list(goal),
        "options": [f"{name}: {value}" for name, value in options.items()],
        "instruction_attributes": list(goal),
        "instruction_options": list(options.values()),
        "assignment_id": f"SAMPLE{rng.randrange(10**8):08d}",
        "worker_id": "SAMPLE",
    }
