"""The index's writer: every statement that changes it.

All methods that write take part in the transaction that the caller opened with
``Index.transaction()``, so that a check and the write it decides are one atomic step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from datasette_history.schema import TITLE_MESSAGE_ID, session_range
from sync import forks, storage
from sync.additions import Additions
from sync.extract import end_user
from sync.forgotten import Forgotten, ForgottenSessions
from sync.full_text import FullText
from sync.model import Session, SessionCopy
from sync.session_writer import SessionWriter, Written, cleaned, token_columns
from sync.source_rows import Planned, SourceRows, fingerprint
from sync.values import clean

__all__ = ["Index", "Planned", "fingerprint"]

TOMBSTONE_MS = 24 * 60 * 60 * 1000

CLOCK_SLACK_MS = 10 * 60 * 1000
"""A time of writing that lies further ahead than this was taken from a clock that was wrong."""


class Index(SourceRows):
    """An open index. Use as a context manager; one per thread.

    Raises sync.errors.IndexUnusable on opening what is not an index.
    """

    def __init__(self, conn: sqlite3.Connection, path: Path) -> None:
        super().__init__(conn, ForgottenSessions(path))
        self.path = path
        self.full_text = FullText(conn)
        self._fork_marks = forks.ForkMarks(conn)

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(storage.open_index(path), path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.conn.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """BEGIN IMMEDIATE ... COMMIT; waits for other writers, rolls back on an exception."""
        try:
            with storage.transaction(self.conn):
                yield
                self._fork_marks.settle()
                self.full_text.flush()
        finally:
            self._fork_marks.drop()
            self.full_text.drop()

    # Sessions

    def known_stamps(self, session_id: str) -> dict[str, str]:
        """Return the stamp of each indexed message of a session, by message id."""
        rows = self.conn.execute(
            "SELECT message_id, stamp FROM documents WHERE session_id = ? AND message_id <> ?",
            (session_id, TITLE_MESSAGE_ID),
        )
        return dict(rows.fetchall())

    def replace_session(
        self,
        copy: SessionCopy,
        *,
        source_id: int,
        fingerprint: str,
        fetched_at_ms: int,
        additions: Additions | None = None,
    ) -> Written:
        """Make the index hold this copy of a session, touching only what differs.

        additions: what other copies add; None where they were not asked, and then what they
        added before stays.
        fetched_at_ms: when the fetch began. A copy fetched before the one that is indexed, or
        before the session was deleted, is refused ("stale") and changes nothing.
        """
        session = copy.session
        if self._is_stale(session.id, fetched_at_ms) or self._is_forgotten(session, fetched_at_ms):
            return Written(outcome="stale")
        if session.project_id is not None:
            self.conn.execute(
                "INSERT INTO projects (id) VALUES (?) ON CONFLICT DO NOTHING",
                (clean(session.project_id),),
            )
        before = self._fork_signs(session.id)
        num = self._save_session(session, source_id, fingerprint, fetched_at_ms)
        writer = SessionWriter(self.conn, self.full_text, session, num)
        writer.write_title()
        writer.write_messages(copy.messages, None if additions is None else additions.messages)
        if additions is not None:
            self.conn.execute(
                "UPDATE sessions SET added = ? WHERE id = ?", (additions.told, session.id)
            )
        writer.write_todos()
        self._note_forks(session.id, before, writer.written)
        self.settle_stranded(session.id)
        # What another copy lacks no longer matters.
        self.conn.execute(
            "DELETE FROM problems WHERE stage = 'read' AND session_id = ?", (session.id,)
        )
        self.replace_problems(
            source_id,
            "read",
            writer.written.problems,
            now_ms=fetched_at_ms,
            session_id=session.id,
        )
        return writer.written

    def remove_session(self, session_id: str, *, deleted_at_ms: int, keep: bool = False) -> bool:
        """Take a deleted session out of the index and refuse writes from before deleted_at_ms.

        keep: leave it searchable and mark it as gone instead. False where a fetch that began
        later has written it since, or it was not indexed.
        """
        row = self.conn.execute(
            "SELECT num, fetched_at FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        if row is not None and row[1] > deleted_at_ms:
            return False
        self.conn.execute(
            """
            INSERT INTO tombstones (session_id, deleted_at) VALUES (?, ?)
            ON CONFLICT DO UPDATE SET deleted_at = max(deleted_at, excluded.deleted_at)
            """,
            (session_id, deleted_at_ms),
        )
        if row is None:
            return False
        if keep:
            self.conn.execute(
                "UPDATE sessions SET deleted_at = ? WHERE id = ?", (deleted_at_ms, session_id)
            )
            return True
        first, last = session_range(row[0])
        times = self._times(session_id)
        self.full_text.remove_range(first, last)
        self.conn.execute("DELETE FROM documents WHERE id BETWEEN ? AND ?", (first, last))
        self.conn.execute("DELETE FROM parts WHERE document_id BETWEEN ? AND ?", (first, last))
        self.conn.execute(
            "DELETE FROM document_paths WHERE document_id BETWEEN ? AND ?", (first, last)
        )
        for table in ("todos", "problems", "session_copies"):
            self.conn.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
        self.conn.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
        self._fork_marks.note(times)
        return True

    def _fork_signs(self, session_id: str) -> tuple[Any, ...] | None:
        """Return what of a session decides, besides its messages, whether it is a fork."""
        row = self.conn.execute(
            "SELECT created, project_id, fork_told, instr(title, ?) > 0 FROM sessions WHERE id = ?",
            (forks.FORK_TITLE, session_id),
        ).fetchone()
        return None if row is None else tuple(row)

    def _note_forks(
        self, session_id: str, before: tuple[Any, ...] | None, written: Written
    ) -> None:
        changed = before != self._fork_signs(session_id)
        if changed and before is not None:
            written.times |= self._times(session_id)
        if changed or written.times:
            self._fork_marks.note(written.times, [session_id])

    def _times(self, session_id: str) -> set[int]:
        rows = self.conn.execute(
            "SELECT timestamp FROM documents WHERE session_id = ? AND message_id <> ?",
            (session_id, TITLE_MESSAGE_ID),
        )
        return {time_ms for (time_ms,) in rows}

    # Syncs

    def begin_sync(self, *, pid: int, now_ms: int) -> int:
        """Note that a backfill begins; drop the records of old ones and of old deletions.

        What was written by a clock that ran ahead would be newer than everything for as long
        as it did: from now on it counts as written now.
        """
        for table, column in (("sessions", "fetched_at"), ("tombstones", "deleted_at")):
            self.conn.execute(
                f"UPDATE {table} SET {column} = :now WHERE {column} > :now + :slack",
                {"now": now_ms, "slack": CLOCK_SLACK_MS},
            )
        self.conn.execute("DELETE FROM syncs WHERE id <= (SELECT max(id) FROM syncs) - 100")
        self.conn.execute("DELETE FROM tombstones WHERE deleted_at < ?", (now_ms - TOMBSTONE_MS,))
        cursor = self.conn.execute(
            "INSERT INTO syncs (pid, started, heartbeat) VALUES (?, ?, ?)", (pid, now_ms, now_ms)
        )
        return int(cursor.lastrowid or 0)

    def update_sync(
        self,
        sync_id: int,
        *,
        now_ms: int,
        planned: int | None = None,
        done: int = 0,
        failed: int = 0,
        finished: bool = False,
    ) -> None:
        self.conn.execute(
            """
            UPDATE syncs SET heartbeat = :now, done = :done, failed = :failed,
              planned = coalesce(:planned, planned),
              finished = CASE WHEN :finished THEN :now END
            WHERE id = :id
            """,
            {
                "id": sync_id, "now": now_ms, "planned": planned, "done": done,
                "failed": failed, "finished": finished,
            },
        )  # fmt: skip

    def _is_stale(self, session_id: str, fetched_at_ms: int) -> bool:
        row = self.conn.execute(
            """
            SELECT 1 FROM sessions WHERE id = :id AND fetched_at > :fetched_at
            UNION ALL
            SELECT 1 FROM tombstones WHERE session_id = :id AND deleted_at >= :fetched_at
            """,
            {"id": session_id, "fetched_at": fetched_at_ms},
        ).fetchone()
        return row is not None

    def _is_forgotten(self, session: Session, now_ms: int) -> bool:
        """Tell whether a session must not be written; subagents go along, also later ones."""
        forgotten = self.forgotten.all()
        if session.id not in forgotten and session.parent_id not in forgotten:
            return False
        if session.id not in forgotten:
            self.forgotten.add([Forgotten(session.id, now_ms, session.parent_id)])
        self.conn.execute("PRAGMA secure_delete = ON")
        self.conn.execute("DELETE FROM session_copies WHERE session_id = ?", (session.id,))
        self.conn.execute("PRAGMA secure_delete = OFF")
        return True

    def _save_session(
        self, session: Session, source_id: int, fingerprint: str, fetched_at_ms: int
    ) -> int:
        values: dict[str, Any] = {
            "id": session.id,
            "project_id": session.project_id,
            "parent_id": session.parent_id,
            "title": session.title,
            "directory": session.directory,
            "slug": session.slug,
            "version": session.version,
            "agent": session.agent,
            "provider": session.provider,
            "model": session.model,
            "created": session.created_ms,
            "updated": session.updated_ms,
            "archived": session.archived_ms,
            "cost": session.cost,
            **token_columns(session.tokens),
            "additions": session.additions,
            "deletions": session.deletions,
            "files_changed": session.files_changed,
            "share_url": session.share_url,
            "end_user": end_user(session.title),
            "fork_told": session.forked_from,
            "source_id": source_id,
            "fingerprint": fingerprint,
            "fetched_at": fetched_at_ms,
            "deleted_at": None,
        }
        columns = ", ".join(values)
        changes = ", ".join(f"{name} = excluded.{name}" for name in values if name != "id")
        row = self.conn.execute(
            f"INSERT INTO sessions (num, {columns}) "
            f"VALUES ((SELECT coalesce(max(num), 0) + 1 FROM sessions), "
            f"{', '.join(f':{name}' for name in values)}) "
            f"ON CONFLICT (id) DO UPDATE SET {changes} RETURNING num",
            {k: cleaned(v) if isinstance(v, str) else v for k, v in values.items()},
        ).fetchone()
        return int(row[0])
