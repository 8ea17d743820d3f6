"""What became of sessions when OpenCode moved on to another store, told by the stores.

Two moves happened once in the life of a data directory: JSON files into a database at the first
start of 1.2 to 1.15, and V1's tables into V2's within one file. Neither was repeated, so what an
older version wrote afterwards is where it was written, and nowhere else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sync.discovery import is_database_name
from sync.errors import SourceError
from sync.model import Stranded
from sync.sources.layout import Layout
from sync.sources.readonly import ReadOnlyDatabase
from sync.values import decode_json, mapping, time_ms

V2_IMPORT = "migration.v1-v2"
"""Key in the table kv under which V2 notes how far its import of V1's sessions is."""

_NEWEST_IMPORTED = """
SELECT max(
  coalesce((SELECT max(o.time_created) FROM session o JOIN session_v2 n ON n.id = o.id), 0),
  coalesce((SELECT max(o.time_created) FROM message o JOIN session_message n ON n.id = o.id), 0))
"""


@dataclass(frozen=True, slots=True)
class Imports:
    """When a database took older sessions in: V1's into V2's tables, and those of JSON files.

    Unix milliseconds; None where that never was.
    """

    v2_ms: int | None = None
    json_ms: int | None = None


def imports_of(conn: sqlite3.Connection, layout: Layout) -> Imports:
    return Imports(imported_into_v2_ms(conn, layout), imported_json_ms(conn))


def imported_into_v2_ms(conn: sqlite3.Connection, layout: Layout) -> int | None:
    """Return when the file's V1 sessions were taken into V2's tables; None where they were not.

    V2 does not note the moment: it is that of the newest row of V1 that V2 has as well, so the
    import was then or a little later. 0 where nothing was there to import.
    """
    needed = ("session", "session_v2", "message", "session_message")
    if not all(layout.has(table) for table in needed) or not _is_completed(conn):
        return None
    for table in ("session", "message"):
        if "time_created" not in layout.tables[table]:
            return 0
    return time_ms(conn.execute(_NEWEST_IMPORTED).fetchone()[0]) or 0


def imported_json_ms(conn: sqlite3.Connection) -> int | None:
    """Return when the JSON store beside a database was copied into it; None where it never was.

    Versions that do so note their migrations with the time at which they were applied; the
    import followed the first one.
    """
    try:
        (applied,) = conn.execute(
            "SELECT min(CAST(applied_at AS TEXT)) FROM __drizzle_migrations"
        ).fetchone()
    except sqlite3.OperationalError:
        return None
    return _iso_ms(applied)


def json_imported_ms(data_dir: Path) -> int | None:
    """Return when a data directory's JSON store was last copied into one of its databases.

    None where no database is there, so that the store is still in use; 0 where those that are
    there were made by versions that import nothing.
    """
    found = None
    for path in _databases(data_dir):
        database = ReadOnlyDatabase(path)
        try:
            with closing(database.connect()) as conn:
                found = max(found or 0, imported_json_ms(conn) or 0)
        except (SourceError, sqlite3.DatabaseError):
            continue  # reported by the source that reads it
        finally:
            database.close()
    return found


def stranded(moment_ms: int, imported_ms: int | None) -> Stranded | None:
    """Return how a session that only the older store has came to be left there.

    moment_ms: when it was begun or last active. imported_ms: None where nothing newer is there.
    """
    if imported_ms is None:
        return None
    return "after-import" if moment_ms > imported_ms else "perhaps-deleted"


def _databases(data_dir: Path) -> Iterable[Path]:
    try:
        return [p for p in sorted(data_dir.iterdir()) if is_database_name(p.name) and p.is_file()]
    except OSError:
        return []


def _is_completed(conn: sqlite3.Connection) -> bool:
    try:
        row = conn.execute(
            "SELECT CAST(value AS BLOB) FROM kv WHERE key = ?", (V2_IMPORT,)
        ).fetchone()
        return bool(row) and mapping(decode_json(row[0])).get("phase") == "completed"
    except (sqlite3.OperationalError, ValueError, TypeError):
        return False


def _iso_ms(value: object) -> int | None:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
