"""Finding a text within one session, all of it, whatever part of it is loaded."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from itertools import islice
from typing import Final

from datasette_history.excerpts import excerpt, find
from datasette_history.postings import phrase
from datasette_history.query import MIN_WORD
from datasette_history.schema import session_range

MAX_FOUND: Final = 200
"""Messages that are listed."""

# The full-text index cannot look for words that are shorter than a trigram.
_ALL = """
SELECT message_id, seq, role, timestamp, text FROM documents
WHERE session_id = :session_id AND seq >= 0 ORDER BY seq
"""

_HOLDING = """
SELECT d.message_id, d.seq, d.role, d.timestamp, d.text
FROM documents_fts f CROSS JOIN documents d ON d.id = f.rowid
WHERE documents_fts MATCH :phrase AND f.rowid BETWEEN :low AND :high AND d.seq >= 0
ORDER BY d.seq
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A message that holds the text."""

    message_id: str
    seq: int
    role: str
    timestamp_ms: int
    excerpt: str


def find_in_session(
    conn: sqlite3.Connection, session_id: str, num: int, text: str
) -> tuple[list[Found], bool]:
    """Return the messages that hold text, in their order, and whether there are more.

    num: the session's number in the index. Case does not matter; text may be of any length.
    """
    if not text.strip():
        return [], False
    low, high = session_range(num)
    if len(text) >= MIN_WORD:
        rows = conn.execute(_HOLDING, {"phrase": phrase(text), "low": low, "high": high})
    else:
        rows = conn.execute(_ALL, {"session_id": session_id})
    matching = (row for row in rows if find(row[4], text) >= 0)
    found = [
        Found(
            message_id=message_id,
            seq=seq,
            role=role,
            timestamp_ms=timestamp,
            excerpt=excerpt(content, text, 160),
        )
        for message_id, seq, role, timestamp, content in islice(matching, MAX_FOUND + 1)
    ]
    return found[:MAX_FOUND], len(found) > MAX_FOUND
