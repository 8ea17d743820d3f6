"""The messages of a session as the index holds them: windows of whole messages.

A window is read by position (seq), so that a page costs the same wherever it stands in a
session of thousands of messages.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from datasette_history.errors import NotInIndex
from datasette_history.schema import TITLE_MESSAGE_ID

WINDOW: Final = 60
"""Messages of a page."""

BEFORE_ANCHOR: Final = 15
"""Of them, how many stand before the message that was asked for."""

_SEQ = "SELECT seq FROM documents WHERE session_id = ? AND message_id = ? AND message_id <> ''"

_EDGES = "SELECT min(seq), max(seq) FROM documents WHERE session_id = ? AND seq >= 0"

# Where the window begins: so many messages before the anchor.
_START = """
SELECT min(seq) FROM (
  SELECT seq FROM documents WHERE session_id = :session_id AND seq >= 0 AND seq <= :seq
  ORDER BY seq DESC LIMIT :before
)
"""

_AFTER = """
SELECT id FROM documents WHERE session_id = :session_id AND seq >= 0 AND seq >= :seq
ORDER BY seq LIMIT :limit
"""

_BEFORE = """
SELECT id FROM documents WHERE session_id = :session_id AND seq >= 0 AND seq < :seq
ORDER BY seq DESC LIMIT :limit
"""

_MESSAGES = """
SELECT id, message_id, seq, role, timestamp, agent, provider, model, cost,
  tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,
  finish, copied, reverted, only_in, own_length, text
FROM documents WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY seq
"""

_PARTS = """
SELECT document_id, seq, kind, call, name, title, status, started, ended, only_in, start, length
FROM parts WHERE document_id IN (SELECT value FROM json_each(:ids)) ORDER BY document_id, seq
"""

_PART_TEXT = """
SELECT substr(d.text, p.start + 1, p.length) FROM documents d JOIN parts p ON p.document_id = d.id
WHERE d.session_id = :session_id AND d.message_id = :message_id AND p.seq = :part
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of a message. own: its role said it, and not OpenCode on its behalf.

    only_in: json, v1 or v2 where only that older copy of the session still has it.
    """

    seq: int
    kind: str
    call: int | None
    name: str | None
    title: str | None
    status: str | None
    started_ms: int | None
    ended_ms: int | None
    text: str
    own: bool
    only_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, cached ones apart from input, and US dollars; None where nothing is known."""

    cost: float | None
    input: int | None
    output: int | None
    reasoning: int | None
    cache_read: int | None
    cache_write: int | None

    @property
    def tokens(self) -> int:
        """Return the sum of all tokens."""
        return sum(
            count or 0
            for count in (
                self.input, self.output, self.reasoning, self.cache_read, self.cache_write
            )
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, whole. seq: position in the session; only_in: as in Part."""

    message_id: str
    seq: int
    role: str
    timestamp_ms: int
    agent: str | None
    provider: str | None
    model: str | None
    usage: Usage
    finish: str | None
    copied: bool
    reverted: bool
    only_in: str | None
    parts: tuple[Part, ...]

    @property
    def parts_only_in(self) -> tuple[str, ...]:
        """Return which older copies have pieces that the newer ones lost."""
        return tuple(sorted({part.only_in for part in self.parts if part.only_in}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Messages that stand together, with what lies around them.

    earlier, later: position to continue from in that direction, None at the session's end.
    """

    messages: tuple[Message, ...]
    earlier: int | None
    later: int | None


def window_around(conn: sqlite3.Connection, session_id: str, message_id: str | None) -> Window:
    """Return the window that holds a message, or the session's beginning.

    Raises NotInIndex where the session does not hold the message.
    """
    seq = 0 if message_id is None else position(conn, session_id, message_id)
    place = {"session_id": session_id, "seq": seq, "before": BEFORE_ANCHOR + 1}
    start = conn.execute(_START, place).fetchone()[0]
    return window_from(conn, session_id, seq if start is None else start)


def window_from(conn: sqlite3.Connection, session_id: str, seq: int) -> Window:
    """Return up to WINDOW messages from the position on."""
    ids = _ids(conn, _AFTER, session_id, seq)
    return _window(conn, session_id, ids)


def window_before(conn: sqlite3.Connection, session_id: str, seq: int) -> Window:
    """Return up to WINDOW messages before the position."""
    ids = _ids(conn, _BEFORE, session_id, seq)
    return _window(conn, session_id, ids[::-1])


def position(conn: sqlite3.Connection, session_id: str, message_id: str) -> int:
    """Return a message's position; raise NotInIndex where the session does not hold it."""
    row = conn.execute(_SEQ, (session_id, message_id)).fetchone()
    if row is None or message_id == TITLE_MESSAGE_ID:
        raise NotInIndex(f"message {message_id!r} is not in session {session_id!r}")
    return int(row[0])


def part_text(conn: sqlite3.Connection, session_id: str, message_id: str, part: int) -> str:
    """Return the whole text of one piece; raise NotInIndex where there is none."""
    row = conn.execute(
        _PART_TEXT, {"session_id": session_id, "message_id": message_id, "part": part}
    ).fetchone()
    if row is None:
        raise NotInIndex(f"message {message_id!r} of session {session_id!r} has no part {part}")
    return str(row[0])


def load_messages(conn: sqlite3.Connection, ids: Sequence[int]) -> tuple[Message, ...]:
    """Return the messages of those document ids in their order."""
    wanted = {"ids": json.dumps(list(ids))}
    parts: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
    for document_id, *rest in conn.execute(_PARTS, wanted):
        parts[document_id].append(rest)
    return tuple(_message(row, parts[row[0]]) for row in conn.execute(_MESSAGES, wanted))


def _message(row: Sequence[Any], parts: Sequence[Sequence[Any]]) -> Message:
    (_, message_id, seq, role, timestamp, agent, provider, model, cost, tokens_input,
     tokens_output, reasoning, cache_read, cache_write, finish, copied, reverted,
     only_in, own_length, text) = row  # fmt: skip
    return Message(
        message_id=message_id,
        seq=seq,
        role=role,
        timestamp_ms=timestamp,
        agent=agent,
        provider=provider,
        model=model,
        usage=Usage(
            cost=cost,
            input=tokens_input,
            output=tokens_output,
            reasoning=reasoning,
            cache_read=cache_read,
            cache_write=cache_write,
        ),
        finish=finish,
        copied=bool(copied),
        reverted=bool(reverted),
        only_in=only_in,
        parts=tuple(_part(part, text, own_length) for part in parts),
    )


def _part(row: Sequence[Any], text: str, own_length: int) -> Part:
    seq, kind, call, name, title, status, started, ended, only_in, start, length = row
    return Part(
        seq=seq,
        kind=kind,
        call=call,
        name=name,
        title=title,
        status=status,
        started_ms=started,
        ended_ms=ended,
        text=text[start : start + length],
        own=start + length <= own_length,
        only_in=only_in,
    )


def _ids(conn: sqlite3.Connection, sql: str, session_id: str, seq: int) -> list[int]:
    rows = conn.execute(sql, {"session_id": session_id, "seq": seq, "limit": WINDOW})
    return [document_id for (document_id,) in rows]


def _window(conn: sqlite3.Connection, session_id: str, ids: Sequence[int]) -> Window:
    messages = load_messages(conn, ids)
    if not messages:
        return Window(messages=(), earlier=None, later=None)
    first, last = conn.execute(_EDGES, (session_id,)).fetchone()
    return Window(
        messages=messages,
        earlier=messages[0].seq if messages[0].seq > first else None,
        later=messages[-1].seq + 1 if messages[-1].seq < last else None,
    )
