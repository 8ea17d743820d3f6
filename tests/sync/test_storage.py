"""The index file: private, recognised, rebuilt when outdated, never taken from others."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from datasette_history import schema
from sync.backfill import TURN_S
from sync.errors import IndexUnusable
from sync.index import Index
from sync.storage import delete_index
from tests.builders import copy, fill, session, user


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folder_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = fill(tmp_path / "new" / "folder" / "history.db", copy(session("s1")))
        with Index.open(path) as index:
            index.conn.execute("SELECT count(*) FROM sessions").fetchone()
            modes = {p.name: mode(p) for p in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert modes == {"history.db": 0o600, "history.db-wal": 0o600, "history.db-shm": 0o600}
    assert mode(tmp_path / "new" / "folder") == mode(tmp_path / "new") == 0o700


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    Index.open(folder / "history.db").close()
    assert mode(folder) == 0o755


def test_a_readable_index_is_made_private_again(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db")
    path.chmod(0o644)
    Index.open(path).close()
    assert mode(path) == 0o600


@pytest.mark.parametrize("version", [0, schema.SCHEMA_VERSION + 1])
def test_another_version_is_dropped_and_rebuilt(tmp_path: Path, version: int) -> None:
    path = fill(tmp_path / "history.db", copy(session("s1"), user("m1", "old words")))
    conn = sqlite3.connect(path)
    conn.execute(f"PRAGMA user_version = {version}")
    conn.execute("CREATE TABLE of_another_version (x)")
    conn.commit()
    conn.close()
    with Index.open(path) as index:
        assert schema.state(index.conn) == "current"
        assert index.conn.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
        tables = {r[0] for r in index.conn.execute("SELECT name FROM sqlite_master")}
    assert "of_another_version" not in tables
    assert "documents_fts" in tables


def test_somebody_elses_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "precious.db"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE precious (x)")
    conn.commit()
    conn.close()
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(IndexUnusable, match="not an index of conversation history"):
        Index.open(path)
    with pytest.raises(IndexUnusable, match="was not touched"):
        delete_index(path)
    assert path.read_bytes() == before
    assert mode(path) == 0o644
    assert sorted(p.name for p in tmp_path.iterdir()) == ["precious.db"]


KILLED = """
import os, sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
conn.execute("CREATE TABLE precious (x)")
conn.execute("PRAGMA cache_size = 1")
conn.execute("BEGIN")
conn.execute("INSERT INTO precious SELECT randomblob(9000) FROM json_each('[1, 2, 3, 4, 5, 6]')")
if sys.argv[2] == "wal":
    conn.execute("COMMIT")
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_what_a_killed_program_left_beside_its_database_stays_there(
    tmp_path: Path, journal: str
) -> None:
    path = tmp_path / "precious.db"
    subprocess.run([sys.executable, "-c", KILLED, str(path), journal], check=False)
    beside = tmp_path / ("precious.db-wal" if journal == "wal" else "precious.db-journal")
    before = path.read_bytes(), beside.read_bytes()
    assert before[1]
    with pytest.raises(IndexUnusable, match="was not touched"):
        Index.open(path)
    with pytest.raises(IndexUnusable, match="was not touched"):
        delete_index(path)
    assert (path.read_bytes(), beside.read_bytes()) == before


def test_of_a_link_the_index_it_leads_to_is_deleted(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", copy(session("s1")))
    link = tmp_path / "link.db"
    link.symlink_to(path)
    delete_index(link)
    assert list(tmp_path.iterdir()) == [link]
    Index.open(link).close()
    assert path.exists()


def test_an_index_that_cannot_be_deleted_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IndexUnusable, match="cannot be deleted: Not a directory"):
        delete_index(tmp_path / "file" / "history.db")


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary " * 500)
    with pytest.raises(IndexUnusable, match="not a readable SQLite file"):
        Index.open(path)
    with pytest.raises(IndexUnusable):
        delete_index(path)
    assert path.read_text() == "dear diary " * 500


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IndexUnusable, match="is a directory"):
        Index.open(tmp_path)


def test_a_damaged_index_can_be_deleted(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", copy(session("s1")))
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8000)
    delete_index(path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_an_index(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.touch()
    with Index.open(path) as index:
        assert schema.state(index.conn) == "current"


START = """
import sys
import threading
import time
from pathlib import Path
from sync.index import Index
sys.stdin.readline()
with Index.open(Path(sys.argv[1])) as index, index.transaction():
    index.source_id("db", sys.argv[2])
"""


def test_many_processes_may_create_the_index_at_the_same_moment(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", START, str(path), str(number)], stdin=subprocess.PIPE
        )
        for number in range(6)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0] * 6
    with Index.open(path) as index:
        assert index.conn.execute("SELECT count(*) FROM sources").fetchone() == (6,)


def test_a_writer_gets_its_turn_between_the_transactions_of_a_busy_one(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    written = threading.Event()

    def write() -> None:
        with Index.open(path) as index, index.transaction():
            written.set()

    writer = threading.Thread(target=write)
    with Index.open(path) as busy:
        with busy.transaction():
            writer.start()
        turns = 0
        while not written.is_set():
            # As a backfill does: the lock is free for a moment, and taken for much longer.
            time.sleep(TURN_S)
            with busy.transaction():
                turns += 1
                time.sleep(0.2)
    writer.join()
    assert turns <= 10
