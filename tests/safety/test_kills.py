"""Writers that are killed, and many at once: the index is then as a fresh one would be.

HISTORY_KILLS and HISTORY_SECONDS make the runs longer than CI has time for.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sync.backfill import run_backfill
from sync.index import Index
from sync.listing import Listed, list_source
from sync.sources.sqlite import SqliteSource
from tests.builders import copy, session, user
from tests.safety.history_writer import BusyOpenCode
from tests.safety.same_index import content, require_same
from tests.sync.memory_source import MemorySource

KILLS = int(os.environ.get("HISTORY_KILLS", "12"))
SECONDS = float(os.environ.get("HISTORY_SECONDS", "8"))

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="not applicable: processes are not killed by signals"
)


@pytest.fixture
def opencode(tmp_path: Path) -> Iterator[BusyOpenCode]:
    (tmp_path / "data").mkdir()
    opencode = BusyOpenCode(tmp_path / "data" / "opencode.db", seed=8)
    yield opencode
    opencode.close()


def command(name: str, tmp_path: Path, *more: str) -> list[str]:
    places = ["--index", str(tmp_path / "history.db"), "--data-dir", str(tmp_path / "data")]
    return [sys.executable, "-m", "sync", name, *places, *more]


def backfill(tmp_path: Path, index_path: Path) -> None:
    source = SqliteSource(tmp_path / "data" / "opencode.db")
    with contextlib.closing(source), Index.open(index_path) as index:
        # What was being written as the last process died is looked at again.
        with index.transaction():
            index.conn.execute("UPDATE sources SET signature = NULL")
        report = run_backfill(index, [source])
        assert report.exit_code() == 0, report.to_text()


def test_a_killed_sync_leaves_an_index_that_the_next_one_completes(
    tmp_path: Path, opencode: BusyOpenCode
) -> None:
    seed = int(os.environ.get("HISTORY_SEED", "8"))
    print(f"seed {seed}, {KILLS} kills")  # noqa: T201  shown where the test fails
    chance = random.Random(seed)
    began = time.monotonic()
    subprocess.run(command("sync", tmp_path), capture_output=True, check=True, timeout=120)
    whole = time.monotonic() - began
    killed = 0
    for number in range(KILLS):
        opencode.step(30)
        if number % 4 == 3:
            for suffix in ("", "-wal", "-shm"):
                (tmp_path / f"history.db{suffix}").unlink(missing_ok=True)
        process = subprocess.Popen(
            command("sync", tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.2, 1.0) * whole)
        process.kill()
        killed += process.wait(60) == -signal.SIGKILL
        if (tmp_path / "history.db").exists():
            with contextlib.closing(sqlite3.connect(tmp_path / "history.db")) as conn:
                assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert killed > KILLS / 4
    backfill(tmp_path, tmp_path / "history.db")
    backfill(tmp_path, tmp_path / "fresh.db")
    require_same(tmp_path / "history.db", tmp_path / "fresh.db")
    assert len(content(tmp_path / "fresh.db")["documents"]) > 150


def test_many_that_sync_watch_and_read_at_once_agree_in_the_end(
    tmp_path: Path, opencode: BusyOpenCode
) -> None:
    errors = (tmp_path / "errors").open("w+b")
    watching = [
        subprocess.Popen(command("watch", tmp_path), stdout=subprocess.DEVNULL, stderr=errors)
        for _ in range(2)
    ]
    syncs: list[subprocess.Popen[bytes]] = []
    codes: list[int | None] = []
    reads = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        opencode.step()
        for process in [p for p in syncs if p.poll() is not None]:
            syncs.remove(process)
            codes.append(process.returncode)
        while len(syncs) < 3:
            syncs.append(
                subprocess.Popen(
                    command("sync", tmp_path), stdout=subprocess.DEVNULL, stderr=errors
                )
            )
        if (tmp_path / "history.db").exists():
            reads += read_whole(tmp_path / "history.db")
        time.sleep(0.2)
    codes += [process.wait(120) for process in syncs]
    for process in watching:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(120) for process in watching] == [0, 0]
    errors.seek(0)
    said = errors.read().decode()
    errors.close()
    assert set(codes) == {0}, said
    assert "Traceback" not in said
    assert reads > 2
    backfill(tmp_path, tmp_path / "history.db")
    backfill(tmp_path, tmp_path / "fresh.db")
    require_same(tmp_path / "history.db", tmp_path / "fresh.db")


def read_whole(path: Path) -> bool:
    """Read as a page does: what one transaction sees fits together. False while it is made."""
    conn = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        conn.execute("BEGIN")
        if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'documents_fts'").fetchone():
            return False
        found = conn.execute(
            "SELECT f.rowid, d.id FROM documents_fts f LEFT JOIN documents d ON d.id = f.rowid "
            "WHERE documents_fts MATCH 'login'"
        ).fetchall()
        assert all(rowid == document_id for rowid, document_id in found)
        orphans = conn.execute(
            "SELECT count(*) FROM documents WHERE session_id NOT IN (SELECT id FROM sessions)"
        ).fetchone()
        assert orphans == (0,)
        return True
    finally:
        conn.close()


def test_a_session_read_while_a_listing_ran_goes_when_that_found_it_gone(tmp_path: Path) -> None:
    # Such a session stayed for ever: no source was noted to hold it.
    source = MemorySource()
    source.put(session("gone"), user("m", "words"))
    source.put(session("kept"), user("n", "words"))
    clock = iter(range(1_000, 100_000, 10))
    path = tmp_path / "history.db"
    with Index.open(path) as index:
        run_backfill(index, [source], clock=lambda: next(clock))
        listing = MemorySource()
        listing.put(session("kept"), user("n", "words"))

        def read_by_another_process() -> None:
            made = copy(session("gone"), user("m", "words"))
            with index.transaction():
                index.replace_session(
                    made, source_id=1, fingerprint="f", fetched_at_ms=next(clock) * 1000
                )

        list_source(
            index,
            1,
            listing,
            Listed(),
            now_ms=lambda: next(clock) * 1000,
            between=read_by_another_process,
        )
        assert index.conn.execute("SELECT id FROM sessions").fetchall() == [("kept",)]
