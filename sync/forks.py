"""Which messages a fork copied, and from where: told by what the index holds, nothing else.

A fork has its origin's messages under new ids, with the times, models, tokens and costs of the
originals. A message is a copy where an older session of the project holds the same one, and its
own session was not there yet when it was said, or says of itself that it is a fork. It counts
in the oldest session that holds it.

Because the answer depends on the index's content alone, it is brought up to date at the end of
every transaction, for the moments at which messages came, went or changed. So a fork that is
indexed before its origin, or outlives it, ends up as it would in an index made afresh.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

FORK_TITLE = "(fork #"
"""In the titles that OpenCode gives to forks; people may have changed them."""

CROWD = 1_000
"""Messages of one and the same millisecond from which on it tells nothing: no one forks a
session so often, but a program that writes history may give all of it one time."""

# Two columns and the row id answer this from the index alone, message by message.
_SHARED_TIMES = """
SELECT wanted.value, count(*) >= :crowd FROM json_each(:times) wanted
CROSS JOIN documents d INDEXED BY documents_timestamp ON d.timestamp = wanted.value
WHERE d.message_id <> ''
GROUP BY wanted.value
HAVING count(*) < :crowd AND min(d.id >> 20) <> max(d.id >> 20) OR max(d.copied)
"""

_UNMARK = """
UPDATE documents SET copied = 0, copied_from = NULL
WHERE timestamp = ? AND message_id <> '' AND copied = 1 RETURNING session_id
"""

_MESSAGES = """
SELECT d.timestamp, d.id, d.session_id, d.copied, d.copied_from,
  s.created, s.project_id, s.fork_told,
  d.timestamp < s.created OR s.fork_told IS NOT NULL OR instr(s.title, :fork_title) > 0,
  json_array(d.role, d.provider, d.model, d.cost, d.tokens_input, d.tokens_output,
    d.tokens_reasoning, d.tokens_cache_read, d.tokens_cache_write),
  -- What a model was paid for is told apart by that; compaction may clear outputs in one copy.
  CASE WHEN coalesce(d.cost, 0) > 0 OR coalesce(d.tokens_input, 0) + coalesce(d.tokens_output, 0)
      + coalesce(d.tokens_cache_read, 0) + coalesce(d.tokens_cache_write, 0) > 0 THEN ''
    WHEN d.own_length > 0 THEN substr(d.text, 1, d.own_length)
    ELSE d.text END
FROM json_each(:times) wanted
CROSS JOIN documents d INDEXED BY documents_timestamp ON d.timestamp = wanted.value
CROSS JOIN sessions s ON s.id = d.session_id
WHERE d.message_id <> ''
ORDER BY d.timestamp, s.created, s.id, d.seq
"""

# The direct origin of a fork of a fork is the session that shares most with it.
_ORIGIN = """
SELECT coalesce(s.fork_told, (
  SELECT o.session_id
  FROM documents d
  CROSS JOIN documents o INDEXED BY documents_timestamp ON o.timestamp = d.timestamp
  CROSS JOIN sessions os ON os.id = o.session_id
  WHERE d.session_id = s.id AND d.copied = 1 AND o.message_id <> ''
    AND o.role = d.role AND o.model IS d.model AND o.cost IS d.cost
    AND o.tokens_output IS d.tokens_output
    AND os.project_id IS s.project_id AND (os.created, os.id) < (s.created, s.id)
  GROUP BY o.session_id ORDER BY count(*) DESC, os.created, os.id LIMIT 1
)) FROM sessions s WHERE s.id = ?
"""


@dataclass(frozen=True, slots=True)
class _Message:
    time_ms: int
    document_id: int
    session_id: str
    copied: int
    copied_from: str | None
    session_created_ms: int
    project_id: str | None
    told: str | None
    may_be_copy: int
    paid: str
    text: str


class ForkMarks:
    """What a transaction has to settle at its end: once, however many sessions it writes."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self._times: set[int] = set()
        self._sessions: set[str] = set()

    def note(self, times: Iterable[int], sessions: Iterable[str] = ()) -> None:
        """Remember moments at which messages came, went or changed; see settle()."""
        self._times.update(times)
        self._sessions.update(sessions)

    def settle(self) -> None:
        if self._times or self._sessions:
            settle(self.conn, self._times, self._sessions)
        self.drop()

    def drop(self) -> None:
        """Give up what is noted: the transaction it belonged to was rolled back."""
        self._times.clear()
        self._sessions.clear()


def settle(
    conn: sqlite3.Connection,
    times: Collection[int],
    sessions: Iterable[str] = (),
    *,
    crowd: int = CROWD,
) -> None:
    """Mark the messages of these moments as copies or originals, in all sessions.

    times: Unix milliseconds; 0, the time of messages without one, tells nothing. sessions: those
    whose origin is to be found again in any case. crowd: see CROWD. Part of the caller's
    transaction.
    """
    found = conn.execute(
        _SHARED_TIMES, {"times": json.dumps([t for t in times if t]), "crowd": crowd}
    ).fetchall()
    shared = [time_ms for time_ms, crowded in found if not crowded]
    asked = set(sessions)
    for time_ms in (time_ms for time_ms, crowded in found if crowded):
        asked.update(session_id for (session_id,) in conn.execute(_UNMARK, (time_ms,)).fetchall())
    if shared:
        parameters: dict[str, Any] = {"times": json.dumps(shared), "fork_title": FORK_TITLE}
        rows = (_Message(*row) for row in conn.execute(_MESSAGES, parameters).fetchall())
        for _, group in groupby(rows, key=lambda message: message.time_ms):
            asked |= _settle_moment(conn, list(group))
    for session_id in sorted(asked):
        row = conn.execute(_ORIGIN, (session_id,)).fetchone()
        if row is not None:
            conn.execute(
                "UPDATE sessions SET forked_from = ? WHERE id = ? AND forked_from IS NOT ?",
                (row[0], session_id, row[0]),
            )


def _settle_moment(conn: sqlite3.Connection, messages: list[_Message]) -> set[str]:
    """Settle the messages of one moment, those of the oldest session first.

    Returns the sessions of which one was or is a copy.
    """
    same: defaultdict[tuple[str, str], list[_Message]] = defaultdict(list)
    forks = set()
    for message in messages:
        twins = same[message.paid, message.text]
        origin = _origin(message, twins)
        twins.append(message)
        if message.copied or origin is not None:
            forks.add(message.session_id)
        if (message.copied, message.copied_from) != (int(origin is not None), origin):
            conn.execute(
                "UPDATE documents SET copied = ?, copied_from = ? WHERE id = ?",
                (int(origin is not None), origin, message.document_id),
            )
    return forks


def _origin(message: _Message, older: list[_Message]) -> str | None:
    if not message.may_be_copy:
        return None
    for twin in older:
        related = twin.project_id == message.project_id or twin.session_id == message.told
        if twin.session_id != message.session_id and related:
            return twin.session_id
    return None
