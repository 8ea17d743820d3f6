"""Everything that users asked, in the order of time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from datasette_history.dates import DateRange
from datasette_history.matching import ALWAYS, Criteria, Matcher
from datasette_history.render import Json, iso, session_json
from datasette_history.results import Scope, SessionInfo
from datasette_history.schema import SLOT_BITS
from datasette_history.sessions import load_sessions

_PROMPTS = """
SELECT d.id, d.message_id, d.timestamp, d.copied, d.reverted
FROM documents d
WHERE d.role = 'user' AND d.timestamp >= :start AND d.timestamp < :end
  AND (:session_id IS NULL OR d.session_id = :session_id)
ORDER BY d.timestamp, d.session_id, d.seq
"""

_TEXTS = """
SELECT substr(d.text, p.start + 1, p.length)
FROM documents d JOIN parts p ON p.document_id = d.id
WHERE d.id = :id AND p.kind = 'text' AND p.length > 0 AND p.start + p.length <= d.own_length
ORDER BY p.seq
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The words of one user message, whole; of a subagent's session, its parent's."""

    session: SessionInfo
    message_id: str
    timestamp_ms: int
    text: str
    copied: bool
    reverted: bool


def user_prompts(
    conn: sqlite3.Connection,
    scope: Scope,
    *,
    dates: DateRange | None = None,
    session_id: str | None = None,
) -> Iterator[Prompt]:
    """Yield the user messages with words of their own, oldest first.

    session_id: only those of this session, whatever the scope. Neither what OpenCode added
    to a message nor attached files are part of the text.
    """
    matcher = Matcher(conn, Criteria(scope=scope if session_id is None else Scope()))
    between = dates or ALWAYS
    place = {"start": between.start_ms, "end": between.end_ms, "session_id": session_id}
    sessions: dict[int, SessionInfo] = {}
    for document_id, message_id, timestamp_ms, copied, reverted in conn.execute(_PROMPTS, place):
        num = document_id >> SLOT_BITS
        if not matcher.in_scope(num):
            continue
        text = "\n".join(piece for (piece,) in conn.execute(_TEXTS, {"id": document_id}))
        if text.strip():
            if num not in sessions:
                sessions |= load_sessions(conn, [num])
            yield Prompt(
                session=sessions[num],
                message_id=message_id,
                timestamp_ms=timestamp_ms,
                text=text,
                copied=bool(copied),
                reverted=bool(reverted),
            )


def prompt_json(prompt: Prompt) -> Json:
    """Return a prompt as JSON-safe values, in the words of the tools' answers."""
    about = session_json(prompt.session, lambda _session_id, _message_id: None)
    kept = ("sessionID", "title", "projectID", "directory", "rootSessionID", "endUser")
    marks = {"copied": prompt.copied, "reverted": prompt.reverted}
    return {
        "timestamp": prompt.timestamp_ms,
        "timestampISO": iso(prompt.timestamp_ms),
        **{key: about[key] for key in kept if key in about},
        "messageID": prompt.message_id,
        "text": prompt.text,
        **{name: True for name, is_set in marks.items() if is_set},
    }
