"""The rows of sessions and projects, and when each session was last active."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sync.decode_session import fill_gaps, session_from_columns
from sync.model import RANK_V1, RANK_V2, BadRecord, Revert, Session, SessionRef, Todo
from sync.sources.generations import Imports, stranded
from sync.sources.layout import Layout
from sync.values import integer, time_ms

BULK_ROWS = 20
"""Messages last written in one and the same millisecond from which that was an import."""

_COLUMNS = (
    "id", "project_id", "parent_id", "slug", "directory", "title", "version", "share_url",
    "summary_additions", "summary_deletions", "summary_files", "cost", "tokens_input",
    "tokens_output", "tokens_reasoning", "tokens_cache_read", "tokens_cache_write", "agent",
    "model", "fork_session_id", "revert", "time_created", "time_updated", "time_idle",
    "time_archived",
)  # fmt: skip

Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session's columns in the newest table that has it, and in the older one.

    older: empty where there is no other table or it lacks the session.
    """

    id: str
    newest: Values
    older: Values
    in_v2_table: bool

    def session(self, activity_ms: int) -> Session:
        session = session_from_columns(self.id, self.newest, activity_ms)
        if self.older:
            return fill_gaps(session, session_from_columns(self.id, self.older, activity_ms))
        return session

    def activity_ms(self) -> int:
        """Return the latest time that the rows themselves tell."""
        names = ("time_created", "time_updated", "time_idle")
        return max(
            time_ms(row.get(name)) or 0 for row in (self.newest, self.older) for name in names
        )

    def older_revert(self) -> Revert | None:
        return session_from_columns(self.id, self.older, 0).revert

    def digest(self) -> str:
        values = [*self.newest.values(), *self.older.values()]
        return f"{zlib.crc32(repr(values).encode('utf-8', 'replace')):x}"


def bulk_times(conn: sqlite3.Connection, layout: Layout) -> frozenset[int]:
    """Return the moments at which rows were written in bulk: by an import, not by a person.

    Imports keep when a message was created, but stamp every row with their own time.
    """
    times: set[int] = set()
    for table in ("message", "session_message"):
        if layout.has(table) and "time_updated" in layout.tables[table]:
            times.update(
                value
                for (value,) in conn.execute(
                    f"SELECT time_updated FROM {table} WHERE typeof(time_updated) = 'integer' "
                    f"GROUP BY time_updated HAVING count(*) >= {BULK_ROWS}"
                )
            )
    return frozenset(times)


def session_row(conn: sqlite3.Connection, layout: Layout, session_id: str) -> SessionRow | None:
    """Return one session's row, None where no table has it."""
    found = []
    for table in layout.session_tables:
        row = conn.execute(
            f"SELECT {_select(layout, table)} FROM {table} WHERE id = ?", (session_id,)
        ).fetchone()
        found.append((table, dict(zip(_COLUMNS, map(text, row), strict=True)) if row else {}))
    present = [(table, values) for table, values in found if values]
    if not present:
        return None
    table, newest = present[0]
    older = present[1][1] if len(present) > 1 else {}
    return SessionRow(session_id, newest, older, table == "session_v2")


def listing(
    conn: sqlite3.Connection,
    layout: Layout,
    bulk: frozenset[int],
    imports: Imports,
    *,
    sums: bool = True,
) -> Iterator[SessionRef | BadRecord]:
    """Yield every session.

    imports: when older sessions were taken into the database.
    sums: look at the times of messages too; without, a session's own row tells alone.
    """
    tables = _message_tables(layout) if sums else []
    sql = _listing_sql(layout, tables)
    for row in conn.execute(sql, {"bulk": json.dumps(sorted(bulk))} if tables else {}):
        yield _ref(layout, tables, row, imports)


def session_ids_sql(layout: Layout) -> str:
    """Return SQL for every id; an id that is no text cannot be asked for, and comes as NULL."""
    return " UNION ".join(
        f"SELECT CASE typeof(id) WHEN 'blob' THEN NULL ELSE id END AS id FROM {table}"
        for table in layout.session_tables
    )


def todos(conn: sqlite3.Connection, layout: Layout, session_id: str) -> tuple[Todo, ...] | None:
    """Return the list that the table keeps, None where it has none for the session."""
    if not layout.has("todo"):
        return None
    columns = [layout.column("todo", name) for name in ("content", "status", "priority")]
    order = layout.column("todo", "position")
    rows = conn.execute(
        f"SELECT {', '.join(columns)} FROM todo WHERE session_id = ? ORDER BY {order}, rowid",
        (session_id,),
    )
    found = [
        Todo(content=str(content), status=_optional(status), priority=_optional(priority))
        for content, status, priority in (map(text, row) for row in rows)
        if content
    ]
    return tuple(found) or None


