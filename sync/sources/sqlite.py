"""One OpenCode database file: either generation's tables, or both, in one.

The file is opened read-only and never locked against its writers; a session is read within
one read transaction, so that it is seen as it was at one moment.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
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
from sync.sources.generations import Imports, imports_of
from sync.sources.layout import Layout, detect, tables_of
from sync.sources.order import Header
from sync.sources.readonly import ReadOnlyDatabase
from sync.sources.salvage import MALFORMED, is_damage, salvage
from sync.sources.sqlite_messages import Reader, with_revert
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


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A private copy of what could be read of a damaged database, in a folder of mode 0700.

    signature: the database's when it was made. lost: the rows that could not be read.
    """

    folder: tempfile.TemporaryDirectory[str]
    path: Path
    signature: str
    lost: Sequence[BadRecord]


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
        self._imports = Imports()
        self._salvaged: Salvaged | None = None

    def signature(self) -> str | None:
        """Return what changes with every commit; None while one has just been written."""
        signature = self._database.signature()
        return signature if self._database.is_settled() else None

    def projects(self) -> Iterator[Project | BadRecord]:
        with closing(self._connect()) as conn:
            layout = self._layout(conn)
            if not layout.has("project"):
                return
            columns = ", ".join(layout.column("project", name) for name in _PROJECT_COLUMNS)
            try:
                for row in conn.execute(f"SELECT {columns} FROM project"):
                    values = dict(zip(_PROJECT_COLUMNS, map(text, row), strict=True))
                    if isinstance(values["id"], str):
                        yield project_from_columns(values["id"], values)
                    else:
                        yield BadRecord(item="row of project", reason="its id is no text")
            except sqlite3.DatabaseError as error:
                yield BadRecord(item="table project", reason=str(error))

    def sessions(self) -> Iterator[SessionRef | BadRecord]:
        if not self._is_salvaged():
            try:
                yield from self._listed()
                return
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise SourceUnavailable(f"{self.location}: {error}") from error
                log.debug("salvaging %s", self.location, exc_info=True)
                self._salvage()
        if self._salvaged is not None:
            yield from self._salvaged.lost
        yield from self._listed_again()

    def _listed(self) -> list[SessionRef | BadRecord]:
        with closing(self._connect()) as conn:
            layout = self._layout(conn)
            conn.execute("BEGIN")
            self._bulk = bulk_times(conn, layout)
            self._imports = imports_of(conn, layout)
            return [
                *sqlite_sessions.listing(conn, layout, self._bulk, self._imports),
                *_orphans(conn, layout),
            ]

    def _listed_again(self) -> Iterator[SessionRef | BadRecord]:
        """List what was salvaged; any change of a damaged file may be one of any session."""
        signature = self._database.signature()
        try:
            for found in self._listed():
                if isinstance(found, SessionRef):
                    found = replace(found, version=f"{found.version} {signature}")
                yield found
        except sqlite3.DatabaseError as error:
            raise SourceUnavailable(f"{self.location}: {error}") from error

    def read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        try:
            return self._read(session_id, known)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise SourceUnavailable(f"{self.location}: {error}") from error
        self._salvage()
        try:
            return self._read(session_id, known)
        except sqlite3.DatabaseError as error:
            raise SourceUnavailable(f"{self.location}: {error}") from error

    def _read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        conn = self._reading_connection()
        layout = self._layout(conn)
        conn.execute("BEGIN")
        row = session_row(conn, layout, session_id)
        if row is None:
            conn.execute("ROLLBACK")
            return None
        if self._bulk is None:
            self._bulk = bulk_times(conn, layout)
            self._imports = imports_of(conn, layout)
        session = row.session(0)
        was_imported = row.in_v2_table and row.older
        reader = Reader(
            conn,
            layout,
            session_id,
            session.directory,
            self._bulk,
            ToolOutputs(Path(self.location).parent),
            imported_ms=self._imports.v2_ms if was_imported else None,
        )
        found = reader.found()
        todos = sqlite_sessions.todos(conn, layout, session_id)
        if session.revert is None and not found.newer_only:
            # The import into V2 lost the mark, and nobody went on talking since.
            session = replace(session, revert=row.older_revert())
        return SessionCopy(
            session=replace(
                session, updated_ms=max(row.activity_ms(), found.activity_ms), todos=todos
            ),
            messages=self._messages(
                conn, reader, with_revert(found.headers, session.revert), known
            ),
        )

    def additions(self, session_id: str) -> Iterator[Message]:
        """Yield what V1's rows alone still have, and what came after the import of JSON files."""
        copy = self.read(session_id, {})
        if copy is None:
            return
        json_ms = self._imports.json_ms
        for item in copy.messages:
            if not isinstance(item, Message):
                continue
            if item.only_in or any(part.only_in for part in item.parts):
                yield item
            elif json_ms is not None and copy.session.created_ms <= json_ms < item.created_ms:
                yield replace(item, only_in="v1" if item.stamp.startswith("v1") else "v2")

    def twin(self) -> SqliteSource | None:
        """Return a second reader of the file, for another thread; None for a damaged one."""
        if self._salvaged is not None:
            return None
        twin = SqliteSource(Path(self.location))
        twin._bulk, twin._imports = self._bulk, self._imports
        return twin

    def close(self) -> None:
        self._close_reading()
        self._drop_salvaged()
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
            self._close_reading()
        if self._conn is None:
            self._conn = self._connect()
            self._identity = self._database.identity()
        if self._conn.in_transaction:
            self._conn.execute("ROLLBACK")
        return self._conn

    def _close_reading(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = self._bulk = None

    def _messages(
        self,
        conn: sqlite3.Connection,
        reader: Reader,
        headers: Sequence[Header],
        known: Mapping[str, str],
    ) -> Iterator[Message | Unchanged | BadRecord]:
        """Yield the messages; from the first damaged one on, out of what can be salvaged."""
        seen: set[str | None] = set()
        is_salvaged = self._salvaged is not None
        try:
            for item in reader.messages(headers, known):
                if isinstance(item, BadRecord) and item.reason == MALFORMED and not is_salvaged:
                    break
                seen.add(item.message_id if isinstance(item, BadRecord) else item.id)
                yield item
            else:
                if is_salvaged:
                    yield from self._missing(reader.session_id, known, seen)
                return
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
        yield from self._salvage().lost
        again = self.read(reader.session_id, known)
        for item in again.messages if again else ():
            if isinstance(item, BadRecord) or item.id not in seen:
                yield item

    def _missing(
        self, session_id: str, known: Mapping[str, str], seen: Collection[str | None]
    ) -> Iterator[BadRecord]:
        """Yield what the index knows of a session and damage may have taken from it."""
        if self._salvaged is None or not self._salvaged.lost:
            return
        for message_id in known:
            if message_id and message_id not in seen:
                yield BadRecord(
                    item=f"message {message_id}",
                    reason=MALFORMED,
                    session_id=session_id,
                    message_id=message_id,
                )

    # Damage

    def _connect(self) -> sqlite3.Connection:
        """Open the database, or what was salvaged of it for as long as it has not changed."""
        if self._salvaged is not None and self._is_salvaged():
            return ReadOnlyDatabase(self._salvaged.path).connect()
        self._drop_salvaged()
        return self._database.connect()

    def _is_salvaged(self) -> bool:
        return self._salvaged is not None and self._salvaged.signature == self._database.signature()

    def _salvage(self) -> Salvaged:
        """Copy what can be read; it is what is read from now on."""
        signature = self._database.signature()
        self._close_reading()
        self._drop_salvaged()
        folder = tempfile.TemporaryDirectory(prefix="opencode-history-")
        target = Path(folder.name) / "salvaged.db"
        try:
            with closing(self._database.connect()) as conn:
                conn.execute("BEGIN")
                lost = salvage(conn, self._layout(conn).tables, target)
        except (sqlite3.Error, OSError, SourceUnavailable) as error:
            folder.cleanup()
            raise SourceUnavailable(
                f"{self.location} is damaged, and nothing could be salvaged: {error}"
            ) from error
        self._salvaged = Salvaged(folder, target, signature, lost)
        return self._salvaged

    def _drop_salvaged(self) -> None:
        if self._salvaged is not None:
            self._salvaged.folder.cleanup()
            self._salvaged = None


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
                    item=f"{table}: rows of {_named('session', session_id)}",
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
                item=f"part: rows of {_named('message', message_id)}",
                reason=f"{count} without a message",
            )


def _named(noun: str, key: object) -> str:
    return f"no {noun}" if key is None else f"{noun} {text(key)}"
