"""Times in English text, resolved against the day on which it was said ("last week", "in May").

Own rules and no library: dateparser reads single dates of many languages, but neither spans ("last
weekend") nor which words of a sentence are a date, and takes milliseconds a phrase. Days are UTC.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {
    word: number
    for number, words in enumerate(
        ("", "a|an|one", "two|a couple of|couple of", "three|a few|few", "four", "five", "six", "seven",
         "eight", "nine", "ten", "eleven", "twelve")
    )
    for word in words.split("|")
    if word
}  # fmt: skip
_NUMBER = r"(?P<n>\d{1,3}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + r")"
_UNIT = r"(?P<unit>day|night|week|fortnight|month|year|weekend)s?"
_MONTH = r"(?P<month>" + "|".join(f"{m}|{m[:3]}" if m != "may" else m for m in _MONTHS) + r")\.?"
_WEEKDAY = r"(?P<weekday>" + "|".join(_DAYS) + r")"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"


@dataclass(frozen=True)
class Span:
    """A time that a text names: from ``start`` to before ``end`` (Unix seconds); ``text`` its words."""

    start: float
    end: float
    text: str
    place: int = 0

    @property
    def day(self) -> str:
        """The first day as ``2023-05-08``."""
        return f"{datetime.fromtimestamp(self.start, UTC):%Y-%m-%d}"

    def shown(self) -> str:
        """Return the day, or the first and the last, or the month or year that it fills."""
        first = datetime.fromtimestamp(self.start, UTC)
        last = datetime.fromtimestamp(self.end, UTC) - timedelta(days=1)
        if first.date() >= last.date():
            return f"{first:%Y-%m-%d}"
        if first.day == 1 and (last + timedelta(days=1)).day == 1:
            if (first.year, first.month) == (last.year, last.month):
                return f"{first:%Y-%m}"
            if (first.month, last.month, first.year) == (1, 12, last.year):
                return f"{first:%Y}"
        return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"


_Rule = Callable[[re.Match[str], datetime], tuple[datetime, datetime] | None]


def spans(text: str, said: float) -> list[Span]:
    """Return the times that ``text``, said at ``said`` (Unix seconds), names, in order."""
    today = datetime.fromtimestamp(said, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    found: list[Span] = []
    taken: list[tuple[int, int]] = []
    for pattern, rule in _RULES:
        for match in pattern.finditer(text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            try:
                both = rule(match, today)
            except (ValueError, OverflowError):  # the 31st of June, the year 99999
                continue
            if both is not None:
                taken.append(match.span())
                start, end = (moment.timestamp() for moment in both)
                found.append(Span(start, end, match[0], match.start()))
    return sorted(found, key=lambda span: span.place)


def resolved(text: str, said: float) -> str:
    """Return ``text`` with the day behind each relative time: "last week (2023-05-01 to …)"."""
    out, last = [], 0
    for span in spans(text, said):
        end = span.place + len(span.text)
        if re.search(_YEAR, span.text):
            continue
        out += [text[last:end], f" ({span.shown()})"]
        last = end
    return "".join([*out, text[last:]])


def _days(today: datetime, first: int, count: int = 1) -> tuple[datetime, datetime]:
    start = today + timedelta(days=first)
    return start, start + timedelta(days=count)


def _month(year: int, month: int) -> tuple[datetime, datetime]:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, (start + timedelta(days=32)).replace(day=1)


def _year(year: int) -> tuple[datetime, datetime]:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def _number(words: str) -> int:
    return int(words) if words.isdigit() else _NUMBERS[words.lower()]


def _simple(first: int) -> _Rule:
    return lambda match, today: _days(today, first)


def _counted(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "three weeks ago", "in two months", "a year from now"."""
    sign = 1 if match["ahead"] or match["later"] else -1
    return _moved(today, sign * _number(match["n"]), match["unit"].lower())


def _moved(today: datetime, count: int, unit: str) -> tuple[datetime, datetime] | None:
    if unit in ("day", "night"):
        return _days(today, count)
    if unit in ("week", "fortnight"):
        return _days(today, 7 * count * (2 if unit == "fortnight" else 1))
    if unit == "month":
        return _month(today.year, today.month + count)
    if unit == "year":
        return _year(today.year + count)
    saturday = today + timedelta(days=5 - today.weekday())
    return _days(saturday, 7 * count, 2)


