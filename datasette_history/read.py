"""Reading a session: a window around a message, or page after page."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from datasette_history.errors import NotInIndex
from datasette_history.excerpts import clip_utf16
from datasette_history.results import ReadMessage, SessionInfo, SessionPage
from datasette_history.schema import TITLE_MESSAGE_ID
from datasette_history.sessions import load_sessions

SHOWN: Final = frozenset({"text", "summary", "subtask"})
"""Kinds of parts whose own text is content."""

RESULTS: Final = frozenset({"output", "error"})
"""Kinds of parts that are results of a tool call."""

NO_CONTENT: Final = frozenset({"tool", "input", "path", "agent"})
"""Kinds that content stands for by name (tools), or that only name what other parts say."""

RESULTS_OMITTED: Final = "[tool results omitted]"

_SESSION = "SELECT num FROM sessions WHERE id = ?"

_LATEST = """
SELECT id FROM sessions
WHERE directory IN (SELECT value FROM json_each(:directories)) AND deleted_at IS NULL
ORDER BY parent_id IS NOT NULL, updated DESC, id DESC LIMIT 1
"""

_SEQ = "SELECT seq FROM documents WHERE session_id = ? AND message_id = ?"

_AFTER = """
SELECT id FROM documents
WHERE session_id = :session_id AND seq > :seq
  AND role IN ('user', 'assistant') AND (:role IS NULL OR role = :role)
ORDER BY seq LIMIT :limit
"""

_BEFORE = """
SELECT id FROM documents
WHERE session_id = :session_id AND seq < :seq
  AND role IN ('user', 'assistant') AND (:role IS NULL OR role = :role)
ORDER BY seq DESC LIMIT :limit
"""

_ANCHOR = """
SELECT id FROM documents
WHERE session_id = :session_id AND seq = :seq
  AND role IN ('user', 'assistant') AND (:role IS NULL OR role = :role)
