"""Take sessions out of the index for good: every byte of them, and for every later sync."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sync.forgotten import Forgotten
from sync.index import Index
from sync.storage import transaction


@dataclass(frozen=True, slots=True)
class Erased:
    """What became of sessions that were to be forgotten.

    sessions: their ids, subagents last. forks: other sessions, which hold copies of their
    messages. remains: why bytes of them may still be in the file or its -wal, None where
    there are none.
    """

    sessions: tuple[str, ...]
    forks: tuple[str, ...]
    remains: str | None


def with_subagents(conn: sqlite3.Connection, session_ids: Collection[str]) -> dict[str, str | None]:
    """Return sessions and all of their subagents, each with the session it goes along with."""
    rows = conn.execute(
        """
        WITH RECURSIVE below(id, root) AS (
          SELECT value, value FROM json_each(:ids)
          UNION
          SELECT s.id, b.root FROM below b JOIN sessions s ON s.parent_id = b.id
        )
        SELECT id, min(root) FROM below GROUP BY id
        """,
        {"ids": json.dumps(list(session_ids))},
    )
    roots = set(session_ids)
    found: dict[str, str | None] = dict.fromkeys(session_ids)
    found.update({id_: root for id_, root in rows if id_ not in roots})
    return found


def forget(index: Index, session_ids: Collection[str], *, now_ms: int) -> Erased:
    """Erase sessions and their subagents from the index and list them as forgotten.

    Forks stay, as sessions of their own. Raises IndexUnusable where the list cannot be
    written, sqlite3.Error where the index cannot; then nothing is forgotten.
    """
    conn = index.conn
    with index.transaction():
        going = with_subagents(conn, session_ids)
        index.forgotten.add(Forgotten(id_, now_ms, because) for id_, because in going.items())
        forks = _forks(conn, going)
        for session_id in going:
            erase(index, session_id, now_ms=now_ms)
        for (source_id,) in conn.execute("SELECT id FROM sources").fetchall():
            index.source_read(source_id)
    return Erased(tuple(going), forks, wipe(conn))


def erase(index: Index, session_id: str, *, now_ms: int) -> None:
    """Delete all rows of a session, whoever fetched it when."""
    conn = index.conn
    fetched = conn.execute("SELECT fetched_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
    index.remove_session(session_id, deleted_at_ms=max(now_ms, fetched[0] if fetched else 0))
    for table in ("session_copies", "problems", "tombstones"):
        conn.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))


def remember(index: Index, session_ids: Iterable[str]) -> list[str]:
    """Undo forgetting for the syncs to come, with subagents that went along; return the ids."""
    with index.transaction():
        known = index.forgotten.all()
        wanted = set(session_ids)
        back = [one.id for one in known.values() if one.id in wanted or one.because_of in wanted]
        index.forgotten.remove(back)
        # A source that has not changed is not listed, and they would not be found.
        index.conn.execute("UPDATE sources SET signature = NULL")
    return back


def wipe(conn: sqlite3.Connection) -> str | None:
    """Leave no byte of deleted rows in the file; return why some may remain, else None.

    FTS5 keeps a deleted text's trigrams in old segments until they are merged, SQLite keeps
    deleted rows in free space, and the -wal has pages as they were. Takes time in proportion
    to the whole index, and its size again on disk.
    """
    try:
        with transaction(conn):
            conn.execute("INSERT INTO documents_fts(documents_fts) VALUES ('optimize')")
        conn.execute("VACUUM")
        busy = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.Error as error:
        return str(error)
    return "another process is reading the index" if busy else None


def _forks(conn: sqlite3.Connection, going: Collection[str]) -> tuple[str, ...]:
    rows = conn.execute(
        "SELECT id FROM sessions WHERE forked_from IN (SELECT value FROM json_each(:ids)) "
        "AND id NOT IN (SELECT value FROM json_each(:ids)) ORDER BY id",
        {"ids": json.dumps(list(going))},
    )
    return tuple(id_ for (id_,) in rows)
