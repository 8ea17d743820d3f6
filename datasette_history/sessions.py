"""What the index knows of sessions as a whole, for all answers alike."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from datasette_history.results import SessionInfo

_SESSIONS = """
SELECT num, id, title, project_id, directory, updated, archived, deleted_at,
  stranded, forked_from, end_user
FROM sessions WHERE num IN (SELECT value FROM json_each(:nums))
"""

# UNION, not UNION ALL: a cycle of parents in bad data ends instead of running for ever. The
# root is the ancestor whose own parent, if any, is not indexed; in a cycle there is none.
_ROOTS = """
WITH RECURSIVE up(id, ancestor, parent_id) AS (
  SELECT id, id, parent_id FROM sessions
  WHERE num IN (SELECT value FROM json_each(:nums)) AND parent_id IS NOT NULL
  UNION
  SELECT up.id, p.id, p.parent_id FROM up JOIN sessions p ON p.id = up.parent_id
)
SELECT id, ancestor FROM up
WHERE ancestor <> id AND NOT EXISTS (SELECT 1 FROM sessions q WHERE q.id = up.parent_id)
"""


def load_sessions(conn: sqlite3.Connection, nums: Iterable[int]) -> dict[int, SessionInfo]:
    """Return the sessions of those numbers, by number; unknown numbers are left out."""
    wanted = {"nums": json.dumps(sorted(set(nums)))}
    roots: dict[str, str] = dict(conn.execute(_ROOTS, wanted).fetchall())
    found = {}
    for row in conn.execute(_SESSIONS, wanted):
        (num, session_id, title, project_id, directory, updated, archived, deleted_at,
         stranded, forked_from, end_user) = row  # fmt: skip
        found[num] = SessionInfo(
            num=num,
            id=session_id,
            title=title,
            project_id=project_id,
            directory=directory,
            updated_ms=updated,
            root_id=roots.get(session_id),
            # OpenCode writes 0 for a session that is not archived.
            archived_ms=archived or None,
            deleted_ms=deleted_at,
            stranded=stranded,
            copy_of=forked_from,
            end_user=end_user,
        )
    return found
