"""What people asked in recorded sessions of the original shop, where a product here meets it.

The shop's own server writes a log a session, JSON lines whose first row has the goal. Its product is
of the full catalogue; here it counts as served if some product has the full reward with some options.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.reward import score
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json


def session_goals(
    folder: str | Path, products: Mapping[str, Product], prices: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Return the goals of the sessions in ``folder`` that can be served, in order of their files.

    ``asin`` is the first product that serves one, ``bought`` the options that do. Raises ``UserError``
    for a folder without sessions, or broken ones.
    """
    files = sorted(Path(folder).glob("*.jsonl"))
    if not files:
        raise UserError(f"'{folder}' holds no sessions (*.jsonl) of the shop's server")
    goals = []
    for file in files:
        with user_error_context(f"'{file.name}' is no log of the shop's server"):
            with file.open(encoding="utf-8") as lines:
                goal: dict[str, Any] = parse_json(next(lines, ""))["goal"]
            goal["goal_options"] = list(goal["goal_options"])
            served = next(_serving(goal, products.values(), prices), None)
        if served is not None:
            asin, options = served
            text = " ".join(goal["instruction_text"].split())
            found = {"instruction_text": text, "asin": asin, "bought": options, "weight": 1}
            goals.append({**goal, **found, "session": file.stem})
    return goals


def _serving(
    goal: Mapping[str, Any], products: Sequence[Product] | Any, prices: Mapping[str, float]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (product, options) with the full reward."""
    count = len(goal["attributes"]) + len(goal["goal_options"]) + 1
    enough = (count - len(goal["goal_options"])) / count
    for product in products:
        price = prices[product.asin]
        if price > goal["price_upper"] > 0:
            continue
        chosen: dict[str, str] = {}
        best = score(product, goal, price, chosen)[0]
        if best < enough - 1e-9:
            continue
        for name, values in product.options.items():
            trials = [
                (score(product, goal, price, {**chosen, name: str(v)})[0], str(v)) for v in values
            ]
            top = max(trials, default=(0.0, ""))
            if top[0] > best:
                best, chosen = top[0], {**chosen, name: top[1]}
        if best > 1 - 1e-9:
            yield product.asin, chosen
