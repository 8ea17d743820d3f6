"""What was looked at, what is indexed, what could not be read."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from datasette_history import schema
from sync.forgotten import ForgottenSessions
from sync.hookspecs import Probe
from sync.private_files import AGENT_TOKEN, COOKIE_SECRET
from sync.report import plural
from sync.values import clean


@dataclass(frozen=True, slots=True)
class Place:
    """One place that was looked at on this machine."""

    location: str
    what: str
    readable: bool


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """lag_s: seconds since the index was last known to have all of it; None before."""

    kind: str
    location: str
    last_sync: str | None
    lag_s: int | None
    sessions: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Problem:
    source: str
    session_id: str | None
    item: str
    reason: str


@dataclass(slots=True)
class Status:
    """state: as schema.state(), or missing, damaged, closed. Times are ISO 8601, UTC.

    files: all that exists beside the index, itself included: what to delete to leave nothing.
    """

    index: str
    state: str
    places: list[Place]
    bytes: int = 0
    sessions: int = 0
    messages: int = 0
    stranded: dict[str, int] = field(default_factory=dict)
    sources: list[IndexedSource] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    last_sync: dict[str, Any] | None = None
    files: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        return clean("\n".join(self._lines()))

    def _lines(self) -> list[str]:
        lines = ["Looked at"]
        lines += [f"  {place.location}: {place.what}" for place in self.places]
        lines.append(f"Index {self.index}")
        if self.state != "current":
            return [*lines, f"  {_REMEDY[self.state]}", *self._file_lines()]
        lines.append(
            f"  {self.sessions} {plural(self.sessions, 'session')}, {self.messages} "
            f"{plural(self.messages, 'message')}, {self.bytes / 1e6:.1f} MB"
        )
        if left := [f"{self.stranded[why]} {told}" for why, told in _LEFT if why in self.stranded]:
            lines.append(f"  not in OpenCode's newest store: {', '.join(left)}")
        for source in self.sources:
            lines.append(
                f"  {source.kind:8} {source.location}: {source.sessions} "
                f"{plural(source.sessions, 'session')}, {_lag(source.lag_s)}"
                + (f"; {source.error}" if source.error else "")
            )
        lines.append(f"  {_sync_line(self.last_sync)}")
        if self.problems:
            lines.append(f"Not read: {len(self.problems)}")
            lines += [f"  {p.item}: {p.reason}" for p in self.problems]
        return lines + self._file_lines()

    def _file_lines(self) -> list[str]:
        return ["Files", *(f"  {file}" for file in self.files)] if self.files else []


_LEFT = (
    ("after-import", "written after the one import (after-import)"),
    ("perhaps-deleted", "perhaps deleted there (perhaps-deleted)"),
)

_REMEDY = {
    "missing": "not made yet; run `opencode-history sync`",
    "empty": "empty; run `opencode-history sync`",
    "outdated": "of another version; `opencode-history sync` rebuilds it",
    "foreign": "not an index of conversation history; name another file with --index",
    "damaged": "not a readable SQLite file; run `opencode-history rebuild`",
    "closed": "cannot be opened; look at the rights of the file and its folder",
}


def read_status(
    path: Path, probes: Sequence[Probe], *, clock: Callable[[], float] = time.time
) -> Status:
    """Look at the index without writing it; a missing or foreign one is a state, not an error.

    clock: Unix time in seconds.
    """
    places = [Place(p.location, p.what, p.source is not None) for p in probes]
    try:
        if not path.exists():
            return Status(str(path), "missing", places, files=_files(path))
        conn = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    except (OSError, sqlite3.OperationalError):
        return Status(str(path), "closed", places)
    try:
        status = Status(str(path), schema.state(conn), places, bytes=path.stat().st_size)
        status.files = _files(path)
        if status.state == "current":
            _read_index(conn, status, int(clock() * 1000))
        return status
    except sqlite3.DatabaseError as error:
        # SQLite needs the right to write beside a file that it is to read.
        closed = any(sign in str(error) for sign in ("readonly", "unable to open"))
        state = "closed" if closed else "damaged"
        return Status(str(path), state, places, files=_files(path))
    finally:
        conn.close()


def _files(path: Path) -> list[str]:
    names = [path.name + end for end in ("", "-wal", "-shm", "-journal")]
    beside = [path.with_name(name) for name in (*names, AGENT_TOKEN, COOKIE_SECRET, "sample")]
    return [str(file) for file in (*beside, ForgottenSessions(path).path) if file.exists()]


def _read_index(conn: sqlite3.Connection, status: Status, now_ms: int) -> None:
    status.sessions = conn.execute("SELECT count(*) FROM sessions").fetchone()[0]
    status.messages = conn.execute(
        "SELECT count(*) FROM documents WHERE message_id <> ''"
    ).fetchone()[0]
    status.stranded = dict(
        conn.execute(
            "SELECT stranded, count(*) FROM sessions WHERE stranded IS NOT NULL GROUP BY 1"
        ).fetchall()
    )
    status.sources = [
        IndexedSource(
            kind,
            location,
            _iso(last_sync),
            None if last_sync is None else max(0, now_ms - last_sync) // 1000,
            sessions,
            error,
        )
        for kind, location, last_sync, sessions, error in conn.execute(
            "SELECT kind, location, last_sync, sessions, error FROM sources ORDER BY id"
        )
    ]
    status.problems = [
        Problem(*row)
        for row in conn.execute(
            "SELECT s.location, p.session_id, p.item, p.reason FROM problems p "
            "JOIN sources s ON s.id = p.source_id ORDER BY p.source_id, p.item"
        )
    ]
    row = conn.execute(
        "SELECT pid, started, heartbeat, finished, planned, done, failed FROM syncs "
        "ORDER BY id DESC LIMIT 1"
    ).fetchone()
    if row is not None:
        pid, started, heartbeat, finished, planned, done, failed = row
        status.last_sync = {
            "pid": pid,
            "started": _iso(started),
            "heartbeat": _iso(heartbeat),
            "finished": _iso(finished),
            "planned": planned,
            "done": done,
            "failed": failed,
        }


def _lag(seconds: int | None) -> str:
    """Say how far behind a source's sessions may be."""
    if seconds is None:
        return "never listed whole"
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"complete {count} {plural(count, unit)} ago"
    return f"complete {seconds} {plural(seconds, 'second')} ago"


def _sync_line(sync: dict[str, Any] | None) -> str:
    if sync is None:
        return "never synced"
    if sync["finished"]:
        return f"last sync finished {sync['finished']}"
    return (
        f"a sync began {sync['started']} and has not finished: {sync['done']} of "
        f"{sync['planned'] if sync['planned'] is not None else '?'} sessions at {sync['heartbeat']}"
    )


def _iso(ms: int | None) -> str | None:
    return (
        None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
    )
