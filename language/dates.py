"""Times in English text, resolved against the day on which it was said ("last week", "in May").

Own rules and no library: on marked sentences dateparser finds fewer times, takes "we" and "sat" for
some, knows no spans ("last weekend") and is forty times slower (docs/results/memory.md). Days
are UTC, seasons those of the northern hemisphere.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stategate.language.numbers import CARDINALS, ORDINALS
from stategate.language.words import MONTHS, WEEKDAYS

_NUMBERS = {
    **{word: n for word, n in CARDINALS.items() if n <= 50},
    **{"a": 1, "an": 1, "a couple of": 2, "couple of": 2, "a few": 3, "few": 3, "a dozen": 12},
    "half a": 0.5,
}
#: First months of the seasons; days of the year that have names, as (month, day).
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_FEASTS = {
    "christmas eve": (12, 24),
    "christmas day": (12, 25),
    "christmas": (12, 25),
    "boxing day": (12, 26),
    "new year's eve": (12, 31),
    "new year's day": (1, 1),
    "valentine's day": (2, 14),
    "halloween": (10, 31),
}
_DECADES = {
    word: 1900 + 10 * number
    for number, word in enumerate(
        "twenties thirties forties fifties sixties seventies eighties nineties".split(), 2
    )
}
_NUMBER = r"(?P<n>\d{1,3}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + r")"
_UNIT = r"(?P<unit>day|night|week|fortnight|month|year|weekend)s?"
_MONTH = (
    r"(?P<month>"
    + "|".join(f"{m}|sept|sep" if m == "september" else f"{m}|{m[:3]}" for m in MONTHS)
    + r")\.?"
)
_WEEKDAY = r"(?P<weekday>" + "|".join(WEEKDAYS) + r")"
_WORDED = "|".join(sorted(ORDINALS, key=len, reverse=True))
_DAY = rf"(?P<day>[0-3]?\d(?:st|nd|rd|th)?|{_WORDED})"
_NTH = rf"(?P<day>[0-3]?\d(?:st|nd|rd|th)|{_WORDED})"
_SEASON = r"(?P<season>" + "|".join(_SEASONS) + ")"
_DAY_SECONDS = 86400.0
#: What moves a time that follows it: "three days before", "the week after".
_SHIFT = re.compile(
    rf"\b(?:{_NUMBER} (?P<unit>day|night|week|fortnight)s?|the (?P<one>day|night|week)) "
    r"(?P<way>before|after) (?:the )?$",
    re.IGNORECASE,
)
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
    found.sort(key=lambda span: span.place)
    return [_anchored(text, span) for span in found]


def _anchored(text: str, span: Span) -> Span:
    """Return the time that "three days before", in front of a time, makes of it."""
    shift = _SHIFT.search(text[: span.place])
    if shift is None:
        return span
    count = 1.0 if shift["one"] else _number(shift["n"])
    unit = (shift["one"] or shift["unit"]).lower()
    days = {"day": 1, "night": 1, "week": 7, "fortnight": 14}[unit] * int(count)
    start = span.start if shift["way"].lower() == "before" else span.end - _DAY_SECONDS
    start += (-1 if shift["way"].lower() == "before" else 1) * days * _DAY_SECONDS
    whole = text[shift.start() : span.place + len(span.text)]
    return Span(start, start + _DAY_SECONDS, whole, shift.start())


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


def _number(words: str) -> float:
    return float(words) if words.isdigit() else _NUMBERS[words.lower()]


def _day_number(words: str) -> int:
    digits = re.match(r"\d+", words)
    return int(digits[0]) if digits else ORDINALS[words.lower()]


def _simple(first: int) -> _Rule:
    return lambda match, today: _days(today, first)


def _counted(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "three weeks ago", "in two months", "a year from now"."""
    sign = 1 if match["ahead"] or match["later"] else -1
    return _moved(today, sign * _number(match["n"]), match["unit"].lower())


