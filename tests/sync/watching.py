"""What the tests of watching share: waiting for a state, reading an index from outside, and
commands as processes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S = 30
"""For a busy machine; what has to be quick is measured by its test."""


def eventually(state: Callable[[], bool], what: str = "the expected state") -> float:
    """Wait until a state has come and return after how many seconds; fail where it does not."""
    began = time.monotonic()
    while not state():
        if time.monotonic() - began > WAIT_S:
            raise AssertionError(f"waited {WAIT_S} s for {what}")
        time.sleep(0.02)
    return time.monotonic() - began


def rows(path: Path, sql: str, *values: str) -> list[tuple[object, ...]]:
    """Ask an index that others are writing; nothing where it is not there yet."""
    if not path.exists():
        return []
    conn = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        return conn.execute(sql, values).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []
        raise
    finally:
        conn.close()


def found(path: Path, phrase: str) -> list[object]:
    """Return the sessions with a message or title that holds a phrase, by full-text search."""
    sql = (
        "SELECT DISTINCT d.session_id FROM documents_fts f JOIN documents d ON d.id = f.rowid "
        "WHERE documents_fts MATCH ? ORDER BY d.session_id"
    )
    return [row[0] for row in rows(path, sql, f'"{phrase}"')]


def require_sound(path: Path) -> None:
    """Raise where the index is damaged, or its full-text index is not that of its documents."""
    conn = sqlite3.connect(path)
    try:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        conn.execute("INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)")
        conn.rollback()
    finally:
        conn.close()


@contextmanager
def command(home: Path, *words: str | Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run opencode-history as a process of its own, and end it with the block."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENCODE", "XDG_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "sync", *map(str, words)],
        env={**kept, "HOME": str(home), "PYTHONUNBUFFERED": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        assert process.stdout is not None
        process.stdout.close()
        process.wait()


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Return the lines up to one that holds text; fail where the process ends before."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if text in line:
            return lines
    raise AssertionError("\n".join(lines))
