"""A damaged database yields all that SQLite can still read, and tells what it cannot."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sync.backfill import run_backfill
from sync.index import Index
from sync.model import BadRecord, SessionRef
from sync.report import Report
from sync.sources.sqlite import SqliteSource
from tests.builders import T0
from tests.opencode_stores import Database
from tests.safety.damage import leaves, overflow_pages, overwrite

SESSIONS = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "opencode.db"
    with Database(path, "1.18") as db:
        for n in range(SESSIONS):
            db.session(f"ses_{n:02}", f"Title {n}", at=T0 + n)
            db.message(f"msg_{n:02}", f"ses_{n:02}", "user", f"text {n} " + "x" * 1000, at=T0 + n)
    return path


def texts(path: Path) -> tuple[set[int], list[BadRecord]]:
    """Return the numbers of the messages that could be read, and what could not."""
    source = SqliteSource(path)
    bad: list[BadRecord] = []
    found: set[int] = set()
    listed = list(source.sessions())
    bad += [item for item in listed if isinstance(item, BadRecord)]
    for ref in listed:
        copy = source.read(ref.id, {}) if isinstance(ref, SessionRef) else None
        for item in copy.messages if copy else ():
            if isinstance(item, BadRecord):
                bad.append(item)
                continue
            found |= {int(part.text.split()[1]) for part in item.parts}
    source.close()
    return found, bad


def parts_on(path: Path, number: int) -> set[int]:
    """Return which messages' parts are on the nth page of the table of parts."""
    whole = leaves(path, "part")
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    overwrite(copy, whole[number])
    with Database(path) as db:
        rows = db.conn.execute("SELECT rowid, message_id FROM part").fetchall()
    lost = set()
    with sqlite3.connect(copy) as conn:
        for rowid, message_id in rows:
            try:
                conn.execute("SELECT data FROM part WHERE rowid = ?", (rowid,)).fetchone()
            except sqlite3.DatabaseError:
                lost.add(int(message_id.removeprefix("msg_")))
    conn.close()
    return lost


@pytest.mark.parametrize("number", [0, 3, -1], ids=["first", "middle", "last"])
def test_a_damaged_page_of_parts_costs_the_parts_on_it(path: Path, number: int) -> None:
    expected = parts_on(path, number)
    assert 0 < len(expected) < 8
    overwrite(path, leaves(path, "part")[number])
    found, bad = texts(path)
    assert found == set(range(SESSIONS)) - expected
    lost = [record.item for record in bad if record.item.startswith("part ")]
    assert len(lost) == len(expected)
    assert {record.reason for record in bad} == {"database disk image is malformed"}


def test_several_damaged_pages_leave_the_rows_between_them(path: Path) -> None:
    pages = leaves(path, "part")
    expected = parts_on(path, 1) | parts_on(path, 5) | parts_on(path, 6)
    overwrite(path, pages[1], pages[5], pages[6])
    assert texts(path)[0] == set(range(SESSIONS)) - expected


def test_a_damaged_index_costs_nothing(path: Path) -> None:
    for name in ("sqlite_autoindex_part_1", "sqlite_autoindex_message_1"):
        if pages := leaves(path, name):
            overwrite(path, *pages)
    found, bad = texts(path)
    assert (found, bad) == (set(range(SESSIONS)), [])


def test_rows_are_named_by_number_where_no_index_names_them(path: Path) -> None:
    expected = parts_on(path, 3)
    with Database(path) as db:
        names = [
            name
            for (name,) in db.conn.execute(
                "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'part'"
            )
        ]
    pages = [page for name in names for page in leaves(path, name)]
    overwrite(path, leaves(path, "part")[3], *pages)
    found, bad = texts(path)
    assert found == set(range(SESSIONS)) - expected
    assert len([r for r in bad if r.item.startswith("part row ")]) == len(expected)


def test_a_damaged_overflow_page_costs_its_one_part(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    with Database(path, "1.18") as db:
        for n in range(10):
            db.session(f"ses_{n}", at=T0)
            db.message(f"msg_{n}", f"ses_{n}", "user", f"text {n} " + "x" * 9000, at=T0 + n)
    overwrite(path, overflow_pages(path, "part")[4])
    found, bad = texts(path)
    assert len(found) == 9
    assert len([record for record in bad if record.item.startswith("part ")]) == 1


def backfill(path: Path, index_path: Path) -> Report:
    source = SqliteSource(path)
    try:
        with Index.open(index_path) as index:
            return run_backfill(index, [source])
    finally:
        source.close()


def test_what_was_indexed_before_the_damage_stays(path: Path, tmp_path: Path) -> None:
    index_path = tmp_path / "history.db"
    assert backfill(path, index_path).refreshed == SESSIONS
    for name in ("session", "message"):
        overwrite(path, leaves(path, name)[0])
    report = backfill(path, index_path)
    assert report.removed == 0
    with Index.open(index_path) as index:
        counts = index.conn.execute(
            "SELECT count(DISTINCT session_id), count(*) FROM documents WHERE role = 'user'"
        ).fetchone()
        lost = {item for (item,) in index.conn.execute("SELECT item FROM problems")}
    assert counts == (SESSIONS, SESSIONS)
    assert any(item.startswith("session ses_") for item in lost)


def test_a_file_cut_short_is_an_error_that_takes_nothing_away(path: Path, tmp_path: Path) -> None:
    index_path = tmp_path / "history.db"
    backfill(path, index_path)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    report = backfill(path, index_path)
    assert (report.exit_code(), report.removed) == (1, 0)
    assert "malformed" in (report.sources[0].error or "")
    with Index.open(index_path) as index:
        assert index.conn.execute("SELECT count(*) FROM sessions").fetchone() == (SESSIONS,)


def test_columns_of_any_name_are_only_names(path: Path) -> None:
    expected = parts_on(path, 3)
    with Database(path) as db:
        db.conn.execute('ALTER TABLE part ADD COLUMN "x"" FROM part; --" text')
    overwrite(path, leaves(path, "part")[3])
    assert texts(path)[0] == set(range(SESSIONS)) - expected
