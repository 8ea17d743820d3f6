"""What the other copies of a session add to the one that is indexed.

Which of its messages a copy adds is for its source to say: those that the better copy cannot have
deleted, because they were written where it never looked.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sync.model import AddingSource, BadRecord, Message, Part, Source, Unchanged

ADDED = "x:"
"""Begins the stamp of every message that came from another copy than the indexed one."""

OTHERS = """
SELECT coalesce(group_concat(source_id || ':' || adds, ' '), '') FROM (
  SELECT source_id, adds FROM session_copies
  WHERE session_id = :id AND source_id <> :source_id AND adds <> '' ORDER BY source_id
)
"""


@dataclass(frozen=True, slots=True)
class Additions:
    """messages: in no order. told: what session_copies said of the other copies before."""

    messages: Sequence[Message]
    told: str


def others(conn: sqlite3.Connection, session_id: str, source_id: int) -> list[int]:
    """Return the sources whose copies add something to that of source_id."""
    rows = conn.execute(
        "SELECT source_id FROM session_copies WHERE session_id = ? AND source_id <> ? "
        "AND adds <> '' ORDER BY source_id",
        (session_id, source_id),
    )
    return [number for (number,) in rows]


def told(conn: sqlite3.Connection, session_id: str, source_id: int) -> str:
    """Return what tells whether the other copies still add the same."""
    row = conn.execute(OTHERS, {"id": session_id, "source_id": source_id}).fetchone()
    return str(row[0])


def gathered(sources: Sequence[Source], session_id: str) -> list[Message]:
    """Return what the copies of these sources add. Raises whatever a source raises."""
    return [
        replace(message, stamp=ADDED + message.stamp)
        for source in sources
        if isinstance(source, AddingSource)
        for message in source.additions(session_id)
    ]


def completed(
    messages: Iterator[Message | Unchanged | BadRecord], additions: Sequence[Message]
) -> Iterator[Message | Unchanged | BadRecord]:
    """Yield a copy's messages with the pieces that others have more of each."""
    more: dict[str, list[Part]] = {}
    for message in additions:
        more.setdefault(message.id, []).extend(p for p in message.parts if p.only_in)
    for item in messages:
        parts = more.get(item.id) if isinstance(item, Message) else None
        yield _with_parts(item, parts) if parts and isinstance(item, Message) else item


def _with_parts(message: Message, more: Sequence[Part]) -> Message:
    said = "\n".join(part.text for part in message.parts)
    lost = [part for part in more if part.text and part.text not in said]
    if not lost:
        return message
    digest = zlib.crc32("\n".join(part.text for part in lost).encode("utf-8", "replace"))
    return replace(
        message, parts=(*message.parts, *lost), stamp=f"{message.stamp}+{ADDED}{digest:x}"
    )


def own_stamp(stamp: str) -> str:
    """Return the stamp that a message had before completed() gave it more."""
    return stamp.partition(f"+{ADDED}")[0]
