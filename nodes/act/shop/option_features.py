"""An option value as numbers: whether it is asked for, and what its group has chosen already."""

from stategate.nodes.act.shop.page import ShopPage, Trail
from stategate.stores.text import one_line

OPTION = (
    "asked",
    "excluded",
    "none asked",
    "against none",
    "best of group",
    "is asked",
    "found",
    "whole",
    "chosen now",
    "group chosen",
    "chosen rightly",
    "group asked",
    "group size",
    "clicked here before",
    "option row",
    "against the next",
)


def option_features(page: ShopPage, trail: Trail) -> dict[str, list[float]]:
    """Return the features of each readable option value, by its click."""
    clicked = set(trail.since)
    groups = dict(page.options)
    rows: dict[str, list[float]] = {}
    for asked in page.wanted.choices:
        now = chosen_value(page, trail, asked.name)
        best = asked.best
        ordered = sorted(asked.asked, reverse=True)
        is_asked = asked.asked[best] >= asked.none
        right = now is not None and is_asked and one_line(now) == one_line(asked.values[best])
        for i, (value, action) in enumerate(groups[asked.name]):
            quality = asked.spans[i].quality
            other = ordered[1] if i == best and len(ordered) > 1 else ordered[0]
            rows[action] = [
                asked.asked[i],
                asked.excluded[i],
                asked.none,
                asked.asked[i] - asked.none,
                float(i == best),
                float(i == best and is_asked),
                sum(quality) / len(quality) if quality else 0.0,
                float(asked.spans[i].is_whole),
                float(now is not None and one_line(value) == one_line(now)),
                float(now is not None),
                float(right),
                float(is_asked),
                min(len(asked.values), 20) / 10,
                float(one_line(action) in clicked),
                1.0,
                asked.asked[i] - other,
            ]
    return rows


def pending(page: ShopPage, trail: Trail) -> tuple[int, int, int]:
    """Count the groups with an asked value that is not chosen, without one, and with one only alike."""
    waiting = open_ = unlike = 0
    for asked in page.wanted.choices:
        now = chosen_value(page, trail, asked.name)
        best = asked.best
        if asked.asked[best] >= asked.none:
            waiting += now is None or one_line(now) != one_line(asked.values[best])
            unlike += not asked.spans[best].is_whole
        else:
            open_ += 1
    return waiting, open_, unlike


def chosen_value(page: ShopPage, trail: Trail, group: str) -> str | None:
    """Return the value that ``group`` has, by the page's own mark or by the visible clicks."""
    if group in page.chosen:
        return page.chosen[group]
    values = {one_line(action): value for value, action in dict(page.options).get(group, ())}
    return next((values[action] for action in reversed(trail.since) if action in values), None)
