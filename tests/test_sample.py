"""The bundled sample: real sessions, nothing secret, private files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from datasette_history.sample import sample_database


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = sample_database(tmp_path / "data")
    with closing(sqlite3.connect(path.as_uri() + "?mode=ro", uri=True)) as conn:
        yield conn


def test_sample_holds_the_recorded_sessions(sample: sqlite3.Connection) -> None:
    assert sample.execute(
        "SELECT (SELECT count(*) FROM session), (SELECT count(*) FROM message),"
        " (SELECT count(*) FROM part), (SELECT count(*) FROM todo), (SELECT count(*) FROM project)"
    ).fetchone() == (44, 183, 459, 5, 3)
    assert sample.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert sample.execute("PRAGMA foreign_key_check").fetchall() == []


def test_sample_has_no_table_but_those_that_hold_history(sample: sqlite3.Connection) -> None:
    names = {
        name for (name,) in sample.execute("SELECT name FROM sqlite_master WHERE type='table'")
    }
    assert names == {
        "project",
        "session",
        "message",
        "part",
        "todo",
        "session_message",
        "migration",
    }


def test_every_directory_of_the_sample_belongs_to_its_invented_user(
    sample: sqlite3.Connection,
) -> None:
    directories = {d for (d,) in sample.execute("SELECT DISTINCT directory FROM session")}
    assert directories == {
        "/home/dev/acme-api",
        "/home/dev/acme-api-wt",
        "/home/dev/acme-api/services/billing",
        "/home/dev/acme-web",
        "/home/dev/notes",
    }


def test_sample_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    path = sample_database(tmp_path / "new" / "data")
    assert path == tmp_path / "new" / "data" / "opencode.db"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["opencode.db"]


def test_sample_written_again_replaces_the_earlier_file(tmp_path: Path) -> None:
    first = sample_database(tmp_path)
    whole = first.read_bytes()
    first.write_bytes(b"damaged")
    assert sample_database(tmp_path).read_bytes() == whole
