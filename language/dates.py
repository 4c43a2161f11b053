"""Times in English text, resolved against the day on which it was said ("last week", "in May").

Own rules and no library: on marked sentences dateparser finds fewer times, takes "we" and "sat" for
some, knows no spans ("last weekend") and is forty times slower (docs/results/memory.md). Days
are UTC, seasons those of the northern hemisphere. A time without a year is the nearest one, by
the tense of its clause behind or ahead.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stategate.language.sentences import clauses
from stategate.language.words import CARDINALS, MONTHS, ORDINALS, WEEKDAYS

_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_NUMBERS = {word: n for word, n in CARDINALS.items() if n <= 50} | _LISTS["numbers"]
_NEAR, _SEASONS, _FEASTS, _STEPS, _DAYS, _TENSES = (
    _LISTS[k] for k in ("near", "seasons", "feasts", "steps", "days", "tenses")
)
_PAST = frozenset(_LISTS["past"].split())
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
_FEAST = "|".join(sorted(_FEASTS, key=len, reverse=True)).replace("'", "['’]")
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_AGAINST = 30  # times farther is a time that the tense is against
_STOPS = str.maketrans(dict.fromkeys(".!?;,", "\n"))
#: From and to before which a time lasts.
_Times = tuple[datetime, datetime]
_Rule = Callable[[re.Match[str], datetime], _Times | None]


@dataclass(frozen=True)
class Span:
    """A time that a text names: from ``start`` to before ``end`` (Unix seconds); ``text`` its words."""

    start: float
    end: float
    text: str
    place: int = 0

    def label(self) -> str:
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


def spans(text: str, reference: float) -> list[Span]:
    """Return the periods that ``text`` names, relative to ``reference`` (Unix seconds), in order."""
    today = datetime.fromtimestamp(reference, UTC).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    matches: list[Span] = []
    covered: list[tuple[int, int]] = []
    for pattern, rule in _RULES:
        for match in pattern.finditer(text):
            if any(match.start() < end and start < match.end() for start, end in covered):
                continue
            try:
                period = rule(match, today)
            except (ValueError, OverflowError):  # the 31st of June, the year 99999
                continue
            if period is not None:
                covered.append(match.span())
                start, end = (moment.timestamp() for moment in period)
                matches.append(Span(start, end, match[0], match.start()))
    return sorted(matches, key=lambda span: span.place)


def resolved(text: str, reference: float) -> str:
    """Return ``text`` with the day behind each relative time: "last week (2023-05-01 to …)"."""
    out, last = [], 0
    for span in spans(text, reference):
        end = span.place + len(span.text.rstrip("."))
        if re.search(_YEAR, span.text):
            continue
        out += [text[last:end], f" ({span.label()})"]
        last = end
    return "".join([*out, text[last:]])


def _days(today: datetime, first: int, count: int = 1) -> _Times:
    start = today + timedelta(days=first)
    return start, start + timedelta(days=count)


def _month(year: int, month: int) -> _Times:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, (start + timedelta(days=32)).replace(day=1)


def _moved(today: datetime, amount: float, unit: str) -> _Times | None:
    """Return the day, week, month or year that is ``amount`` units away."""
    if unit == "year" and amount != int(amount):
        amount, unit = 12 * amount, "month"
    count = int(amount)
    if count != amount:
        return None  # half a day
    if unit in _DAYS:
        return _days(today, count * _DAYS[unit])
    if unit == "month":
        return _month(today.year, today.month + count)
    if unit == "year":
        return _year(today.year + count)
    saturday = today + timedelta(days=5 - today.weekday())
    return _days(saturday, 7 * count, 2)


def _year(year: int) -> _Times:
    return _month(year, 1)[0], _month(year + 1, 1)[0]


def _tense(match: re.Match[str]) -> int:
    """Return -1 for a time that is past by the tense of its clause, 1 for one to come, else 0.

    The nearest auxiliary decides; where there is none, a verb in the past ("We moved in May."), then
    "until".
    """
    text = match.string.translate(_STOPS)
    before = "".join(clauses(text[: match.start()].rpartition("\n")[2])[-1:]).split()
    after = text[match.end() :].partition("\n")[0].split()
    for word in (match[0].split()[0], *reversed(before), *after):
        verb = word.lower().replace("’", "'").removesuffix("n't").rpartition("'")[2]  # of "I'll"
        if verb in _TENSES:
            return int(_TENSES[verb])
    verbs = [word for word in (*before, *after) if word.islower()]
    regular = any(len(word) > 4 and word.endswith("ed") and word[-3] != "e" for word in verbs)
    if regular or not _PAST.isdisjoint(verbs):
        return -1
    return int(not {"until", "till"}.isdisjoint((*before[-1:], match[0].split()[0])))


def _nearest(times: Sequence[_Times], match: re.Match[str], today: datetime) -> _Times:
    """Return the one whose middle is nearest to today; one against the tense counts as farther."""
    tense = _tense(match)

    def distance(time: _Times) -> timedelta:
        is_against = time[0] > today if tense < 0 else time[1] <= today
        factor = _AGAINST if tense and is_against else 1
        return factor * abs((time[0] - today) + (time[1] - today))

    return min(times, key=distance)


def _yearly(match: re.Match[str], today: datetime, of: Callable[[int], _Times]) -> _Times:
    """Return what comes once a year, of the year that is named, of last or next, or the nearest."""
    groups = match.groupdict()
    if groups.get("year"):
        return of(int(groups["year"]))
    every = [of(today.year + i) for i in (-2, -1, 0, 1)]
    which = (groups.get("which") or "").lower().split()[-1:]
    if which == ["last"]:
        return [period for period in every if period[1] <= today][-1]
    if which == ["next"]:
        return next(period for period in every if period[0] > today)
    return _nearest(every, match, today)


def _number(words: str) -> float:
    digits = re.match(r"\d+", words)
    return float(digits[0] if digits else (_NUMBERS | ORDINALS)[words.lower()])


def _month_number(text: str) -> int:
    if text.isdigit():
        return int(text)
    return next(i for i, name in enumerate(MONTHS, 1) if name.startswith(text.lower()[:3]))


def _weekday(match: re.Match[str]) -> int:
    return WEEKDAYS.index(match["weekday"].lower())


# Rules: what a match means on a day ----------------------------------------------------------------


def _counted(match: re.Match[str], today: datetime) -> _Times | None:
    """Read "three weeks ago", "in two months", "a year from now"."""
    sign = 1 if match["ahead"] or match["later"] else -1
    return _moved(today, sign * _number(match["n"]), match["unit"].lower())


def _relative(match: re.Match[str], today: datetime) -> _Times | None:
    """Read "last week", "next month", "this weekend", "last Friday", "next May"."""
    step = _STEPS[match["which"].lower().split()[-1]]
    if match["weekday"]:
        away = _weekday(match) - today.weekday()
        behind, ahead = (7 if away >= 0 else 0), (7 if away <= 0 else 0)
        return _days(today, away - behind if step < 0 else away + ahead if step else away)
    if match["month"]:
        month = _month_number(match["month"])
        is_over = step < 0 and month >= today.month
        return _month(today.year - is_over + (step > 0 and month <= today.month), month)
    unit = match["unit"].lower()
    if unit == "week":
        return _days(today - timedelta(days=today.weekday()), 7 * step, 7)
    if unit == "weekend" and step > 0 and today.weekday() < 5:
        step = 0
    return _moved(today, step, unit)


def _dated(match: re.Match[str], today: datetime) -> _Times | None:
    """Read "8 May 2023", "on the 8th of May", "on 31.12.", "2024-02-29", "last Halloween".

    Of "5/20/2024" what is above twelve is the day.
    """
    groups = match.groupdict()
    if "feast" in groups:
        month, day = _FEASTS[groups["feast"].lower().replace("’", "'")]
    else:
        month, day = _month_number(groups["month"]), int(_number(groups["day"]))
    if groups.get("sign") == "/" and match.start("day") < match.start("year"):
        if month <= 12 and day <= 12 and month != day:
            return None  # 5/6/2024 is in May or in June
        month, day = sorted((month, day))
    return _yearly(match, today, lambda year: _days(datetime(year, month, day, tzinfo=UTC), 0))


def _in_month(match: re.Match[str], today: datetime) -> _Times:
    month = _month_number(match["month"])
    return _yearly(match, today, lambda year: _month(year, month))


def _part_of_month(match: re.Match[str], today: datetime) -> _Times:
    """Read "at the beginning of May", "late March": ten days of it."""
    start, end = _in_month(match, today)
    part = match["part"].lower()
    if part in ("end", "late"):
        return start + timedelta(days=20), end
    return _days(start, 0 if part in ("beginning", "start", "early") else 10, 10)


def _weekday_of_week(match: re.Match[str], today: datetime) -> _Times:
    """Read "Monday of last week", "Tuesday next week"."""
    return _days(today, _weekday(match) - today.weekday() + 7 * _STEPS[match["which"].lower()])


def _on_weekday(match: re.Match[str], today: datetime) -> _Times:
    """Read "on Friday"."""
    ahead = (_weekday(match) - today.weekday()) % 7
    return _nearest([_days(today, ahead), _days(today, ahead - 7)], match, today)


def _nth(match: re.Match[str], today: datetime) -> _Times:
    """Read "on the 20th", "Friday the 10th"."""
    day = int(_number(match["day"]))
    months = (_month(today.year, today.month + i) for i in range(-2, 3))
    days = [_days(start, day - 1) for start, end in months if start + timedelta(day - 1) < end]
    return _nearest(days, match, today)


def _season(match: re.Match[str], today: datetime) -> _Times:
    """Read "last summer", "in the summer of 2022", "in spring": three months."""
    month = _SEASONS[match["season"].lower()]
    return _yearly(match, today, lambda year: (_month(year, month)[0], _month(year, month + 3)[0]))


def _rules() -> Iterator[tuple[re.Pattern[str], _Rule]]:
    def of(pattern: str, rule: _Rule) -> tuple[re.Pattern[str], _Rule]:
        return re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE), rule

    yield of(rf"{_YEAR}(?P<sign>[-/])(?P<month>\d\d?)(?P=sign)(?P<day>\d\d?)", _dated)
    yield of(rf"(?:on )?(?P<day>\d\d?)(?P<sign>[./])(?P<month>\d\d?)(?P=sign){_YEAR}", _dated)
    yield of(r"(?<=on )(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?!\d)", _dated)
    yield of(
        r"(?:at |in )?(?:the )?(?P<part>(?:beginning|start|middle|end)(?= of )|early|late|mid)"
        rf"(?: of| in)?[ -]{_MONTH}(?:,? {_YEAR})?",
        _part_of_month,
    )
    yield of(rf"(?:on )?(?:the )?{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?", _dated)
    yield of(rf"(?:on )?{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?", _dated)
    near = "|".join(sorted(_NEAR, key=len, reverse=True))
    yield of(near, lambda match, today: _days(today, _NEAR[match[0].lower()]))
    yield of(rf"(?:on )?{_WEEKDAY}(?: of)? (?P<which>last|this|next) week", _weekday_of_week)
    yield of(r"(?P<which>last|this|next) week(?: on)? " + _WEEKDAY, _weekday_of_week)
    yield of(rf"(?:in )?(?P<which>(?:the )?last|this|next) {_SEASON}(?: of {_YEAR})?", _season)
    yield of(rf"(?:in |since |during |until )?(?:the )?{_SEASON}(?: of)? {_YEAR}", _season)
    yield of(rf"(?:in|since|during|until)(?: the)? {_SEASON}", _season)
    yield of(rf"(?:(?P<which>last|next) )?(?P<feast>{_FEAST})(?:,?(?: of)? {_YEAR})?", _dated)
    ending = r"(?P<later> from now| later)?(?(ahead)|(?(later)| (?:ago|back)))"
    yield of(rf"(?P<ahead>in )?{_NUMBER} {_UNIT}{ending}", _counted)
    yield of(
        r"(?P<which>(?:the |this )?(?:last|past|previous|this|coming|next)) "
        rf"(?:{_WEEKDAY}|{_MONTH}|{_UNIT})",
        _relative,
    )
    yield of(rf"(?:in|since|until|by|during|of|for) {_MONTH}(?:,? {_YEAR})?", _in_month)
    yield of(rf"{_MONTH},? {_YEAR}", _in_month)
    named_year = rf"(?:in|since|until|by|during|of|back in)(?: the year)? {_YEAR}"
    yield of(named_year, lambda match, today: _year(int(match["year"])))
    yield of(rf"(?:on |by |until |from |since |{_WEEKDAY},? )the {_NTH}", _nth)
    yield of(rf"(?<!every )(?<!every other )(?<!each )(?:on )?{_WEEKDAY}", _on_weekday)


_RULES = tuple(_rules())
