"""The commands that write the index, as a shell runs them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from datasette_history.sample import sample_database
from sync.cli import cli
from tests.builders import copy, fill, session, user


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any history, so that no test meets the one of this machine."""
    for name in list(os.environ):
        if name.startswith(("OPENCODE", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def data_dir(home: Path) -> Path:
    """The data directory of this machine, with the bundled sample as its database."""
    folder = home / ".local" / "share" / "opencode"
    sample_database(folder)
    return folder


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args], prog_name="opencode-history")


def count(path: Path, table: str) -> int:
    conn = sqlite3.connect(path)
    try:
        return int(conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        conn.close()


def test_sync_indexes_what_the_machine_has(data_dir: Path) -> None:
    result = run("sync")
    assert result.exit_code == 0, result.output
    assert f"db       {data_dir / 'opencode.db'}: 44 sessions" in result.stdout
    assert "44 sessions refreshed, 0 removed, 0 failed" in result.stdout
    assert count(data_dir / "history-search" / "history.db", "sessions") == 44


def test_a_second_sync_has_nothing_to_do(data_dir: Path) -> None:
    run("sync")
    result = run("sync")
    assert result.exit_code == 0
    assert f"{data_dir / 'opencode.db'}: unchanged" in result.stdout
    assert "0 sessions refreshed" in result.stdout


def test_progress_goes_to_stderr_and_json_alone_to_stdout(data_dir: Path) -> None:
    plain = run("sync")
    assert "Indexing 44 sessions, newest first" in plain.stderr
    assert "Indexed 44 of 44 sessions" in plain.stderr
    assert "Indexing" not in plain.stdout
    result = run("sync", "--json")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert report["refreshed"] == 0
    assert report["sources"][0]["skipped"] is True


def test_without_any_history_sync_says_where_it_looked(home: Path) -> None:
    result = run("sync")
    assert result.exit_code == 3
    assert str(home / ".local" / "share" / "opencode") in result.stderr
    assert "No OpenCode history found" in result.stderr
    assert not (home / ".local").exists()


@pytest.mark.parametrize("option", ["--data-dir", "--db"])
def test_a_named_place_that_is_not_there_is_wrong_usage(home: Path, option: str) -> None:
    result = run("sync", option, home / "nowhere")
    assert result.exit_code == 2
    assert f"{home / 'nowhere'} does not exist" in result.stderr


def test_named_places_replace_those_of_the_machine(data_dir: Path, home: Path) -> None:
    other = sample_database(home / "old-laptop")
    index = home / "index.db"
    result = run("sync", "--db", other, "--index", index)
    assert result.exit_code == 0, result.output
    assert str(other) in result.stdout
    assert str(data_dir) not in result.stdout


def test_the_index_can_be_named_by_the_environment(
    data_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCODE_HISTORY_INDEX", str(home / "elsewhere.db"))
    assert run("sync").exit_code == 0
    assert count(home / "elsewhere.db", "sessions") == 44


def test_somebody_elses_file_is_refused_untouched(data_dir: Path) -> None:
    source = data_dir / "opencode.db"
    before = source.read_bytes()
    result = run("sync", "--index", source)
    assert result.exit_code == 1
    assert "not an index of conversation history" in result.stderr
    assert run("rebuild", "--index", source).exit_code == 1
    assert source.read_bytes() == before


def test_rebuild_makes_the_index_anew(data_dir: Path) -> None:
    index = fill(data_dir / "history-search" / "history.db", copy(session("left"), user("m", "x")))
    result = run("rebuild")
    assert result.exit_code == 0
    assert count(index, "sessions") == 44
    conn = sqlite3.connect(index)
    assert conn.execute("SELECT count(*) FROM sessions WHERE id = 'left'").fetchone() == (0,)
    conn.close()


def broken_row(data_dir: Path) -> None:
    conn = sqlite3.connect(data_dir / "opencode.db")
    conn.execute("UPDATE message SET data = '{not json' WHERE id = (SELECT min(id) FROM message)")
    conn.commit()
    conn.close()


def test_a_row_that_cannot_be_read_is_a_warning_and_strict_makes_it_an_error(
    data_dir: Path,
) -> None:
    broken_row(data_dir)
    result = run("sync")
    assert result.exit_code == 0
    assert "not read: " in result.stdout
    assert run("rebuild").exit_code == 0
    (data_dir / "history-search" / "history.db").unlink()
    assert run("sync", "--strict").exit_code == 1


def test_status_before_and_after_a_sync(data_dir: Path) -> None:
    before = run("status")
    assert before.exit_code == 0
    assert f"{data_dir / 'opencode.db'}: " in before.stdout
    assert "not made yet; run `opencode-history sync`" in before.stdout
    broken_row(data_dir)
    run("sync")
    after = run("status")
    assert "44 sessions" in after.stdout
    assert "last sync finished" in after.stdout
    assert "Not read: 1" in after.stdout
    found = json.loads(run("status", "--json").stdout)
    assert found["sessions"] == 44
    assert [s["sessions"] for s in found["sources"]] == [44]
    assert len(found["problems"]) == 1


def test_status_of_a_foreign_or_damaged_file_is_an_answer(data_dir: Path, home: Path) -> None:
    assert "not an index" in run("status", "--index", data_dir / "opencode.db").stdout
    damaged = home / "damaged.db"
    damaged.write_bytes(b"not a database" * 100)
    assert "opencode-history rebuild" in run("status", "--index", damaged).stdout


def test_a_closed_index_is_told_from_a_missing_or_damaged_one(data_dir: Path, home: Path) -> None:
    folder = home / "closed"
    index = folder / "history.db"
    run("sync", "--index", index)
    folder.chmod(0)
    try:
        if os.access(folder, os.R_OK):
            pytest.skip("not applicable to an administrator, who may look into every folder")
        status = run("status", "--index", index)
        assert (status.exit_code, "cannot be opened; look at the rights" in status.stdout) == (
            0,
            True,
        )
        for command, told in (
            ("sync", "cannot be written: Permission denied"),
            ("rebuild", "cannot be deleted: Permission denied"),
            ("search", "cannot be read: Permission denied"),
        ):
            words = ["words"] if command == "search" else []
            result = run(command, *words, "--index", index)
            assert (result.exit_code, told in result.stderr) == (1, True), result.stderr
    finally:
        folder.chmod(0o700)
    folder.chmod(0o500)
    (folder / "history.db").chmod(0o400)
    status = run("status", "--index", index)
    folder.chmod(0o700)
    assert "cannot be opened; look at the rights" in status.stdout
    assert "rebuild" not in status.stdout


def test_unknown_options_are_wrong_usage(home: Path) -> None:
    assert run("sync", "--nonsense").exit_code == 2


def test_python_m_sync_is_the_same_command(data_dir: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "sync", "sync", "--json"], capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["refreshed"] == 44
