"""What the index says of itself: sources, counts, and how far it is filled."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from datasette_history.results import Indexing

HEARTBEAT_MS: Final = 60_000
"""A backfill that has not been heard of for so long was killed."""

_LAST_SYNC = """
SELECT finished, heartbeat, planned, done,
  (SELECT max(finished) FROM syncs)
FROM syncs ORDER BY id DESC LIMIT 1
"""

_SOURCES = "SELECT id, kind, location, last_sync, sessions, error FROM sources ORDER BY id"

_COUNTS = """
SELECT (SELECT count(*) FROM sessions), (SELECT count(DISTINCT project_id) FROM sessions),
  (SELECT count(*) FROM documents WHERE message_id <> ''),
  (SELECT count(*) FROM document_paths), (SELECT count(*) FROM problems)
"""

_STRANDED = "SELECT stranded, count(*) FROM sessions WHERE stranded IS NOT NULL GROUP BY 1"


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """last_sync_ms: when its last complete listing began, None before the first."""

    id: int
    kind: str
    location: str
    last_sync_ms: int | None
    sessions: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """problems: rows and files that could not be read.

    last_sync_ms: when a backfill last finished, None before the first.
    indexing: None where no backfill is running and one has finished.
    """

    sources: tuple[SourceStatus, ...]
    sessions: int
    projects: int
    messages: int
    edits: int
    problems: int
    stranded: dict[str, int]
    last_sync_ms: int | None
    indexing: Indexing | None


def read_status(conn: sqlite3.Connection, *, now_ms: int) -> Status:
    """Return what is indexed, from where and how completely. Times are Unix milliseconds."""
    sessions, projects, messages, edits, problems = conn.execute(_COUNTS).fetchone()
    row = conn.execute(_LAST_SYNC).fetchone()
    return Status(
        sources=tuple(SourceStatus(*source) for source in conn.execute(_SOURCES)),
        sessions=sessions,
        projects=projects,
        messages=messages,
        edits=edits,
        problems=problems,
        stranded=dict(conn.execute(_STRANDED).fetchall()),
        last_sync_ms=None if row is None else row[4],
        indexing=indexing(conn, now_ms=now_ms),
    )


def indexing(conn: sqlite3.Connection, *, now_ms: int) -> Indexing | None:
    """Return how far the index is filled, None where it is complete."""
    row = conn.execute(_LAST_SYNC).fetchone()
    if row is None:
        return Indexing(running=False, ever_completed=False)
    finished, heartbeat, planned, done, completed = row
    running = finished is None and now_ms - heartbeat < HEARTBEAT_MS
    if completed is not None and not running:
        return None
    return Indexing(
        running=running, ever_completed=completed is not None, planned=planned, done=done
    )
