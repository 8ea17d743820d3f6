"""Dates as people say them, in time zones with all their oddities."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from datasette_history.dates import DateRange, parse_dates, zone
from datasette_history.errors import InvalidInput

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000


def ms(text: str) -> int:
    """Milliseconds of an ISO time with offset."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def at(text: str, tz: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=tz)


NOW = at("2026-12-15T10:30:00")


@pytest.mark.parametrize(
    ("text", "first", "end"),
    [
        pytest.param("today", "2026-12-15", "2026-12-16", id="today"),
        pytest.param("yesterday", "2026-12-14", "2026-12-15", id="yesterday"),
        pytest.param("  Today ", "2026-12-15", "2026-12-16", id="case-and-spaces"),
        pytest.param("last 1 day", "2026-12-14", "2026-12-16", id="one-day"),
        pytest.param("last 7 days", "2026-12-08", "2026-12-16", id="seven-days"),
        pytest.param("last  2   weeks", "2026-12-01", "2026-12-16", id="weeks"),
        pytest.param("last 1 months", "2026-11-15", "2026-12-16", id="one-month"),
        pytest.param("last 12 months", "2025-12-15", "2026-12-16", id="a-year-of-months"),
        pytest.param("last 10 months", "2026-02-15", "2026-12-16", id="ten-months"),
        pytest.param("2026-11-30", "2026-11-30", "2026-12-01", id="day"),
        pytest.param("2024-02-29", "2024-02-29", "2024-03-01", id="leap-day"),
        pytest.param("2026-12", "2026-12-01", "2027-01-01", id="december"),
        pytest.param("2024-02", "2024-02-01", "2024-03-01", id="leap-february"),
        pytest.param("2026-01-01 to 2026-01-31", "2026-01-01", "2026-02-01", id="days"),
        pytest.param("2026-12-31 TO 2027-01-01", "2026-12-31", "2027-01-02", id="over-new-year"),
        pytest.param("2026-05-05 to 2026-05-05", "2026-05-05", "2026-05-06", id="the-same-day"),
    ],
)
def test_a_date_means_whole_local_days_with_both_ends(text: str, first: str, end: str) -> None:
    expected = [round(at(f"{day}T00:00").timestamp() * 1000) for day in (first, end)]
    assert parse_dates(text, now=NOW) == DateRange(*expected)


def test_the_last_months_begin_at_a_shorter_months_end() -> None:
    dates = parse_dates("last 1 months", now=at("2026-03-31T12:00"))
    assert dates.start_ms == ms("2026-02-28T00:00+01:00")


def test_a_day_of_23_hours_is_a_whole_day() -> None:
    dates = parse_dates("2026-03-29", now=NOW)
    assert dates == DateRange(ms("2026-03-29T00:00+01:00"), ms("2026-03-30T00:00+02:00"))
    assert dates.end_ms - dates.start_ms == 23 * HOUR


def test_a_day_of_25_hours_is_a_whole_day() -> None:
    dates = parse_dates("2026-10-25", now=NOW)
    assert dates == DateRange(ms("2026-10-25T00:00+02:00"), ms("2026-10-26T00:00+01:00"))
    assert dates.end_ms - dates.start_ms == 25 * HOUR


def test_yesterday_is_the_day_before_even_after_a_long_day() -> None:
    # 24 hours before 00:30 is still the same calendar day here.
    dates = parse_dates("yesterday", now=at("2026-10-26T00:30"))
    assert dates.start_ms == ms("2026-10-25T00:00+02:00")


def test_a_day_without_midnight_begins_when_the_clocks_go_forward() -> None:
    dates = parse_dates("2018-11-04", now=at("2018-11-05T10:00", ZoneInfo("America/Sao_Paulo")))
    assert dates == DateRange(ms("2018-11-04T01:00-02:00"), ms("2018-11-05T00:00-02:00"))


def test_today_depends_on_the_time_zone() -> None:
    instant = datetime(2026, 12, 15, 23, 30, tzinfo=UTC)
    tokyo = parse_dates("today", now=instant.astimezone(ZoneInfo("Asia/Tokyo")))
    assert tokyo == DateRange(ms("2026-12-16T00:00+09:00"), ms("2026-12-17T00:00+09:00"))
    assert parse_dates("today", now=instant).end_ms == ms("2026-12-16T00:00+00:00")


def test_a_naive_present_means_the_machines_own_zone() -> None:
    now = datetime(2026, 12, 15, 10, 30)  # noqa: DTZ001 - this is what is tested
    start = datetime(2026, 12, 15).astimezone()
    dates = parse_dates("today", now=now)
    assert dates.start_ms == round(start.timestamp() * 1000)
    assert timedelta(milliseconds=dates.end_ms - dates.start_ms) == timedelta(days=1)


def test_very_long_ranges_begin_with_the_epochs_day() -> None:
    assert parse_dates("last 9999 months", now=NOW).start_ms == ms("1970-01-01T00:00+01:00")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("2026-02-30", "no calendar has 2026-02-30", id="impossible-day"),
        pytest.param("2026-02-29", "no calendar has 2026-02-29", id="no-leap-year"),
        pytest.param("2026-13", "no calendar has 2026-13-01", id="impossible-month"),
        pytest.param("2026-00", "no calendar has 2026-00-01", id="month-zero"),
        pytest.param("2026-01-02 to 2026-01-01", "is reversed", id="reversed"),
        pytest.param("2026-01-32 to 2026-02-01", "no calendar", id="impossible-start"),
        pytest.param("2026-01-01 to 2026-02-30", "no calendar", id="impossible-end"),
        pytest.param("last 0 days", "N must be from 1", id="zero-days"),
        pytest.param("last 10000 days", "N must be from 1", id="too-many-days"),
        pytest.param("last 99999999999999999999 days", "N must be from 1", id="a-huge-number"),
        pytest.param("1969-12-31", "use a year from 1970", id="before-the-epoch"),
        pytest.param("0000-01-01", "no calendar", id="year-zero"),
        pytest.param("9999-12-31", "use a year from 1970", id="the-last-year"),
        pytest.param("last week", "is not understood", id="no-number"),
        pytest.param("last -3 days", "is not understood", id="negative"),
        pytest.param("last 3 years", "is not understood", id="years"),
        pytest.param("tomorrow", "is not understood", id="tomorrow"),
        pytest.param("2026", "is not understood", id="year"),
        pytest.param("2026-1-2", "is not understood", id="short-numbers"),
        pytest.param("2026-01 to 2026-02", "is not understood", id="range-of-months"),
        pytest.param("01/02/2026", "is not understood", id="slashes"),
        pytest.param("٢٠٢٦-01-01", "is not understood", id="other-digits"),
        pytest.param("", "is not understood", id="empty"),
        pytest.param("2026-01-01T00:00", "is not understood", id="time-of-day"),
    ],
)
def test_a_wrong_date_is_an_error_that_says_why(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        parse_dates(text, now=NOW)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "name", ["Europe/Nowhere", "", "../etc/passwd", "/etc/localtime", "Europe", "Bad\0Zone"]
)
def test_an_unknown_time_zone_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(InvalidInput, match="use an IANA name"):
        zone(name)


def test_a_known_time_zone_is_found() -> None:
    assert zone("Europe/Berlin") == BERLIN
