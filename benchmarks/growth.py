"""Lets a generated history grow, as OpenCode does while somebody works."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

TEXT = "One more question about the plumbusgauge: why does the last test fail?"
"""Text of every added message; its odd word stands nowhere else."""


def add_message(database: Path, layout: str, session_id: str) -> str:
    """Append one user message to a session; return its text."""
    table = "message" if layout == "v1" else "session_message"
    with closing(sqlite3.connect(database)) as conn, conn:
        (number,) = conn.execute(
            f"SELECT count(*) FROM {table} WHERE session_id = ?", (session_id,)
        ).fetchone()
        add = _add_v1 if layout == "v1" else _add_v2
        add(conn, session_id, number)
    return TEXT


def _add_v1(conn: sqlite3.Connection, session_id: str, number: int) -> None:
    now = _last(conn, "session", session_id) + 1_000
    message_id, part_id = f"msg_added{number:020x}", f"prt_added{number:020x}"
    data = {"role": "user", "time": {"created": now}, "agent": "build"}
    conn.execute(
        "INSERT INTO message VALUES (?, ?, ?, ?, ?)",
        (message_id, session_id, now, now, json.dumps(data)),
    )
    conn.execute(
        "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)",
        (part_id, message_id, session_id, now, now, json.dumps({"type": "text", "text": TEXT})),
    )
    conn.execute("UPDATE session SET time_updated = ? WHERE id = ?", (now, session_id))


def _add_v2(conn: sqlite3.Connection, session_id: str, number: int) -> None:
    now = _last(conn, "session_v2", session_id) + 1_000
    (seq,) = conn.execute(
        "SELECT max(seq) + 1 FROM session_message WHERE session_id = ?", (session_id,)
    ).fetchone()
    data = {"time": {"created": now}, "text": TEXT}
    conn.execute(
        "INSERT INTO session_message VALUES (?, ?, 'user', ?, ?, ?, ?)",
        (f"msg_added{number:020x}", session_id, seq, now, now, json.dumps(data)),
    )
    conn.execute(
        "UPDATE session_v2 SET time_updated = ?, time_idle = ? WHERE id = ?",
        (now, now, session_id),
    )


def _last(conn: sqlite3.Connection, table: str, session_id: str) -> int:
    sql = f"SELECT time_updated FROM {table} WHERE id = ?"
    return int(conn.execute(sql, (session_id,)).fetchone()[0])