def text(value: object) -> object:
    """Return a column's value with text decoded; bytes that are no UTF-8 become U+FFFD."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _optional(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _select(layout: Layout, table: str, prefix: str = "") -> str:
    return ", ".join(layout.column(table, name, prefix) for name in _COLUMNS)


def _listing_sql(layout: Layout, tables: Sequence[str]) -> str:
    """One row per session: a mark, the columns of each table, then count, sum of times and
    latest time of each table of messages."""
    columns, joins = ["ids.id"], []
    for table in layout.session_tables:
        columns.append(_select(layout, table, f"{table}."))
        joins.append(f"LEFT JOIN {table} ON {table}.id = ids.id")
    for table in tables:
        columns.append(f"{table}_sum.n, {table}_sum.total, {table}_sum.latest")
        joins.append(
            f"LEFT JOIN ({_sum_sql(layout, table)}) {table}_sum ON {table}_sum.session_id = ids.id"
        )
    return f"SELECT {', '.join(columns)} FROM ({session_ids_sql(layout)}) ids {' '.join(joins)}"


def _message_tables(layout: Layout) -> list[str]:
    tables = ("message", "part", "session_message", "session_input")
    return [t for t in tables if layout.has(t) and "session_id" in layout.tables[t]]


def _sum_sql(layout: Layout, table: str) -> str:
    updated = layout.column(table, "time_updated")
    created = layout.column(table, "time_created") if table != "part" else "NULL"
    # NOT INDEXED: walking an index by session would fetch the rows one by one.
    return f"""
        SELECT session_id, count(*) AS n, total({updated}) AS total,
          max(max(
            iif(typeof({created}) = 'integer' AND {_not_bulk(created)}, {created}, 0),
            iif(typeof({updated}) = 'integer' AND {_not_bulk(updated)}, {updated}, 0)
          )) AS latest
        FROM {table} NOT INDEXED GROUP BY session_id
    """


def _not_bulk(column: str) -> str:
    return f"{column} NOT IN (SELECT value FROM json_each(:bulk))"


def _ref(
    layout: Layout, tables: Sequence[str], row: Sequence[Any], imports: Imports
) -> SessionRef | BadRecord:
    try:
        session_id = row[0].decode("utf-8")
    except (AttributeError, UnicodeDecodeError):
        return BadRecord(item=f"session {row[0]!r}", reason="its id is no text", hides_session=True)
    width = len(_COLUMNS)
    rows = []
    for number, table in enumerate(layout.session_tables):
        start = 1 + number * width
        values = dict(zip(_COLUMNS, map(text, row[start : start + width]), strict=True))
        if values["id"] is not None:
            rows.append((table, values))
    table, newest = rows[0]
    found = SessionRow(session_id, newest, rows[1][1] if rows[1:] else {}, table == "session_v2")
    sums = row[1 + len(layout.session_tables) * width :]
    counts = dict(zip(tables, _triples(sums), strict=True))
    nothing = (0, 0.0, None)
    if layout.mirrors_v1 and counts.get("message", nothing)[0]:
        counts["session_message"] = nothing
    has_v2 = counts.get("session_message", nothing)[0] > 0
    times = [time_ms(latest) or 0 for _, _, latest in counts.values()]
    activity = max([found.activity_ms(), *times])
    session = found.session(activity)
    versions = [f"{n}:{total:.0f}" for n, total, _ in counts.values()]
    was_imported = bool(found.in_v2_table and found.older and imports.v2_ms is not None)
    is_later = imports.json_ms is not None and session.created_ms <= imports.json_ms < activity
    return SessionRef(
        id=session_id,
        title=session.title,
        project_id=session.project_id,
        directory=session.directory,
        activity_ms=activity,
        rank=RANK_V2 if found.in_v2_table or has_v2 else RANK_V1,
        version=" ".join(
            [
                found.digest(),
                *versions,
                # Decides which rows of V1 still count beside V2's.
                *([f"{imports.v2_ms}"] if found.in_v2_table and found.older else ()),
            ]
        ),
        holds=_holds(found, counts),
        stranded=None if found.in_v2_table else stranded(activity, imports.v2_ms),
        adds=" ".join(versions) if was_imported or is_later else "",
    )


def _holds(found: SessionRow, counts: Mapping[str, tuple[int, float, int | None]]) -> str:
    is_v2 = found.in_v2_table or counts.get("session_message", (0, 0.0, None))[0] > 0
    is_v1 = bool(found.older) or counts.get("message", (0, 0.0, None))[0] > 0 or not is_v2
    return " ".join(name for name, held in (("v1", is_v1), ("v2", is_v2)) if held)


def _triples(values: Sequence[Any]) -> Iterator[tuple[int, float, int | None]]:
    for start in range(0, len(values), 3):
        count, total, latest = values[start : start + 3]
        yield count or 0, total or 0.0, integer(latest)
