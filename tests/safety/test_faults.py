"""Full disks, read-only indexes, locked and vanished sources: errors, nothing half-written."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from sync.backfill import run_backfill
from sync.index import Index
from sync.report import Report
from sync.sources.sqlite import SqliteSource
from tests.builders import T0, copy, fill, session, user
from tests.opencode_stores import Database
from tests.sync.watching import require_sound


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "opencode.db"
    with Database(path, "1.18") as db:
        for n in range(50):
            db.session(f"ses_{n:02}", at=T0 + n)
            db.message(f"msg_{n:02}", f"ses_{n:02}", "user", f"words {n} " * 3000, at=T0 + n)
    return path


def backfill(path: Path, index_path: Path) -> Report:
    with contextlib.closing(SqliteSource(path)) as source, Index.open(index_path) as index:
        return run_backfill(index, [source])


UNPRIVILEGED = """
import os
import sync.cli.main, sync.plugins, sync.sources.sqlite
sync.plugins.make_plugin_manager()
if os.geteuid() == 0:  # who may write everything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""


def sync(*words: str | Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, after a few lines of Python."""
    code = f"{textwrap.dedent(before)}\nfrom sync.cli import cli\ncli()"
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="not applicable: no limits of file sizes")
def test_a_full_disk_is_one_clear_error_and_the_next_sync_goes_on(
    database: Path, tmp_path: Path
) -> None:
    index_path = tmp_path / "history.db"
    places = ("--index", index_path, "--db", database)
    limit = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
    """
    done = sync("sync", *places, before=limit)
    assert done.returncode == 1
    assert "the index could not be written" in done.stderr
    assert "Traceback" not in done.stderr
    require_sound(index_path)
    assert sync("sync", *places).returncode == 0
    with Index.open(index_path) as index:
        assert index.conn.execute("SELECT count(*) FROM sessions").fetchone() == (50,)


def test_an_index_without_room_keeps_what_it_had(database: Path, tmp_path: Path) -> None:
    index_path = tmp_path / "history.db"
    fill(index_path, copy(session("old"), user("m", "old words")))
    with contextlib.closing(SqliteSource(database)) as source, Index.open(index_path) as index:
        (pages,) = index.conn.execute("PRAGMA page_count").fetchone()
        index.conn.execute(f"PRAGMA max_page_count = {pages + 40}")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            run_backfill(index, [source])
        assert not index.conn.in_transaction
    require_sound(index_path)
    with Index.open(index_path) as index:
        assert ("old",) in index.conn.execute("SELECT id FROM sessions").fetchall()
        halves = index.conn.execute(
            "SELECT count(*) FROM sessions WHERE id NOT IN "
            "(SELECT session_id FROM documents WHERE message_id <> '')"
        ).fetchone()
        assert halves == (0,)


@pytest.mark.skipif(sys.platform == "win32", reason="not applicable: files have no such modes")
def test_a_read_only_index_is_one_clear_error(database: Path) -> None:
    # pytest's own folder is closed to the user that the process becomes.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index_path = fill(folder / "history.db")
        before = index_path.read_bytes()
        index_path.chmod(0o444)
        readable = Path(shutil.copy(database, folder / "opencode.db"))
        readable.chmod(0o444)
        folder.chmod(0o555)
        done = sync("sync", "--index", index_path, "--db", readable, before=UNPRIVILEGED)
        assert index_path.read_bytes() == before
        folder.chmod(0o700)
    assert done.returncode in (1, 2)
    assert f"{index_path} cannot be written: Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_locked_source_is_told_and_takes_nothing_away(database: Path, tmp_path: Path) -> None:
    index_path = tmp_path / "history.db"
    backfill(database, index_path)
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("INSERT INTO session (id, title) VALUES ('ses_new', 'New')")
        other.execute("BEGIN EXCLUSIVE")
        report = backfill(database, index_path)
        other.execute("ROLLBACK")
    assert report.exit_code() == 1
    assert "locked" in (report.sources[0].error or "")
    assert report.removed == 0
    assert backfill(database, index_path).refreshed == 1


def test_a_vanished_source_keeps_its_sessions_and_says_so(database: Path, tmp_path: Path) -> None:
    index_path = tmp_path / "history.db"
    backfill(database, index_path)
    source = SqliteSource(database)
    shutil.rmtree(database.parent)
    with contextlib.closing(source), Index.open(index_path) as index:
        report = run_backfill(index, [source])
        assert report.exit_code() == 1
        assert "No such file" in (report.sources[0].error or "")
        assert index.conn.execute("SELECT count(*) FROM sessions").fetchone() == (50,)
        (error,) = index.conn.execute("SELECT error FROM sources").fetchone()
        assert "No such file" in error


def test_status_tells_of_a_vanished_source(database: Path, tmp_path: Path) -> None:
    index_path = tmp_path / "history.db"
    backfill(database, index_path)
    shutil.rmtree(database.parent)
    (tmp_path / "empty").mkdir()
    done = sync("status", "--json", "--index", index_path, "--data-dir", tmp_path / "empty")
    found = json.loads(done.stdout)
    assert (found["sessions"], found["sources"][0]["sessions"]) == (50, 50)


@pytest.mark.parametrize("jump_s", [-400 * 24 * 3600, 400 * 24 * 3600], ids=["back", "ahead"])
def test_a_clock_that_jumps_hides_nothing_new(database: Path, tmp_path: Path, jump_s: int) -> None:
    now = T0 / 1000 + 1_000_000
    index_path = tmp_path / "history.db"

    def at(moment: float) -> Report:
        with contextlib.closing(SqliteSource(database)) as source, Index.open(index_path) as index:
            return run_backfill(index, [source], clock=lambda: moment)

    at(now)
    for number, moment in enumerate((now + jump_s, now + 60)):
        with Database(database) as db:
            change = (f"Renamed {number}", T0 + 100 + number, "ses_07")
            db.conn.execute("UPDATE session SET title = ?, time_updated = ? WHERE id = ?", change)
        at(moment)
    with Index.open(index_path) as index:
        title = index.conn.execute("SELECT title FROM sessions WHERE id = 'ses_07'").fetchone()
    assert title == ("Renamed 1",)
