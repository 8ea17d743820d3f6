"""One OpenCode database file: either generation's tables, or both, in one.

The file is opened read-only and never locked against its writers; a session is read within
one read transaction, so that it is seen as it was at one moment.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sync.decode_session import project_from_columns
from sync.discovery import find_databases
from sync.errors import SourceUnavailable
from sync.hookspecs import Probe, SyncConfig, hookimpl
from sync.model import (
    BadRecord,
    Message,
    Project,
    SessionCopy,
    SessionRef,
    SourceKind,
    Unchanged,
)
from sync.sources import sqlite_sessions
from sync.sources.generations import imported_into_v2_ms
from sync.sources.layout import Layout, detect, tables_of
from sync.sources.order import Header
from sync.sources.readonly import ReadOnlyDatabase
from sync.sources.sqlite_messages import Reader
from sync.sources.sqlite_sessions import bulk_times, session_ids_sql, session_row, text
from sync.tool_output import ToolOutputs

log = logging.getLogger(__name__)

_PROJECT_COLUMNS = (
    "id", "worktree", "canonical", "name", "vcs", "time_created", "time_updated", "sandboxes",
)  # fmt: skip


@hookimpl
def register_sources(config: SyncConfig) -> Sequence[Probe]:
    """Find the database files of each data directory, and those named one by one."""
    return [
        found
        if isinstance(found, Probe)
        else Probe(location=str(found), what="database", source=SqliteSource(found))
        for found in find_databases(config)
    ]


class SqliteSource:
    """Sessions of one database file. Nothing is opened before the first method is called."""

    kind: SourceKind = "db"
    authoritative = True
    remote = False

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        self._database = ReadOnlyDatabase(path)
        self._conn: sqlite3.Connection | None = None
        self._identity = ""
        self._bulk: frozenset[int] | None = None
        self._imported_ms: int | None = None

    def signature(self) -> str | None:
        """Return what changes with every commit; None while one has just been written."""
        signature = self._database.signature()
        return signature if self._database.is_settled(time.time()) else None

    def projects(self) -> Iterator[Project | BadRecord]:
        with closing(self._database.connect()) as conn:
            layout = self._layout(conn)
            if not layout.has("project"):
                return
            columns = ", ".join(layout.column("project", name) for name in _PROJECT_COLUMNS)
            try:
                directories = _project_directories(conn, layout)
                for row in conn.execute(f"SELECT {columns} FROM project"):
                    values = dict(zip(_PROJECT_COLUMNS, map(text, row), strict=True))
                    if isinstance(values["id"], str):
                        project = project_from_columns(values["id"], values)
                        more = directories.get(project.id, ())
                        yield replace(project, sandboxes=(*project.sandboxes, *more))
                    else:
                        yield BadRecord(item="row of project", reason="its id is no text")
            except sqlite3.DatabaseError as error:
                yield BadRecord(item="table project", reason=str(error))

    def sessions(self) -> Iterator[SessionRef | BadRecord]:
        with closing(self._database.connect()) as conn:
            layout = self._layout(conn)
            conn.execute("BEGIN")
            try:
                self._bulk = bulk_times(conn, layout)
                self._imported_ms = imported_into_v2_ms(conn, layout)
                yield from sqlite_sessions.listing(conn, layout, self._bulk, self._imported_ms)
                yield from _orphans(conn, layout)
            except sqlite3.OperationalError as error:
                raise SourceUnavailable(f"{self.location}: {error}") from error
            except sqlite3.DatabaseError as error:
                log.debug("listing %s from its session rows alone", self.location, exc_info=True)
                yield BadRecord(item="tables of messages", reason=str(error))
                yield from self._plain_sessions(conn, layout)

    def read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        conn = self._reading_connection()
        layout = self._layout(conn)
        try:
            conn.execute("BEGIN")
            row = session_row(conn, layout, session_id)
            if row is None:
                conn.execute("ROLLBACK")
                return None
            if self._bulk is None:
                self._bulk = bulk_times(conn, layout)
                self._imported_ms = imported_into_v2_ms(conn, layout)
            session = row.session(0)
            was_imported = row.in_v2_table and row.older
            reader = Reader(
                conn,
                layout,
                session_id,
                session.directory,
                self._bulk,
                ToolOutputs(Path(self.location).parent),
                imported_ms=self._imported_ms if was_imported else None,
            )
            found = reader.found()
            todos = sqlite_sessions.todos(conn, layout, session_id)
        except sqlite3.Error as error:
            raise SourceUnavailable(f"{self.location}: {error}") from error
        if session.revert is None and not found.newer_only:
            # The import into V2 lost the mark, and nobody went on talking since.
            session = replace(session, revert=row.older_revert())
        return SessionCopy(
            session=replace(
                session, updated_ms=max(row.activity_ms(), found.activity_ms), todos=todos
            ),
            messages=_messages(conn, reader, found.headers, known),
        )

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
        self._database.close()

    def _layout(self, conn: sqlite3.Connection) -> Layout:
        try:
            return detect(tables_of(conn))
        except sqlite3.Error as error:
            raise SourceUnavailable(f"{self.location}: {error}") from error

    def _reading_connection(self) -> sqlite3.Connection:
        """Return the connection that read() uses, outside of any transaction."""
        identity = self._database.identity()
        if self._conn is not None and identity != self._identity:
            self._conn.close()
            self._conn = self._bulk = None
        if self._conn is None:
            self._conn = self._database.connect()
            self._identity = self._database.identity()
        if self._conn.in_transaction:
            self._conn.execute("ROLLBACK")
        return self._conn

    def _plain_sessions(
        self, conn: sqlite3.Connection, layout: Layout
    ) -> Iterator[SessionRef | BadRecord]:
        """List a damaged file by its session rows; any change of the file may be one of theirs."""
        signature = self.signature() or ""
        try:
            for found in sqlite_sessions.listing(conn, layout, frozenset(), None, sums=False):
                if isinstance(found, SessionRef):
                    found = replace(found, version=f"{found.version} {signature}")
                yield found
        except sqlite3.DatabaseError as error:
            yield BadRecord(item="tables of sessions", reason=str(error), hides_session=True)


def _project_directories(conn: sqlite3.Connection, layout: Layout) -> Mapping[str, Sequence[str]]:
    """Return further roots by project, where later versions keep them in a table."""
    found: dict[str, list[str]] = {}
    if layout.has("project_directory"):
        for row in conn.execute("SELECT project_id, directory FROM project_directory"):
            project_id, directory = map(text, row)
            if isinstance(project_id, str) and isinstance(directory, str):
                found.setdefault(project_id, []).append(directory)
    return found


def _messages(
    conn: sqlite3.Connection, reader: Reader, headers: Sequence[Header], known: Mapping[str, str]
) -> Iterator[Message | Unchanged | BadRecord]:
    try:
        yield from reader.messages(headers, known)
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def _orphans(conn: sqlite3.Connection, layout: Layout) -> Iterator[BadRecord]:
    """Yield messages without a session and parts without a message, by the id they miss."""
    sessions = f"SELECT id FROM ({session_ids_sql(layout)}) WHERE id IS NOT NULL"
    for table in ("message", "session_message"):
        if layout.has(table):
            for session_id, count in conn.execute(
                f"SELECT session_id, count(*) FROM {table} "
                f"WHERE session_id IS NULL OR session_id NOT IN ({sessions}) "
                "GROUP BY session_id"
            ):
                yield BadRecord(
                    item=f"{table}: rows of session {text(session_id)}",
                    reason=f"{count} without a session",
                )
    if layout.has("part"):
        messages = "SELECT NULL WHERE 0"
        if layout.has("message"):
            messages = "SELECT id FROM message WHERE id IS NOT NULL"
        for message_id, count in conn.execute(
            f"SELECT message_id, count(*) FROM part "
            f"WHERE message_id IS NULL OR message_id NOT IN ({messages}) GROUP BY message_id"
        ):
            yield BadRecord(
                item=f"part: rows of message {text(message_id)}",
                reason=f"{count} without a message",
            )
