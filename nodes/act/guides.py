"""Which actions a small model need not be offered, judged from the built context alone.

Small models buy before they choose options, re-read pages and click what is chosen already. Each
rule below reads a line of the prompt that says so; nothing else is known here.
"""

import re

from nodes.protocols import BuiltContext

_CHOSEN = re.compile(r"^Chosen: .+? = (.+)$", re.MULTILINE)
_DONE = re.compile(r"^\d+\. (.+)$", re.MULTILINE)
_PAGES = ("click[description]", "click[features]", "click[reviews]", "click[attributes]")


def guided(context: BuiltContext) -> tuple[str, ...]:
    """Return the readable actions less the pointless ones; all of them if none would be left.

    - "buy now" waits while a line says "Not chosen yet:";
    - a value that a "Chosen:" line names is not clicked again;
    - description, features and reviews are not opened again after "Actions so far" shows them, nor
      a product opened that was opened before, while there is something else to do.
    """
    text = context.text
    chosen = {f"click[{value}]" for value in _CHOSEN.findall(text)}
    tail = text.partition("Actions so far:\n")[2]
    done = set(_DONE.findall(tail))
    pointless = chosen | {action for action in done if _opens(action)}
    if "Not chosen yet:" in text:
        pointless.add("click[buy now]")
    left = tuple(action for action in context.actions if action not in pointless)
    return left or context.actions


def _opens(action: str) -> bool:
    return action in _PAGES or re.fullmatch(r"click\[b[0-9a-z]{9}\]", action) is not None
