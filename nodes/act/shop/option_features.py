"""An option value as numbers: whether it is the wished one, and what its group has chosen already."""

from functools import lru_cache

from nodes.act.shop.reading import Reading, Trail
from stores.text import overlap, words_of

OPTION = (
    "is wished", "same words", "wish covered", "value covered", "letters alike", "best of group",
    "group wished", "group chosen", "chosen now", "chosen rightly", "wish offered", "said",
    "said best", "group size", "clicked here before", "option row",
)  # fmt: skip


def option_features(page: Reading, trail: Trail) -> dict[str, list[float]]:
    """Return the features of each readable option value, by its click."""
    wished = _wished(page)
    clicked = set(trail.since)
    rows: dict[str, list[float]] = {}
    for group, values in page.options:
        wish = wished.get(group)
        fits = [_fit(wish, value) for value, _ in values]
        best = max((sum(fit) for fit in fits), default=0.0)
        exact = any(fit[0] or fit[1] for fit in fits)
        now = chosen_value(page, trail, group)
        right = now is not None and wish is not None and _is_same(wish, now)
        said = [_said(value, page.instruction) for value, _ in values]
        for (value, action), fit, heard in zip(values, fits, said, strict=True):
            is_best = wish is not None and sum(fit) == best and best > 0
            rows[action] = [
                *fit, float(is_best), float(wish is not None), float(now is not None),
                float(value == now), float(right), float(exact), float(heard > 0),
                float(heard > 0 and heard == max(said)), min(len(values), 20) / 10,
                float(" ".join(action.split()) in clicked), 1.0,
            ]  # fmt: skip
    return rows


def pending(page: Reading, trail: Trail) -> tuple[int, int, int]:
    """Count the wished values that are offered but not chosen, not offered, and only offered alike."""
    groups = dict(page.options)
    waiting = missing = unlike = 0
    for group, wish in _wished(page).items():
        values = [value for value, _ in groups.get(group, ())]
        now = chosen_value(page, trail, group)
        if any(_is_same(wish, value) for value in values):
            waiting += now is None or not _is_same(wish, now)
        elif any(_fit(wish, value)[2] > 0 for value in values):
            unlike += 1
            waiting += now is None
        else:
            missing += 1
    if not page.wish.options:
        for group, values_ in page.options:
            is_said = any(_said(value, page.instruction) for value, _ in values_)
            waiting += is_said and chosen_value(page, trail, group) is None
    return waiting, missing, unlike


def chosen_value(page: Reading, trail: Trail, group: str) -> str | None:
    """Return the value that ``group`` has, by the page's own mark or by the visible clicks."""
    if group in page.chosen:
        return page.chosen[group]
    values = {
        " ".join(action.split()): value for value, action in dict(page.options).get(group, ())
    }
    return next((values[action] for action in reversed(trail.since) if action in values), None)


def _wished(page: Reading) -> dict[str, str]:
    """Return the wished value of each group, groups named as on the page where only case differs."""
    names = {name.lower().strip(): name for name, _ in page.options}
    return {names.get(g.lower().strip(), g): value for g, value in page.wish.options}


def _fit(wish: str | None, value: str) -> tuple[float, float, float, float, float]:
    return (0.0,) * 5 if wish is None else _compared(wish.lower(), value.lower())


@lru_cache(maxsize=65536)
def _compared(wish: str, value: str) -> tuple[float, float, float, float, float]:
    ours, theirs = words_of(wish), words_of(value)
    is_equal = " ".join(wish.split()) == " ".join(value.split())
    return (
        float(is_equal),
        float(bool(ours) and set(ours) == set(theirs)),
        overlap(ours, value) if ours else float(is_equal),
        overlap(theirs, wish) if theirs else float(is_equal),
        _alike(wish, value),
    )


def _is_same(wish: str, value: str) -> bool:
    fit = _fit(wish, value)
    return bool(fit[0] or fit[1])


def _alike(first: str, second: str) -> float:
    """Return the share of letter triples that two short texts have in common."""
    a, b = ({f"  {text} "[i : i + 3] for i in range(len(text) + 1)} for text in (first, second))
    return len(a & b) / len(a | b)


def _said(value: str, instruction: str) -> float:
    """Return how many words of ``value`` there are if the instruction says them all, else 0."""
    words = words_of(value)
    return len(words) / 4 if words and overlap(words, instruction) == 1.0 else 0.0
