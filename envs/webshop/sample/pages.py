"""A few invented pages in both observation modes, for tests of whatever reads pages."""

from collections.abc import Iterator, Sequence

from envs.protocols import Observation
from envs.webshop.pages import SEARCH

INSTRUCTION = "Find me a warm wool scarf with color: red, and price lower than 30.00 dollars"
_PRODUCTS = [
    (f"B0TEST{i:04d}", f"Invented wool scarf number {i}, soft", f"${i}.50") for i in range(10)
]
_VALUES = {"color": ["red", "dark blue", "green"], "size": ["one size", 'wide 10"']}


def observations() -> Iterator[Observation]:
    """Yield a search page, then results and an item in both modes."""
    lead = ["Instruction:", INSTRUCTION]
    nav = ["Back to Search", "Page 1 (Total results: 50)", "Next >"]
    yield Observation(" [SEP] ".join(["WebShop", *lead, "Search"]), (SEARCH,))
    clicks = ["back to search", "next >", *(asin.lower() for asin, _, _ in _PRODUCTS)]
    facts = [fact for product in _PRODUCTS for fact in product]
    yield Observation(" [SEP] ".join([*lead, *nav, *facts]), _click(clicks))
    rich = "".join(f"\n[button] {a} [button_]\n{t}\n{p}\n" for a, t, p in _PRODUCTS)
    head = f"Instruction:\n{INSTRUCTION}\n[button] Back to Search [button_]\n"
    page = f"{nav[1]}\n[button] Next > [button_]\n"
    yield Observation(head + page + rich, _click(clicks))
    buttons = ["description", "features", "reviews", "buy now"]
    values = [value for group in _VALUES.values() for value in group]
    clicks = ["back to search", "< prev", *buttons, *values]
    groups = [part for name, group in _VALUES.items() for part in (name, *group)]
    item = ["An invented wool scarf", "Price: $12.00", "Rating: N.A."]
    names = ["Description", "Features", "Reviews", "Buy Now"]
    parts = [*lead, "Back to Search", "< Prev", *groups, *item, *names]
    yield Observation(" [SEP] ".join(parts), _click(clicks))
    drawn = "".join(
        f"{name}\n" + "".join(_option(v, v == "dark blue") for v in group)
        for name, group in _VALUES.items()
    )
    tail = "\n".join([*item, *(f"[button] {name} [button_]" for name in names)]) + "\n"
    notice = "You have clicked dark blue.\n"
    yield Observation(notice + head + "[button] < Prev [button_]\n" + drawn + tail, _click(clicks))


def _option(value: str, is_clicked: bool) -> str:
    word = "clicked button" if is_clicked else "button"
    return f"  [{word}] {value} [{word}_]\n"


def _click(targets: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"click[{target}]" for target in targets)