def _beside(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "last week", "next month", "this weekend", "last Friday", "next May"."""
    which = match["which"].lower().split()[-1]
    step = {"last": -1, "past": -1, "previous": -1, "this": 0, "coming": 1, "next": 1}[which]
    if match["weekday"]:
        day = _DAYS.index(match["weekday"].lower())
        away = day - today.weekday()
        if step < 0:
            away -= 7 if away >= 0 else 0
        elif step > 0:
            away += 7 if away <= 0 else 0
        return _days(today, away)
    if match["month"]:
        month = _month_number(match["month"])
        year = today.year
        if step < 0 and month >= today.month:
            year -= 1
        if step > 0 and month <= today.month:
            year += 1
        return _month(year, month)
    unit = match["unit"].lower()
    if unit in ("day", "night"):
        return _days(today, step)
    if unit == "week":
        return _days(today - timedelta(days=today.weekday()), 7 * step, 7)
    if unit == "weekend" and step < 0 and today.weekday() < 5:
        return _moved(today, -1, unit)
    if unit == "weekend" and step > 0:
        return _moved(today, 0 if today.weekday() < 5 else 1, unit)
    return _moved(today, step, unit)


def _month_number(text: str) -> int:
    return next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(text.lower()[:3]))


def _dated(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "8 May 2023", "on the 8th of May"; without a year it is the nearest one."""
    month, day = _month_number(match["month"]), int(match["day"])
    if match["year"]:
        return _days(datetime(int(match["year"]), month, day, tzinfo=UTC), 0)
    near = [datetime(today.year + i, month, day, tzinfo=UTC) for i in (-1, 0, 1)]
    return _days(min(near, key=lambda date: abs(date - today)), 0)


def _in_month(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    month = _month_number(match["month"])
    if match["year"]:
        return _month(int(match["year"]), month)
    years = (today.year - 1, today.year, today.year + 1)
    return min(
        (_month(year, month) for year in years), key=lambda both: abs(both[0] - today)
    )  # fmt: skip


def _iso(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    year, month, day = (int(match[name]) for name in ("year", "month", "day"))
    return _days(datetime(year, month, day, tzinfo=UTC), 0)


def _on_weekday(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "on Friday": the nearest one."""
    day = _DAYS.index(match["weekday"].lower())
    back = (today.weekday() - day) % 7
    ahead = (day - today.weekday()) % 7
    return _days(today, -back if back <= ahead else ahead)


def _rules() -> Iterator[tuple[re.Pattern[str], _Rule]]:
    def of(pattern: str, rule: _Rule) -> tuple[re.Pattern[str], _Rule]:
        return re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE), rule

    yield of(rf"{_YEAR}-(?P<month>\d\d)-(?P<day>\d\d)", _iso)
    yield of(rf"(?:on )?(?:the )?{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?", _dated)
    yield of(rf"(?:on )?{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?", _dated)
    yield of(r"(?:the )?day before yesterday", _simple(-2))
    yield of(r"(?:the )?day after tomorrow", _simple(2))
    yield of(r"yesterday|last night", _simple(-1))
    yield of(r"today|tonight|this (?:morning|afternoon|evening)", _simple(0))
    yield of(r"tomorrow", _simple(1))
    yield of(r"(?:the )?week before last", lambda m, t: _days(t - timedelta(t.weekday()), -14, 7))
    ending = r"(?P<later> from now| later)?(?(ahead)|(?(later)| (?:ago|back)))"
    yield of(rf"(?P<ahead>in )?{_NUMBER} {_UNIT}{ending}", _counted)
    yield of(
        r"(?P<which>(?:the |this )?(?:last|past|previous|this|coming|next)) "
        rf"(?:{_WEEKDAY}|{_MONTH}|{_UNIT})",
        _beside,
    )
    yield of(rf"(?:in|since|until|by|during|of|for) {_MONTH}(?:,? {_YEAR})?", _in_month)
    yield of(rf"{_MONTH},? {_YEAR}", _in_month)
    yield of(
        rf"(?:in|since|until|by|during|of|back in) {_YEAR}", lambda m, t: _year(int(m["year"]))
    )
    yield of(rf"on {_WEEKDAY}", _on_weekday)


_RULES = tuple(_rules())
