"""The index's writer: every statement that changes it.

All methods that write take part in the transaction that the caller opened with
``Index.transaction()``, so that a check and the write it decides are one atomic step.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from datasette_history.schema import TITLE_MESSAGE_ID, session_range
from sync import forks, storage
from sync.additions import Additions
from sync.extract import end_user
from sync.forgotten import Forgotten, ForgottenSessions
from sync.full_text import FullText
from sync.model import BadRecord, Project, Session, SessionCopy, SessionRef, SourceKind
from sync.session_writer import SessionWriter, Written, cleaned, token_columns
from sync.values import clean

TOMBSTONE_MS = 24 * 60 * 60 * 1000

CLOCK_SLACK_MS = 10 * 60 * 1000
"""A time of writing that lies further ahead than this was taken from a clock that was wrong."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A session whose best copy differs from what is indexed."""

    session_id: str
    source_id: int
    fingerprint: str


def fingerprint(ref: SessionRef) -> str:
    """Return what must differ for a session to be read again."""
    return json.dumps([ref.title, ref.project_id, ref.directory, ref.activity_ms, ref.version])


_SETTLE_STRANDED = """
WITH told AS (
  SELECT s.id, CASE WHEN count(c.stranded) = count(*) THEN (
      SELECT b.stranded FROM session_copies b WHERE b.session_id = s.id
      ORDER BY b.activity DESC, b.rank DESC, b.source_id LIMIT 1
    ) END AS stranded
  FROM sessions s JOIN session_copies c ON c.session_id = s.id
  WHERE :id IS NULL OR s.id = :id
  GROUP BY s.id
)
UPDATE sessions SET stranded = told.stranded FROM told
WHERE told.id = sessions.id AND told.stranded IS NOT sessions.stranded
"""


