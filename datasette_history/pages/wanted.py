"""What the search page is asked for: its controls, as they stand in the URL."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final

from datasette_history.dates import DateRange, parse_dates, zone
from datasette_history.errors import InvalidInput
from datasette_history.matching import Criteria, PathFilter
from datasette_history.query import parse_query
from datasette_history.scope import resolve

TABS: Final = ("messages", "sessions", "projects", "edits")
SHOW: Final = ("", "all", "hide", "only")

NAMES: Final = (
    "query", "tab", "role", "date", "from", "to", "project", "agent", "model", "archived",
    "subagents", "limit", "timezone",
)  # fmt: skip

STEP: Final = 50
MAX_SHOWN: Final = 500

_TRAITS = """
SELECT num FROM sessions
WHERE (:agent = '' OR agent = :agent) AND (:model = '' OR model = :model)
  AND (:archived IN ('', 'all') OR (coalesce(archived, 0) <> 0) = (:archived = 'only'))
  AND (:subagents IN ('', 'all') OR (parent_id IS NOT NULL) = (:subagents = 'only'))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The page's inputs; "" where one is not given.

    start, end: calendar days, YYYY-MM-DD, both included; they go before date.
    archived, subagents: ``all``, ``hide`` or ``only``; "" leaves out subagents only where
        nothing is searched for.
    """

    query: str = ""
    tab: str = ""
    role: str = ""
    date: str = ""
    start: str = ""
    end: str = ""
    project: str = ""
    agent: str = ""
    model: str = ""
    archived: str = ""
    subagents: str = ""
    limit: int = STEP
    timezone: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Wanted:
        """Return the inputs; raise InvalidInput for a value that is none of the choices."""
        values: dict[str, Any] = {name: given.get(name, "").strip() for name in NAMES}
        values["start"], values["end"] = values.pop("from"), values.pop("to")
        values["limit"] = _limit(values["limit"])
        for name, choices in (
            ("tab", ("", *TABS)),
            ("role", ("", "user", "assistant")),
            ("archived", SHOW),
            ("subagents", SHOW),
        ):
            if values[name] not in choices:
                raise InvalidInput(
                    f"{name} cannot be {values[name][:60]!r}; "
                    f"use {', '.join(filter(None, choices))}"
                )
        return cls(**values)

    @property
    def has_words(self) -> bool:
        """Tell whether there is a word or phrase to find; raise InvalidQuery for a bad query."""
        return bool(parse_query(self.query).words)

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing narrows what is listed."""
        return self == Wanted(tab=self.tab, limit=self.limit, timezone=self.timezone)

    def now(self, machine_now: datetime) -> datetime:
        """Return the present in the zone that days belong to."""
        return machine_now.astimezone(zone(self.timezone)) if self.timezone else machine_now

    def dates(self, now: datetime) -> DateRange | None:
        """Return the days that are searched; raise InvalidInput for impossible ones."""
        if self.start or self.end:
            first, last = self.start or "1970-01-01", self.end or "9998-12-30"
            return parse_dates(f"{_day(first)} to {_day(last)}", now=now)
        return parse_dates(self.date, now=now) if self.date else None

    def criteria(self, conn: sqlite3.Connection, now: datetime, home: str | None) -> Criteria:
        """Return what a session must fulfil; raise InvalidInput where inputs make no sense."""
        query = parse_query(self.query)
        return Criteria(
            scope=resolve(
                conn, project=query.project or self.project or None, directory=None, home=home
            ),
            words=query.words,
            excluded=query.excluded,
            path=PathFilter.of(query.path, home) if query.path else None,
            role=self.role or None,
            dates=self.dates(now),
            sessions=self._sessions(conn),
        )

    def _sessions(self, conn: sqlite3.Connection) -> frozenset[int] | None:
        traits = {
            "agent": self.agent,
            "model": self.model,
            "archived": self.archived,
            "subagents": self.subagents or ("" if self.query else "hide"),
        }
        if not any(traits.values()):
            return None
        return frozenset(num for (num,) in conn.execute(_TRAITS, traits))


def undated(criteria: Criteria) -> Criteria:
    """Return criteria for edits, whose own times the dates limit."""
    return replace(criteria, dates=None)


def _limit(text: str) -> int:
    if not text:
        return STEP
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_SHOWN:
        raise InvalidInput(f"limit cannot be {text[:60]!r}; use a number from 1 to {MAX_SHOWN}")
    return int(text)


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise InvalidInput(f"{text[:60]!r} is no day; use YYYY-MM-DD") from error
