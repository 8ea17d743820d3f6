"""Compares two indexes by what they say, not by how they number it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from tests.sync.watching import require_sound

PASSING = frozenset(
    {"num", "id", "document_id", "fetched_at", "source_id", "found_at", "last_sync", "signature"}
)
"""Columns that differ between two indexes of the same history."""

CONTENT: Mapping[str, str] = {
    "sessions": "SELECT * FROM sessions",
    "documents": "SELECT * FROM documents",
    "parts": "SELECT d.session_id, d.message_id, p.* FROM parts p "
    "JOIN documents d ON d.id = p.document_id",
    "document_paths": "SELECT d.session_id, d.message_id, p.* FROM document_paths p "
    "JOIN documents d ON d.id = p.document_id",
    "todos": "SELECT * FROM todos",
    "session_copies": "SELECT * FROM session_copies",
    "projects": "SELECT * FROM projects WHERE EXISTS (SELECT 1 FROM sessions s "
    "WHERE s.project_id = projects.id)",
    "problems": "SELECT * FROM problems",
    "sources": "SELECT * FROM sources",
}


def content(path: Path) -> dict[str, list[tuple[str, ...]]]:
    """Return every table's rows, sorted, without what passes."""
    conn = sqlite3.connect(path)
    try:
        found = {}
        for table, sql in CONTENT.items():
            cursor = conn.execute(sql)
            names = [column[0] for column in cursor.description]
            kept = [
                number
                for number, name in enumerate(names)
                if name not in PASSING or (table in ("sessions", "projects") and name == "id")
            ]
            found[table] = sorted(tuple(repr(row[n]) for n in kept) for row in cursor)
        return found
    finally:
        conn.close()


def require_same(path: Path, fresh: Path) -> None:
    """Raise where an index is damaged or holds anything but what a fresh one does."""
    require_sound(path)
    require_sound(fresh)
    one, other = content(path), content(fresh)
    for table in CONTENT:
        ours, theirs = set(one[table]), set(other[table])
        assert (ours - theirs, theirs - ours) == (set(), set()), table
        assert len(one[table]) == len(other[table]), table
