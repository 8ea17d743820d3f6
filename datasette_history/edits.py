"""The search for edited files, newest first."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from datasette_history.dates import DateRange
from datasette_history.excerpts import clip
from datasette_history.matching import ALWAYS, FIRST_BLOCK, LARGEST_BLOCK, Criteria, Matcher
from datasette_history.paths import is_absolute, spellings
from datasette_history.postings import RARE
from datasette_history.results import Edit, EditList, SessionInfo
from datasette_history.schema import SLOT_BITS
from datasette_history.sessions import load_sessions

# Of edits at the same time, the later in the conversation is the newer; a fork's copy of an
# edit has the time of the original and counts as newer than it.
_EDITS = """
SELECT e.document_id, d.message_id, d.session_id, d.seq, e.timestamp, e.path, e.tool,
  d.copied, max(d.reverted, e.reverted), o.num
FROM document_paths e JOIN documents d ON d.id = e.document_id
LEFT JOIN sessions o ON o.id = d.copied_from
WHERE e.timestamp >= :start AND e.timestamp < :end
ORDER BY e.timestamp DESC, d.copied DESC, d.seq DESC, e.document_id DESC, e.path
"""

_EDITS_OF_SESSIONS = """
SELECT e.document_id, d.message_id, d.session_id, d.seq, e.timestamp, e.path, e.tool,
  d.copied, max(d.reverted, e.reverted), o.num
FROM json_each(:nums) wanted
CROSS JOIN document_paths e
  ON e.document_id BETWEEN wanted.value << :bits AND ((wanted.value + 1) << :bits) - 1
CROSS JOIN documents d ON d.id = e.document_id
LEFT JOIN sessions o ON o.id = d.copied_from
WHERE e.timestamp >= :start AND e.timestamp < :end
ORDER BY e.timestamp DESC, d.copied DESC, d.seq DESC, e.document_id DESC, e.path
"""

_EDITS_OF_PATHS = """
SELECT e.document_id, d.message_id, d.session_id, d.seq, e.timestamp, e.path, e.tool,
  d.copied, max(d.reverted, e.reverted), o.num
FROM document_paths e JOIN documents d ON d.id = e.document_id
LEFT JOIN sessions o ON o.id = d.copied_from
WHERE e.path IN (SELECT value FROM json_each(:paths))
  AND e.timestamp >= :start AND e.timestamp < :end
ORDER BY e.timestamp DESC, d.copied DESC, d.seq DESC, e.document_id DESC, e.path
"""

_EDITS_ENDING_IN = """
SELECT e.document_id, d.message_id, d.session_id, d.seq, e.timestamp, e.path, e.tool,
  d.copied, max(d.reverted, e.reverted), o.num
FROM document_paths e JOIN documents d ON d.id = e.document_id
LEFT JOIN sessions o ON o.id = d.copied_from
WHERE e.basename = :basename
  AND (e.path = :path OR substr(e.path, -length(:path) - 1) = '/' || :path)
  AND e.timestamp >= :start AND e.timestamp < :end
ORDER BY e.timestamp DESC, d.copied DESC, d.seq DESC, e.document_id DESC, e.path
"""

_EARLIER = """
SELECT e.document_id
FROM document_paths e JOIN documents d ON d.id = e.document_id
WHERE e.path IN (SELECT value FROM json_each(:paths)) AND e.timestamp <= :timestamp
ORDER BY e.timestamp, d.copied, d.seq, e.document_id
"""

_PROMPT_MESSAGE = """
SELECT u.id, u.message_id FROM documents u
WHERE u.session_id = :session_id AND u.role = 'user' AND u.seq < :seq
  AND EXISTS (SELECT 1 FROM parts t WHERE t.document_id = u.id
    AND t.kind = 'text' AND t.length > 0 AND t.start + t.length <= u.own_length)
