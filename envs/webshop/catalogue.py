"""The catalogue: official WebShop files in, products as the original engine sees them out."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stategate.language.amounts import price_range
from stategate.stores.errors import UserError, error_with_type, user_error_context, warn_once
from stategate.stores.files import parse_json
from stategate.stores.text import without_line_breaks

SAMPLE = Path(__file__).parent / "sample"
PRODUCT_FILES = ("items_shuffle_1000.json", "items_shuffle.json")
ATTRIBUTE_FILES = ("items_ins_v2_1000.json", "items_ins_v2.json")
HUMAN_FILE = "items_human_ins.json"


@dataclass(frozen=True, slots=True)
class Product:
    """One product. ``prices`` are the low and high price (one entry if fixed), in dollars."""

    asin: str
    name: str
    category: str
    query: str
    product_category: str
    description: str
    bullets: tuple[str, ...]
    prices: tuple[float, ...]
    price_tag: str
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalogue:
    """Products in file order, by ASIN, and what identifies the files they came from."""

    products: dict[str, Product]
    human: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""


def read_catalogue(folder: str | Path) -> Catalogue:
    """Read the official files from ``folder`` ("sample" is the one that ships with the code).

    A record that cannot be read is skipped with a warning. Raises ``UserError`` for a missing folder or
    file, broken JSON, or files without any product.
    """
    path = SAMPLE if str(folder) == "sample" else Path(folder).expanduser()
    if not path.is_dir():
        raise UserError(f"no WebShop data in '{folder}': use data 'official' or 'sample'")
    digest = hashlib.sha256()
    items = _read(_first(path, PRODUCT_FILES), digest)
    attributes = _read(_first(path, ATTRIBUTE_FILES), digest)
    human_path = path / HUMAN_FILE
    human = _read(human_path, digest) if human_path.is_file() else {}
    if not isinstance(items, list) or not isinstance(attributes, dict):
        raise UserError(
            f"'{path}' does not hold WebShop's files: a list of items and their attributes"
        )
    products: dict[str, Product] = {}
    problem, skipped = "", 0
    for number, item in enumerate(items):
        try:
            asin = str(item["asin"])
            if asin == "nan" or len(asin) > 10 or asin in products:
                continue
            products[asin] = _product(item, attributes.get(asin) or {})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            skipped += 1
            problem = problem or f"product {number} is malformed ({error_with_type(error)})"
    if not products:
        raise UserError(f"'{path}' holds no products{': ' * bool(problem)}{problem}")
    if skipped:
        warn_once(f"{path.name}: {skipped} of {len(items)} products were skipped: {problem}")
    people = human if isinstance(human, dict) else {}
    return Catalogue(products, people, digest.hexdigest())


def _first(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"'{folder}' has no {names[0]}: copy it there, or use data 'official'")


def _read(path: Path, digest: Any) -> Any:
    with user_error_context(f"cannot read '{path}'", "fetch it again"):
        raw = path.read_bytes()
        digest.update(raw)
        return parse_json(raw)


def _product(item: Mapping[str, Any], attributes: Mapping[str, Any]) -> Product:
    bullets = item["small_description"]
    prices, tag = read_price(item.get("pricing"))
    return Product(
        asin=str(item["asin"]),
        name=_line(item["name"]),
        category=str(item["category"]),
        query=str(item["query"]).lower().strip(),
        product_category=str(item["product_category"]),
        description=str(item["full_description"]),
        bullets=tuple(bullets) if isinstance(bullets, list) else (str(bullets),),
        prices=prices,
        price_tag=tag,
        options=_options(item.get("customization_options")),
        attributes=tuple(attributes.get("attributes", ("DUMMY_ATTR",))),
        instruction=attributes.get("instruction"),
        instruction_attributes=tuple(attributes.get("instruction_attributes") or ()),
    )


def _line(value: Any) -> str:
    """Return a name as one text node of a page: without line breaks and the mark between nodes."""
    return without_line_breaks(str(value)).replace("[SEP]", "(SEP)")


def read_price(pricing: str | float | None) -> tuple[tuple[float, ...], str]:
    """Return the prices in "$5.00 to $9.00" (at most two) and the tag that pages show."""
    if not pricing:
        return (100.0,), "$100.0"
    prices = price_range(str(pricing) if isinstance(pricing, (int, float)) else pricing)
    if not prices:
        raise ValueError(f"pricing {pricing!r}")
    if len(prices) == 1:
        return prices, f"${prices[0]}"
    return prices[:2], f"${prices[0]} to ${prices[1]}"


def search_text(product: Product) -> str:
    """Return the text of ``product`` that the search indexes."""
    options = ", and ".join(f"{name}: {', '.join(vs)}" for name, vs in product.options.items())
    first = product.bullets[0] if product.bullets else ""
    return f"{product.name} {product.description} {first} {options}".lower()


def _options(raw: Any) -> Mapping[str, tuple[str, ...]]:
    options: dict[str, tuple[str, ...]] = {}
    for name, contents in (raw or {}).items():
        if contents is not None:
            values = (_line(c["value"]).strip().replace("/", " | ").lower() for c in contents)
            options[_line(name).lower()] = tuple(values)
    return options
