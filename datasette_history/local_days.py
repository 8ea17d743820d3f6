"""The SQL function local_day: the calendar day of an instant, where the reader lives."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from functools import lru_cache
from typing import Final

from datasette_history.dates import zone
from datasette_history.errors import InvalidInput

QUARTER_S: Final = 900
"""Every time zone's days begin at a whole quarter of an hour, UTC."""


def add_functions(conn: sqlite3.Connection) -> None:
    """Let SQL on this connection say ``local_day(milliseconds, timezone)``.

    It gives YYYY-MM-DD; '' or NULL is the machine's own zone, and of an unknown one it says that
    in place of the day. A time that is no number or beyond the calendar gives NULL.
    """
    conn.create_function("local_day", 2, local_day, deterministic=True)


def local_day(time_ms: object, timezone: object) -> str | None:
    if not isinstance(time_ms, int | float):
        return None
    return _day(int(time_ms // 1000) // QUARTER_S, timezone if isinstance(timezone, str) else "")


@lru_cache(maxsize=65_536)
def _day(quarter: int, timezone: str) -> str | None:
    try:
        where = zone(timezone) if timezone else None
        return datetime.fromtimestamp(quarter * QUARTER_S, where).date().isoformat()
    except InvalidInput:
        return f"no time zone named {timezone}"
    except (OverflowError, ValueError, OSError):
        return None