"""

_MESSAGES = """
SELECT id, message_id, role, timestamp, own_length, copied, reverted, only_in, text
FROM documents
WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY seq
"""

_PARTS = """
SELECT document_id, kind, call, name, start, length FROM parts
WHERE document_id IN (SELECT value FROM json_each(:ids)) ORDER BY document_id, seq
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How messages are shown.

    role: only messages of this role; None for both.
    max_chars: UTF-16 code units of the longest content.
    tool_results: whether content includes what tools returned.
    """

    role: str | None = None
    max_chars: int = 2000
    tool_results: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    kind: str
    call: int | None
    name: str | None
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


def latest_session(conn: sqlite3.Connection, directories: Sequence[str]) -> str | None:
    """Return the id of the session last active in one of the directories.

    Subagents' sessions count only where there are no others.
    """
    row = conn.execute(_LATEST, {"directories": json.dumps(directories)}).fetchone()
    return None if row is None else str(row[0])


def read_around(
    conn: sqlite3.Connection,
    session_id: str,
    message_id: str,
    *,
    before: int,
    after: int,
    shape: Shape,
) -> SessionPage:
    """Return the anchor with up to that many messages before and after it.

    The anchor may be a message of any kind; where the role excludes it, it only tells the
    place. Raises NotInIndex where the session does not hold it.
    """
    session = find_session(conn, session_id)
    seq = _seq(conn, session, message_id, "messageID")
    place = {"session_id": session.id, "seq": seq, "role": shape.role}
    earlier = _ids(conn, _BEFORE, {**place, "limit": before})
    anchor = _ids(conn, _ANCHOR, place)
    later = _ids(conn, _AFTER, {**place, "limit": after + 1})
    messages = _messages(conn, [*earlier, *anchor, *later[:after]], shape)
    # With nothing of the window behind the anchor, going on means going on from the anchor.
    last = messages[-1].message_id if later[:after] else message_id
    return SessionPage(
        session=session,
        messages=messages,
        next_cursor=last if len(later) > after else None,
        anchor_included=bool(anchor),
    )


def read_page(
    conn: sqlite3.Connection, session_id: str, *, cursor: str | None, limit: int, shape: Shape
) -> SessionPage:
    """Return up to limit messages after the cursor, or from the session's start.

    Raises NotInIndex where the session, or in it the cursor, is not indexed.
    """
    session = find_session(conn, session_id)
    seq = -1 if cursor is None else _seq(conn, session, cursor, "cursor")
    place = {"session_id": session.id, "seq": seq, "role": shape.role, "limit": limit + 1}
    ids = _ids(conn, _AFTER, place)
    messages = _messages(conn, ids[:limit], shape)
    return SessionPage(
        session=session,
        messages=messages,
        next_cursor=messages[-1].message_id if len(ids) > limit else None,
    )


def find_session(conn: sqlite3.Connection, session_id: str) -> SessionInfo:
    """Return a session; raise NotInIndex where there is none of that id."""
    row = conn.execute(_SESSION, (session_id,)).fetchone()
    if row is None:
        raise NotInIndex(
            f"session {session_id!r} is not in the index; "
            "search-sessions lists the ones that are, and `opencode-history sync` adds new ones"
        )
    return load_sessions(conn, [row[0]])[row[0]]


def _seq(conn: sqlite3.Connection, session: SessionInfo, message_id: str, name: str) -> int:
    row = conn.execute(_SEQ, (session.id, message_id)).fetchone()
    if row is None or message_id == TITLE_MESSAGE_ID:
        raise NotInIndex(
            f"{name} {message_id!r} is not a message of session {session.id!r}; "
            "use a messageID that a search or read returned for this session"
        )
    return int(row[0])


def _ids(conn: sqlite3.Connection, sql: str, parameters: Mapping[str, object]) -> list[int]:
    return [i for (i,) in conn.execute(sql, parameters)]


def _messages(
    conn: sqlite3.Connection, ids: Iterable[int], shape: Shape
) -> tuple[ReadMessage, ...]:
    wanted = {"ids": json.dumps(list(ids))}
    parts: defaultdict[int, list[_Part]] = defaultdict(list)
    for document_id, *rest in conn.execute(_PARTS, wanted):
        parts[document_id].append(_Part(*rest))
    messages = []
    for row in conn.execute(_MESSAGES, wanted):
        (document_id, message_id, role, timestamp_ms, own_length, copied, reverted, only_in,
         text) = row  # fmt: skip
        own = [part for part in parts[document_id] if _is_own(part, own_length)]
        content, truncated = clip_utf16(
            "\n".join(_pieces(own, text, shape.tool_results)), shape.max_chars
        )
        messages.append(
            ReadMessage(
                message_id=message_id,
                role=role,
                timestamp_ms=timestamp_ms,
                content=content,
                truncated=truncated,
                tool_results_omitted=not shape.tool_results and any(map(_is_result, own)),
                other_content_omitted=any(_is_other(p, own_length) for p in parts[document_id]),
                copied=bool(copied),
                reverted=bool(reverted),
                only_in=only_in,
            )
        )
    return tuple(messages)


def _pieces(parts: Sequence[_Part], text: str, tool_results: bool) -> list[str]:
    """Return what content is made of, in the order of the parts."""
    with_results = {part.call for part in parts if _is_result(part)}
    pieces = []
    for part in parts:
        if part.kind == "tool":
            pieces.append(f"[tool: {text[part.start : part.end] or part.name}]")
            if not tool_results and part.call in with_results:
                pieces.append(RESULTS_OMITTED)
        elif part.length and (part.kind in SHOWN or (tool_results and _is_result(part))):
            pieces.append(text[part.start : part.end])
    return pieces


def _is_own(part: _Part, own_length: int) -> bool:
    return part.end <= own_length


def _is_result(part: _Part) -> bool:
    return part.kind in RESULTS and part.call is not None and part.length > 0


def _is_other(part: _Part, own_length: int) -> bool:
    """Tell whether a part is something that content never has."""
    if part.length == 0:
        return False
    if not _is_own(part, own_length):
        return True
    return part.kind not in SHOWN | NO_CONTENT and not _is_result(part)