class Index:
    """An open index. Use as a context manager; one per thread.

    Raises sync.errors.IndexUnusable on opening what is not an index.
    """

    def __init__(self, conn: sqlite3.Connection, path: Path) -> None:
        self.conn = conn
        self.path = path
        self.full_text = FullText(conn)
        self.forgotten = ForgottenSessions(path)

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
                self.full_text.flush()
        finally:
            self.full_text.drop()

    # Sources and what they list

    def source_id(self, kind: SourceKind, location: str) -> int:
        """Return the number of a source, giving it one the first time."""
        self.conn.execute(
            "INSERT INTO sources (kind, location) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (kind, clean(location)),
        )
        row = self.conn.execute(
            "SELECT id FROM sources WHERE kind = ? AND location = ?", (kind, clean(location))
        ).fetchone()
        return int(row[0])

    def source_signature(self, source_id: int) -> str | None:
        row = self.conn.execute(
            "SELECT signature FROM sources WHERE id = ?", (source_id,)
        ).fetchone()
        return row[0] if row else None

    def source_listed(self, source_id: int, *, listed_at_ms: int, signature: str | None) -> None:
        """Record that a source was listed whole; signature is what it looked like before."""
        self.conn.execute(
            """
            UPDATE sources SET last_sync = :listed_at, signature = :signature,
              sessions = (SELECT count(*) FROM session_copies WHERE source_id = :id)
            WHERE id = :id
            """,
            {"id": source_id, "listed_at": listed_at_ms, "signature": signature},
        )

    def source_listed_at(self, source_id: int) -> int | None:
        row = self.conn.execute(
            "SELECT last_sync FROM sources WHERE id = ?", (source_id,)
        ).fetchone()
        return row[0] if row else None

    def source_current(self, source_id: int, *, now_ms: int) -> None:
        """Record that a source, once listed whole, is still as it was."""
        self.conn.execute(
            "UPDATE sources SET last_sync = ? WHERE id = ? AND last_sync < ?",
            (now_ms, source_id, now_ms),
        )

    def source_failed(self, source_id: int, error: str) -> None:
        """Record why a source could not be read; the next sync lists it in any case."""
        self.conn.execute(
            "UPDATE sources SET signature = NULL, error = ? WHERE id = ?",
            (clean(error), source_id),
        )

    def source_read(self, source_id: int) -> None:
        """Sum up in the source's error what its problems are, or that it has none."""
        self.conn.execute(
            """
            UPDATE sources SET error = (
              SELECT CASE count(*) WHEN 0 THEN NULL WHEN 1 THEN '' ELSE count(*) || ' records ' END
                || 'not read' || CASE count(*) WHEN 1 THEN ': ' ELSE ', such as ' END
                || min(item) || ': ' || reason
              FROM problems WHERE source_id = :id
            ) WHERE id = :id
            """,
            {"id": source_id},
        )

    def copies(self, source_id: int) -> dict[str, str]:
        """Return the fingerprint of each session that a source is known to hold, by id."""
        rows = self.conn.execute(
            "SELECT session_id, fingerprint FROM session_copies WHERE source_id = ?", (source_id,)
        )
        return dict(rows.fetchall())

    def record_copies(self, source_id: int, refs: Iterable[SessionRef]) -> None:
        """Note what a source lists, but for what was forgotten: that leaves no trace."""
        forgotten = self.forgotten.all()
        self.conn.executemany(
            """
            INSERT INTO session_copies
              (session_id, source_id, rank, activity, fingerprint, holds, stranded, adds)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE SET rank = excluded.rank, activity = excluded.activity,
              fingerprint = excluded.fingerprint, holds = excluded.holds,
              stranded = excluded.stranded, adds = excluded.adds
            """,
            (
                (
                    ref.id, source_id, ref.rank, ref.activity_ms, fingerprint(ref), ref.holds,
                    ref.stranded, ref.adds,
                )
                for ref in refs
                if ref.id not in forgotten
            ),
        )  # fmt: skip

    def settle_stranded(self, session_id: str | None = None) -> None:
        """Say of one session, or of all, whether only stores that were left behind hold it.

        The best copy's reason counts. A session that no source lists any more stays as it was.
        """
        self.conn.execute(_SETTLE_STRANDED, {"id": session_id})

    def drop_copy(self, source_id: int, session_id: str) -> bool:
        """Forget that a source holds a session; True where no source holds it any more."""
        self.conn.execute(
            "DELETE FROM session_copies WHERE source_id = ? AND session_id = ?",
            (source_id, session_id),
        )
        self.conn.execute(
            "DELETE FROM problems WHERE source_id = ? AND session_id = ? AND stage = 'read'",
            (source_id, session_id),
        )
        left = self.conn.execute(
            "SELECT count(*) FROM session_copies WHERE session_id = ?", (session_id,)
        ).fetchone()[0]
        return bool(left == 0)

    def plan(self, available: Iterable[int]) -> Iterator[Planned]:
        """Yield the sessions to refresh, latest activity first.

        available: the sources that can be read now. The best copy among them and the one
        that is indexed counts, so a source that is away takes nothing from the index.
        """
        self.conn.execute("DROP TABLE IF EXISTS temp.plan")
        self.conn.execute(
            """
            CREATE TEMP TABLE plan AS
            WITH candidates AS (
              SELECT c.*, s.id IS NOT NULL AS indexed, s.added,
                s.source_id AS indexed_source, s.fingerprint AS indexed_fingerprint,
                s.deleted_at,
                row_number() OVER (
                  PARTITION BY c.session_id ORDER BY c.activity DESC, c.rank DESC, c.source_id
                ) AS place
              FROM session_copies c LEFT JOIN sessions s ON s.id = c.session_id
              WHERE c.source_id IN (SELECT value FROM json_each(:available))
                OR c.source_id = s.source_id
            )
            SELECT session_id, source_id, fingerprint
            FROM candidates
            WHERE place = 1
              AND source_id IN (SELECT value FROM json_each(:available))
              AND NOT (indexed AND indexed_source = source_id
                AND indexed_fingerprint = fingerprint AND deleted_at IS NULL
                AND added = (
                  SELECT coalesce(group_concat(o.source_id || ':' || o.adds, ' '), '') FROM (
                    SELECT source_id, adds FROM session_copies x
                    WHERE x.session_id = candidates.session_id AND x.adds <> ''
                      AND x.source_id <> candidates.source_id ORDER BY x.source_id
                  ) o
                ))
            ORDER BY activity DESC, session_id
            """,
            {"available": json.dumps(list(available))},
        )
        position = 0
        while rows := self.conn.execute(
            "SELECT rowid, * FROM temp.plan WHERE rowid > ? ORDER BY rowid LIMIT 500", (position,)
        ).fetchall():
            for rowid, *planned in rows:
                position = rowid
                yield Planned(*planned)

    def best_copy(self, session_id: str, available: Iterable[int]) -> Planned | None:
        """Return the copy of one session that plan() would choose, also where it is indexed.

        None where nobody holds the session, or only a source that cannot be read now.
        """
        row = self.conn.execute(
            """
            SELECT c.session_id, c.source_id, c.fingerprint
            FROM session_copies c LEFT JOIN sessions s ON s.id = c.session_id
            WHERE c.session_id = :id AND (
              c.source_id IN (SELECT value FROM json_each(:available))
              OR c.source_id = s.source_id)
            ORDER BY c.activity DESC, c.rank DESC, c.source_id LIMIT 1
            """,
            {"id": session_id, "available": json.dumps(list(available))},
        ).fetchone()
        return None if row is None or row[1] not in set(available) else Planned(*row)

    def planned(self) -> int:
        """Return how many sessions the last plan holds."""
        return int(self.conn.execute("SELECT count(*) FROM temp.plan").fetchone()[0])

    def save_projects(self, projects: Iterable[Project]) -> None:
        """Note what a source says of projects; whoever saw one last says where it is."""
        projects = list(projects)
        self.conn.executemany(
            """
            INSERT INTO projects (id, directory, name, vcs, created, updated)
            VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET
              directory = CASE WHEN coalesce(excluded.updated, 0) >= coalesce(updated, 0)
                THEN coalesce(excluded.directory, directory)
                ELSE coalesce(directory, excluded.directory) END,
              name = CASE WHEN coalesce(excluded.updated, 0) >= coalesce(updated, 0)
                THEN coalesce(excluded.name, name) ELSE coalesce(name, excluded.name) END,
              vcs = coalesce(excluded.vcs, vcs),
              created = coalesce(min(created, excluded.created), created, excluded.created),
              updated = coalesce(max(updated, excluded.updated), updated, excluded.updated)
            """,
            (
                (
                    clean(p.id), cleaned(p.directory), cleaned(p.name), cleaned(p.vcs),
                    p.created_ms, p.updated_ms,
                )
                for p in projects
            ),
        )  # fmt: skip
        self.conn.executemany(
            "INSERT INTO project_directories VALUES (?, ?) ON CONFLICT DO NOTHING",
            (
                (clean(project.id), clean(directory))
                for project in projects
                for directory in (project.directory, *project.sandboxes)
                # V1's global project has the root of the file system.
                if directory and directory != "/"
            ),
        )

    # Problems

    def replace_problems(
        self,
        source_id: int,
        stage: Literal["list", "read"],
        problems: Iterable[BadRecord],
        *,
        now_ms: int,
        session_id: str | None = None,
    ) -> None:
        """Replace what a stage found: all of a listing, or what reading one session found."""
        self.conn.execute(
            "DELETE FROM problems WHERE source_id = ? AND stage = ? "
            "AND (? IS NULL OR session_id = ?)",
            (source_id, stage, session_id, session_id),
        )
        self.conn.executemany(
            "INSERT INTO problems (source_id, stage, session_id, item, reason, found_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                (
                    source_id,
                    stage,
                    cleaned(p.session_id if session_id is None else session_id),
                    clean(p.item),
                    clean(p.reason),
                    now_ms,
                )
                for p in problems
            ),
        )

    def problems(self, source_id: int, stage: Literal["list", "read"]) -> list[BadRecord]:
        """Return what is known to be unreadable, also where no one looked at it again."""
        rows = self.conn.execute(
            "SELECT item, reason, session_id FROM problems "
            "WHERE source_id = ? AND stage = ? ORDER BY id",
            (source_id, stage),
        )
        return [BadRecord(item=i, reason=r, session_id=s) for i, r, s in rows]

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
        self._settle_forks(session.id, before, writer.written)
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
        forks.settle(self.conn, times)
        return True

    def _fork_signs(self, session_id: str) -> tuple[Any, ...] | None:
        """Return what of a session decides, besides its messages, whether it is a fork."""
        row = self.conn.execute(
            "SELECT created, project_id, fork_told, instr(title, ?) > 0 FROM sessions WHERE id = ?",
            (forks.FORK_TITLE, session_id),
        ).fetchone()
        return None if row is None else tuple(row)

    def _settle_forks(
        self, session_id: str, before: tuple[Any, ...] | None, written: Written
    ) -> None:
        changed = before != self._fork_signs(session_id)
        if changed and before is not None:
            written.times |= self._times(session_id)
        if changed or written.times:
            forks.settle(self.conn, written.times, [session_id])

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
