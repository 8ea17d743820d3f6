"""Dates as people say them, turned into ranges of instants.

Days are calendar days of a time zone, from local midnight to the next one, so a day of 23 or
25 hours is a whole day too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from datasette_history.errors import InvalidInput

FORMS: Final = (
    "today, yesterday, last N days, last N weeks, last N months, YYYY-MM-DD, YYYY-MM, "
    "or YYYY-MM-DD to YYYY-MM-DD"
)
MAX_LAST: Final = 9_999
"""Largest N of ``last N days``."""

_DAY: Final = r"\d{4}-\d{2}-\d{2}"
_LAST: Final = re.compile(r"last (\d+) (day|week|month)s?", re.ASCII)
_MONTH: Final = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_DAYS: Final = re.compile(rf"({_DAY})(?: to ({_DAY}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class DateRange:
    """start_ms <= instant < end_ms, in milliseconds since the epoch."""

    start_ms: int
    end_ms: int


def parse_dates(text: str, *, now: datetime) -> DateRange:
    """Return the instants that text means, both its first and its last day included.

    now: the present in the time zone that days belong to; a naive one means the machine's
        own local time. ``last N days`` begins with the day N days ago and ends with today;
        weeks and months likewise (a day that the month lacks becomes the month's last).
    Raises InvalidInput for other forms and for impossible or reversed dates.
    """
    words = " ".join(text.lower().split())
    first, last = _days(words, text, now.date())
    if first > last:
        raise InvalidInput(f"date {text!r} is reversed; write the earlier day first")
    try:
        return DateRange(_midnight(first, now), _midnight(last + timedelta(days=1), now))
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidInput(f"date {text!r} is out of range; use a year from 1970 on") from error


def zone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name; raise InvalidInput where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            f"timezone {name!r} is not known; use an IANA name such as Europe/Berlin or UTC"
        ) from error


def _days(words: str, text: str, today: date) -> tuple[date, date]:
    if words in ("today", "yesterday"):
        day = today - timedelta(days=words == "yesterday")
        return day, day
    if match := _LAST.fullmatch(words):
        return _before(today, int(match[1][:9]), match[2], text), today
    if match := _MONTH.fullmatch(words):
        first = _day(f"{words}-01", text)
        return first, _months_before(first, -1) - timedelta(days=1)
    if match := _DAYS.fullmatch(words):
        return _day(match[1], text), _day(match[2] or match[1], text)
    raise InvalidInput(f"date {text!r} is not understood; use {FORMS}")


def _day(words: str, text: str) -> date:
    try:
        day = date.fromisoformat(words)
    except ValueError as error:
        raise InvalidInput(f"date {text!r}: no calendar has {words}; use {FORMS}") from error
    if not 1970 <= day.year <= 9998:
        raise InvalidInput(f"date {text!r} is out of range; use a year from 1970 to 9998")
    return day


def _before(today: date, count: int, unit: str, text: str) -> date:
    if not 1 <= count <= MAX_LAST:
        raise InvalidInput(f"date {text!r}: N must be from 1 to {MAX_LAST}")
    try:
        if unit == "month":
            return max(_months_before(today, count), date(1970, 1, 1))
        return max(today - timedelta(days=count * (7 if unit == "week" else 1)), date(1970, 1, 1))
    except (OverflowError, ValueError):
        return date(1970, 1, 1)


def _months_before(day: date, count: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 - count, 12)
    first = date(year, month + 1, 1)
    next_first = date(year + (month == 11), (month + 1) % 12 + 1, 1)
    return first.replace(day=min(day.day, (next_first - first).days))


def _midnight(day: date, now: datetime) -> int:
    # A naive datetime's timestamp() follows the rules of the machine's own zone, DST included.
    # Where midnight falls into a gap, this is the instant at which the day begins.
    return round(datetime(day.year, day.month, day.day, tzinfo=now.tzinfo).timestamp() * 1000)