def _moved(today: datetime, amount: float, unit: str) -> tuple[datetime, datetime] | None:
    if unit == "year" and amount != int(amount):
        amount, unit = 12 * amount, "month"
    count = int(amount)
    if count != amount:
        return None  # half a day
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
        day = WEEKDAYS.index(match["weekday"].lower())
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
    return next(i for i, name in enumerate(MONTHS, 1) if name.startswith(text.lower()[:3]))


def _dated(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "8 May 2023", "on the 8th of May"; without a year it is the nearest one."""
    month, day = _month_number(match["month"]), _day_number(match["day"])
    if match["year"]:
        return _days(datetime(int(match["year"]), month, day, tzinfo=UTC), 0)
    near = [datetime(today.year + i, month, day, tzinfo=UTC) for i in (-1, 0, 1)]
    return _days(min(near, key=lambda date: abs(date - today)), 0)


def _in_month(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    month = _month_number(match["month"])
    if match["year"]:
        return _month(int(match["year"]), month)
    years = (today.year - 1, today.year, today.year + 1)
    return min((_month(year, month) for year in years), key=lambda both: abs(both[0] - today))


def _iso(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "2024-02-29", "2024/2/29", "29.2.2024"; of "5/20/2024" what is above twelve is the day."""
    year, month, day = (int(match[name]) for name in ("year", "month", "day"))
    if "/" in match[0] and match.start("day") < match.start("year"):
        if month <= 12 and day <= 12 and month != day:
            return None  # 5/6/2024 is in May or in June
        month, day = min(month, day), max(month, day)
    return _days(datetime(year, month, day, tzinfo=UTC), 0)


def _day_and_month(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "on 31.12.": the nearest one."""
    near = (
        datetime(today.year + i, int(match["month"]), int(match["day"]), tzinfo=UTC)
        for i in (-1, 0, 1)
    )
    return _days(min(near, key=lambda date: abs(date - today)), 0)


def _weekdays_ago(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "two Fridays ago": the last one is one Friday ago."""
    back = (today.weekday() - WEEKDAYS.index(match["weekday"].lower())) % 7 or 7
    return _days(today, -back - 7 * int(_number(match["n"]) - 1))


def _weekday_of_week(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "Monday of last week", "Tuesday next week"."""
    step = {"last": -1, "this": 0, "next": 1}[match["which"].lower()]
    day = WEEKDAYS.index(match["weekday"].lower())
    return _days(today, day - today.weekday() + 7 * step)


def _nth(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "on the 20th", "Friday the 10th": the nearest such day."""
    day, near = _day_number(match["day"]), []
    for month in range(today.month - 2, today.month + 3):
        start, end = _month(today.year, month)
        if start + timedelta(days=day - 1) < end:
            near.append(start + timedelta(days=day - 1))
    return _days(min(near, key=lambda date: abs(date - today)), 0)


def _season(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "last summer", "in the summer of 2022", "in spring": three months, the nearest ones."""
    month = _SEASONS[match["season"].lower()]

    def of(year: int) -> tuple[datetime, datetime]:
        return _month(year, month)[0], _month(year, month + 3)[0]

    groups = match.groupdict()
    if groups.get("year"):
        return of(int(groups["year"]))
    every = [of(today.year + i) for i in (-2, -1, 0, 1)]
    which = (groups.get("which") or "").lower().split()[-1:]
    if which == ["last"]:
        return [both for both in every if both[1] <= today][-1]
    if which == ["next"]:
        return next(both for both in every if both[0] > today)
    return min(every, key=lambda both: max(both[0] - today, today - both[1], timedelta()))


def _feast(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "at Christmas", "on New Year's Eve 2021", "last Halloween"; the nearest one."""
    month, day = _FEASTS[match["feast"].lower().replace("’", "'")]
    years = [int(match["year"])] if match["year"] else [today.year + i for i in (-1, 0, 1)]
    days = [datetime(year, month, day, tzinfo=UTC) for year in years]
    which = (match["which"] or "").lower()
    if which == "last":
        days = [date for date in days if date < today][-1:]
    elif which == "next":
        days = [date for date in days if date > today][:1]
    return _days(min(days, key=lambda date: abs(date - today)), 0) if days else None


def _part_of_month(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "at the beginning of May", "late March": ten days of it."""
    both = _in_month(match, today)
    if both is None:
        return None
    part = match["part"].lower()
    if part in ("beginning", "start", "early"):
        return _days(both[0], 0, 10)
    if part in ("end", "late"):
        return both[0] + timedelta(days=20), both[1]
    return _days(both[0], 10, 10)


def _decade(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    year = int(match["year"]) if match["year"] else _DECADES[match["decade"].lower()]
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 10, 1, 1, tzinfo=UTC)


def _before_last(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "the week before last"."""
    unit = match["unit"].lower()
    if unit == "week":
        return _days(today - timedelta(today.weekday()), -14, 7)
    return _moved(today, -2, unit)


def _on_weekday(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Read "on Friday": the nearest one."""
    day = WEEKDAYS.index(match["weekday"].lower())
    back = (today.weekday() - day) % 7
    ahead = (day - today.weekday()) % 7
    return _days(today, -back if back <= ahead else ahead)


def _rules() -> Iterator[tuple[re.Pattern[str], _Rule]]:
    def of(pattern: str, rule: _Rule) -> tuple[re.Pattern[str], _Rule]:
        return re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE), rule

    yield of(rf"{_YEAR}(?P<sign>[-/])(?P<month>\d\d?)(?P=sign)(?P<day>\d\d?)", _iso)
    yield of(rf"(?:on )?(?P<day>\d\d?)\.(?P<month>\d\d?)\.{_YEAR}", _iso)
    yield of(r"(?<=on )(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?!\d)", _day_and_month)
    yield of(rf"(?:on )?(?P<day>\d\d?)/(?P<month>\d\d?)/{_YEAR}", _iso)
    yield of(
        r"(?:at |in )?(?:the )?(?P<part>(?:beginning|start|middle|end)(?= of )|early|late|mid)"
        rf"(?: of| in)?[ -]{_MONTH}(?:,? {_YEAR})?",
        _part_of_month,
    )
    yield of(rf"(?:on )?(?:the )?{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?", _dated)
    yield of(rf"(?:on )?{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?", _dated)
    yield of(r"(?:the )?day before yesterday", _simple(-2))
    yield of(r"(?:the )?day after tomorrow", _simple(2))
    yield of(r"yesterday|last night", _simple(-1))
    yield of(r"today|tonight|this (?:morning|afternoon|evening)", _simple(0))
    yield of(r"tomorrow", _simple(1))
    yield of(r"(?:the )?(?P<unit>night|week|weekend|month|year) before last", _before_last)
    yield of(rf"{_NUMBER} {_WEEKDAY}s ago", _weekdays_ago)
    yield of(rf"(?:on )?{_WEEKDAY}(?: of)? (?P<which>last|this|next) week", _weekday_of_week)
    yield of(r"(?P<which>last|this|next) week(?: on)? " + _WEEKDAY, _weekday_of_week)
    yield of(rf"(?:in )?(?P<which>(?:the )?last|this|next) {_SEASON}(?: of {_YEAR})?", _season)
    yield of(rf"(?:in |since |during |until )?(?:the )?{_SEASON}(?: of)? {_YEAR}", _season)
    yield of(rf"(?:in|since|during|until)(?: the)? {_SEASON}", _season)
    feast = "|".join(sorted(_FEASTS, key=len, reverse=True)).replace("'", "['’]")
    yield of(rf"(?:(?P<which>last|next) )?(?P<feast>{feast})(?:,?(?: of)? {_YEAR})?", _feast)
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
        rf"(?:in|since|until|by|during|of|back in)(?: the year)? {_YEAR}",
        lambda m, t: _year(int(m["year"])),
    )
    yield of(
        r"(?:the )?(?:(?P<year>(?:19|20)\d0)s|(?P<decade>" + "|".join(_DECADES) + "))", _decade
    )
    yield of(rf"(?:on |by |until |from |since |{_WEEKDAY},? )the {_NTH}", _nth)
    yield of(rf"(?<!every )(?<!each )(?:on )?{_WEEKDAY}", _on_weekday)


_RULES = tuple(_rules())
