"""A few invented pages in both observation modes, for tests of whatever reads pages."""

from collections.abc import Iterator, Mapping, Sequence

from stategate.envs.protocols import Observation
from stategate.envs.webshop import pages
from stategate.envs.webshop.catalogue import Product

INSTRUCTION = "Find me a warm wool scarf with color: red, and price lower than 30.00 dollars"


def observations() -> Iterator[Observation]:
    """Yield a search page, then results and an item in both modes."""
    listed = [
        _product(f"B0TEST{i:04d}", f"Invented wool scarf number {i}, soft", f"${i}.50")
        for i in range(10)
    ]
    values = {"color": ("red", "dark blue", "green"), "size": ("one size", 'wide 10"')}
    product = _product("B0TEST0010", "An invented wool scarf", "$12.00", values)
    search = list(pages.search_nodes(INSTRUCTION))
    results = list(pages.results_nodes(INSTRUCTION, listed, 1, 50))
    item = list(pages.item_nodes(INSTRUCTION, product))
    for nodes, chosen in ((search, None), (results, None), (results, ""), (item, None)):
        yield _observation(nodes, chosen)
    yield _observation(item, '"dark blue"')


def _product(
    asin: str, name: str, price: str, options: Mapping[str, tuple[str, ...]] | None = None
) -> Product:
    return Product(asin, name, "", "", "", "", (), (), price, options or {}, ())


def _observation(nodes: Sequence[pages.Node], chosen: str | None) -> Observation:
    """Draw in text mode, or with ``chosen`` (a part of an item page's address) in rich mode."""
    text = pages.draw_text(nodes) if chosen is None else pages.draw_rich(nodes, chosen, ())
    return Observation(text, pages.affordances(nodes))
