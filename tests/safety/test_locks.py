"""Nothing that this process does drops the locks of its own connections.

POSIX forgets all locks of a process on a file as soon as it closes any handle of that file.
Another process that ends then takes itself for the last one, and deletes the -wal that is
still in use: the index was damaged in just that way once.
"""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sync.index import Index
from sync.network_disk import network_file_system
from sync.sources.sqlite import SqliteSource
from sync.status import read_status
from tests.builders import copy, fill, session, user
from tests.opencode_stores import Database

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="not applicable: Windows has no such locks"
)

# SQLite's shared lock is on these bytes of the database file.
IS_LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
    except OSError:
        print("locked")
"""


def is_locked(path: Path) -> bool:
    command = [sys.executable, "-c", IS_LOCKED, str(path)]
    return subprocess.run(command, capture_output=True, check=True).stdout == b"locked\n"


def test_opening_the_index_again_keeps_the_locks_on_it(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", copy(session("a"), user("m", "words")))
    with Index.open(path) as index:
        index.conn.execute("SELECT count(*) FROM sessions").fetchone()
        assert is_locked(path)
        Index.open(path).close()
        read_status(path, [])
        network_file_system(path)
        assert is_locked(path)
    assert not is_locked(path)


def test_reading_a_source_keeps_the_locks_on_it(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "words")
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute("SELECT count(*) FROM session").fetchone()
        assert is_locked(path)
        source = SqliteSource(path)
        source.signature()
        refs = list(source.sessions())
        assert list(source.read("ses_1", {}).messages)  # type: ignore[union-attr]
        source.close()
        assert len(refs) == 1
        assert is_locked(path)
