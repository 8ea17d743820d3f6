"""What the index keeps of sources: what they list, what to refresh, what could not be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from sync.forgotten import ForgottenSessions
from sync.model import BadRecord, Project, SessionRef, SourceKind
from sync.session_writer import cleaned
from sync.values import clean


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


class SourceRows:
    """The part of an open index that deals with sources; see sync.index.Index."""

    def __init__(self, conn: sqlite3.Connection, forgotten: ForgottenSessions) -> None:
        self.conn = conn
        self.forgotten = forgotten

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

    def source_error(self, source_id: int) -> str | None:
        row = self.conn.execute("SELECT error FROM sources WHERE id = ?", (source_id,)).fetchone()
        return row[0] if row else None

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
