"""The command ``watch`` as a process: signals, sudden deaths, and ``serve`` that watches too."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from sync.cli import cli
from tests.opencode_server import PASSWORD, opencode_server, session_item, user_item
from tests.opencode_stores import Database
from tests.sync.watching import command, eventually, found, read_until, require_sound, rows

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="not applicable: Windows has no such signals"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home without any history, so that no test meets the one of this machine."""
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "opencode.db", "1.18") as db:
        db.session("ses_1", "First")
        db.message("msg_1", "ses_1", "user", "pelican")
        yield db


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watch_follows_a_database_and_ends_cleanly_on_signals(
    home: Path, tmp_path: Path, database: Database, number: signal.Signals
) -> None:
    index = tmp_path / "history.db"
    with command(home, "watch", "--db", database.path, "--index", index) as process:
        lines = read_until(process, "Watching for changes")
        assert lines[0] == f"{database.path}: database"
        assert f"db       {database.path}: 1 session" in lines
        database.session("ses_2", "Second")
        database.message("msg_2", "ses_2", "user", "walrus")
        assert eventually(lambda: found(index, "walrus") == ["ses_2"]) < 5
        process.send_signal(number)
        output, _ = process.communicate(timeout=20)
        assert (process.returncode, output) == (0, "")
    require_sound(index)


def test_a_signal_during_the_first_backfill_ends_it_cleanly_too(home: Path, tmp_path: Path) -> None:
    index = tmp_path / "history.db"
    with opencode_server() as server:
        server.put(session_item("ses_1"), user_item("msg_1", "pelican"))
        gate = server.hold("/api/session/ses_1/message", times=-1)
        words = ("watch", "--url", server.url, "--index", index)
        with command(home, *words, OPENCODE_SERVER_PASSWORD=PASSWORD) as process:
            assert gate.arrived.wait(20)
            process.terminate()
            output, _ = process.communicate(timeout=15)
            assert process.returncode == 0, output
            assert PASSWORD not in output
        gate.open()
    assert rows(index, "SELECT count(*) FROM sessions") == [(0,)]
    assert rows(index, "SELECT finished FROM syncs") == [(None,)]


def fill(path: Path, sessions: int) -> None:
    with Database(path, "1.18") as db:
        db.conn.execute("BEGIN")
        for number in range(sessions):
            db.session(f"ses_{number:04}", f"Session {number}")
            for message in range(10):
                text = f"pelican {number} {message} " + "some words of a long answer " * 40
                db.message(f"msg_{number:04}_{message}", f"ses_{number:04}", "assistant", text)
        db.conn.execute("COMMIT")


def test_after_a_sudden_death_the_next_sync_completes_the_index(home: Path, tmp_path: Path) -> None:
    path, index, whole = (tmp_path / name for name in ("opencode.db", "history.db", "whole.db"))
    fill(path, 400)
    documents = "SELECT session_id, message_id, seq, text FROM documents ORDER BY 1, 3"
    # It dies once it has made the index, listed the source, and written ever more sessions.
    deaths = [
        "SELECT 1 FROM sqlite_master WHERE name = 'documents_fts'",
        "SELECT 1 FROM session_copies LIMIT 1",
        "SELECT 1 FROM syncs WHERE planned > 0",
        *(f"SELECT 1 FROM sessions GROUP BY 1 HAVING count(*) >= {n}" for n in (1, 100, 300)),
    ]
    for death in deaths:
        with command(home, "watch", "--db", path, "--index", index) as process:
            eventually(lambda death=death: rows(index, death) != [])  # type: ignore[misc]
            process.kill()
    result = CliRunner().invoke(cli, ["sync", "--db", str(path), "--index", str(index)])
    assert result.exit_code == 0, result.output
    assert (
        CliRunner().invoke(cli, ["sync", "--db", str(path), "--index", str(whole)]).exit_code == 0
    )
    assert len(rows(whole, documents)) == 400 * 11
    assert rows(index, documents) == rows(whole, documents)
    require_sound(index)


def test_serve_watches_and_ends_cleanly(home: Path, tmp_path: Path, database: Database) -> None:
    index = tmp_path / "history.db"
    words = ("serve", "--db", database.path, "--index", index, "--port", "0")
    with command(home, *words) as process:
        read_until(process, "Watching for changes")
        database.session("ses_2", "Second")
        database.message("msg_2", "ses_2", "user", "walrus")
        assert eventually(lambda: found(index, "walrus") == ["ses_2"]) < 5
        process.terminate()
        output, _ = process.communicate(timeout=20)
        assert process.returncode == 0, output


@pytest.mark.parametrize("name", ["sync", "watch", "status"])
def test_a_url_that_is_none_is_wrong_usage_and_is_not_repeated(
    home: Path, tmp_path: Path, name: str
) -> None:
    words = [name, "--url", "http://me:s3cret@host:port", "--index", str(tmp_path / "history.db")]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert "Invalid value for --url: not a URL" in result.stderr
    assert "s3cret" not in result.output


def test_sync_reads_a_named_service_and_says_when_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "history.db"
    with opencode_server() as server:
        server.put(session_item("ses_1"), user_item("msg_1", "pelican"))
        url = server.url.replace("http://", "http://opencode:wrong@")
        result = CliRunner().invoke(cli, ["sync", "--url", url, "--index", str(index)])
        assert result.exit_code == 1
        assert f"{server.url} refused the user name or password" in result.stdout
        assert "wrong" not in result.output
        monkeypatch.setenv("OPENCODE_SERVER_PASSWORD", PASSWORD)
        result = CliRunner().invoke(cli, ["sync", "--url", server.url, "--index", str(index)])
        assert result.exit_code == 0, result.output
        assert f"api      {server.url}: 1 session" in result.stdout
    assert found(index, "pelican") == ["ses_1"]
    assert rows(index, "SELECT location FROM sources") == [(server.url,)]