ORDER BY u.seq DESC LIMIT 1
"""

_PROMPT_TEXTS = """
SELECT substr(d.text, t.start + 1, t.length)
FROM documents d JOIN parts t ON t.document_id = d.id
WHERE d.id = :id AND t.kind = 'text' AND t.length > 0 AND t.start + t.length <= d.own_length
ORDER BY t.seq
"""


@dataclass(frozen=True, slots=True)
class _Row:
    document_id: int
    message_id: str
    session_id: str
    seq: int
    timestamp_ms: int
    path: str
    tool: str | None
    copied: int
    reverted: int
    origin: int | None

    @property
    def num(self) -> int:
        return self.document_id >> SLOT_BITS


@dataclass(frozen=True, slots=True)
class _Prompt:
    message_id: str | None
    text: str | None
    truncated: bool


def search_edits(
    conn: sqlite3.Connection,
    criteria: Criteria,
    limit: int,
    *,
    dates: DateRange | None = None,
    rare: int = RARE,
) -> EditList:
    """Return up to limit edits made within dates, newest first.

    criteria choose the sessions, and its path the edits in them; criteria.dates would limit
    the messages that words match, which is not what the date of an edit search means.
    """
    matcher = Matcher(conn, criteria, rare=rare)
    edits = _edits(conn, matcher, criteria, dates or ALWAYS)
    rows = list(islice(_matching(matcher, edits), limit + 1))
    infos = load_sessions(conn, (row.num for row in rows[:limit]))
    return EditList(
        tuple(_edit(conn, matcher, row, infos[row.num]) for row in rows[:limit]),
        has_more=len(rows) > limit,
    )


def _edits(
    conn: sqlite3.Connection, matcher: Matcher, criteria: Criteria, dates: DateRange
) -> Iterator[_Row]:
    """Yield the edits among which the wanted ones are, newest first."""
    between: dict[str, object] = {"start": dates.start_ms, "end": dates.end_ms}
    if path := criteria.path:
        sql = _EDITS_OF_PATHS if path.absolute else _EDITS_ENDING_IN
        rows = conn.execute(sql, {**between, **path.parameters()})
    elif matcher.candidates is not None:
        nums = json.dumps(sorted(matcher.candidates))
        rows = conn.execute(_EDITS_OF_SESSIONS, {**between, "nums": nums, "bits": SLOT_BITS})
    else:
        rows = conn.execute(_EDITS, between)
    return (_Row(*row) for row in rows)


def _matching(matcher: Matcher, edits: Iterator[_Row]) -> Iterator[_Row]:
    """Yield the edits of sessions that match, asking for many sessions at once.

    A fork's copy of an edit that is yielded itself is left out.
    """
    size = FIRST_BLOCK
    while block := list(islice(edits, size)):
        nums = {num for row in block for num in (row.num, row.origin) if num is not None}
        matching = matcher.matching(num for num in nums if matcher.in_scope(num))
        yield from (row for row in block if row.num in matching and row.origin not in matching)
        size = min(size * 2, LARGEST_BLOCK)


def _edit(conn: sqlite3.Connection, matcher: Matcher, row: _Row, session: SessionInfo) -> Edit:
    prompt = _preceding_prompt(conn, row)
    return Edit(
        session=session,
        message_id=row.message_id,
        timestamp_ms=row.timestamp_ms,
        path=row.path,
        tool=row.tool,
        first=_first_document(conn, matcher, row) == row.document_id,
        prompt=prompt.text,
        prompt_truncated=prompt.truncated,
        prompt_message_id=prompt.message_id,
        copied=bool(row.copied),
        reverted=bool(row.reverted),
    )


def _first_document(conn: sqlite3.Connection, matcher: Matcher, row: _Row) -> int | None:
    """Return the document of the path's first edit in scope."""
    paths = spellings(row.path) if is_absolute(row.path) else (row.path,)
    earlier: Iterable[tuple[int]] = conn.execute(
        _EARLIER, {"paths": json.dumps(paths), "timestamp": row.timestamp_ms}
    )
    in_scope = (i for (i,) in earlier if matcher.in_scope(i >> SLOT_BITS))
    return next(in_scope, None)


def _preceding_prompt(conn: sqlite3.Connection, row: _Row) -> _Prompt:
    """Return the last user message with words of the user's own before an edit."""
    where = {"session_id": row.session_id, "seq": row.seq}
    found = conn.execute(_PROMPT_MESSAGE, where).fetchone()
    if found is None:
        return _Prompt(None, None, False)
    document_id, message_id = found
    texts = conn.execute(_PROMPT_TEXTS, {"id": document_id})
    text, truncated = clip("\n".join(text for (text,) in texts))
    return _Prompt(message_id, text, truncated)
