"""Paraphrases of instructions by a language model, kept only where every value stays.

    stategate data paraphrases --out paraphrased.yaml -n 60

The model rewrites patterns to train on. In what it returns each slot must stand exactly once, and no
other number or slot may, so whatever a goal fills it with, no value is lost or made up. What is refused
is counted by its reason. (Asked to keep phrases instead of slots, a 1.5B model lost one in 24 of 24.)
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from stategate.envs.webshop.wordings import families, names_of
from stategate.stores.files import parse_json, write_lines, write_text
from stategate.stores.text import one_line

_SLOTS = ("kind", "attributes", "values", "limit")
_ASK = (
    "Rewrite this message template in other words, as another customer would write it. Keep the "
    "placeholders {{kind}}, {{attributes}}, {{values}} and {{limit}}, each exactly once. Answer with "
    "the new template alone. Request: {request}"
)
_MOST = 260  # characters of a pattern
_PART = re.compile(r"\[([^\[\]]*)\]")


def paraphrase(ask: Callable[[str], str], n: int, seed: int = 0) -> tuple[list[str], Counter[str]]:
    """Return new patterns of ``n`` requests, and how many were refused for which reason.

    ``ask`` answers a prompt.
    """
    rng = random.Random(seed)
    pool = [p for name in names_of("train") for p in families()[name]["patterns"]]
    patterns: dict[str, None] = {}
    refused: Counter[str] = Counter()
    for pattern in rng.sample(pool, min(n, len(pool))):
        request = one_line(_PART.sub(r"\1", pattern))
        reply = one_line(ask(_ASK.format(request=request))).strip(' "`')
        new, why = generalised(reply, {slot: f"{{{slot}}}" for slot in _SLOTS})
        if why:
            refused[why] += 1
        elif new in patterns or reply.lower() == request.lower():
            refused["nothing new"] += 1
        else:
            patterns[new] = None
    return list(patterns), refused


def resumed(ask: Callable[[str], str], path: Path) -> Callable[[str], str]:
    """Return ``ask`` with what it answered kept in ``path``, JSON lines: a stopped run goes on."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    known = {row["prompt"]: str(row["reply"]) for row in map(parse_json, lines)}

    def answer(prompt: str) -> str:
        if prompt not in known:
            known[prompt] = ask(prompt)
            write_lines(path, [{"prompt": p, "reply": reply} for p, reply in known.items()])
        return known[prompt]

    return answer


def generalised(text: str, parts: dict[str, str]) -> tuple[str, str]:
    """Return ``text`` as a pattern, and why it is none ("" where it is one)."""
    for slot, part in parts.items():
        found = [m.start() for m in re.finditer(re.escape(part), text, re.IGNORECASE)]
        if len(found) != 1:
            return "", f"{slot} lost" if not found else f"{slot} twice"
        text = f"{text[: found[0]]}\x00{slot}\x01{text[found[0] + len(part) :]}"
    rest = re.sub(r"\x00\w+\x01", "", text)
    if re.search(r"[\d{}\[\]]", rest) or len(text) > _MOST:
        return "", "something added"
    # What a goal does not ask goes with its slot alone, so words around it must read on without it.
    for slot in _SLOTS:
        filled = f"{{{slot}}}" if slot == "kind" else f"[{{{slot}}}]"
        text = text.replace(f"\x00{slot}\x01", filled)
    return text, ""


def write(out: Path, patterns: Sequence[str], how: dict[str, Any]) -> None:
    """Write the patterns as a family of wordings."""
    family = {
        "values": ["{value}"],
        "limit": ["under {n} dollars", "for less than {n} dollars", "at most {n} dollars"],
        "patterns": list(patterns),
    }
    head = "".join(f"# {key}: {value}\n" for key, value in how.items())
    body = yaml.safe_dump({"paraphrased": {"paraphrase": family}}, sort_keys=False, width=1000)
    write_text(out, head + body)
