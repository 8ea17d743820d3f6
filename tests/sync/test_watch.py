"""Watching real services and real files, with threads and all."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sync import watch, watched
from sync.backfill import run_backfill
from sync.cli.options import discovery
from sync.hookspecs import SyncConfig
from sync.index import Index
from sync.storage import delete_index
from sync.watch import Watcher
from tests.builders import MINUTE, T0
from tests.opencode_server import (
    PASSWORD,
    OpenCodeServer,
    opencode_server,
    session_item,
    user_item,
)
from tests.opencode_stores import Database, JsonStore
from tests.sync.watching import eventually, found, require_sound, rows

OUTAGE = "SELECT error FROM sources WHERE error LIKE '%cannot be reached%'"

Start = Callable[[SyncConfig], Watcher]


@pytest.fixture
def index_path(tmp_path: Path) -> Path:
    return tmp_path / "index" / "history.db"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenCodeServer]:
    monkeypatch.setenv("OPENCODE_SERVER_PASSWORD", PASSWORD)
    with opencode_server() as server:
        yield server


@pytest.fixture
def start(index_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start watchers that look around twenty times a second."""
    for module in (watch, watched):
        monkeypatch.setattr(module, "TICK_S", 0.05)
    monkeypatch.setattr(watched, "RECONNECT_S", (0.05, 0.2))
    started = []

    def begin(config: SyncConfig) -> Watcher:
        watcher = Watcher(index_path, discovery(config))
        watcher.start()
        started.append(watcher)
        return watcher

    yield begin
    for watcher in started:
        watcher.stop()


def service(server: OpenCodeServer) -> SyncConfig:
    return SyncConfig(urls=(server.url,))


# Services


def test_what_happens_in_a_service_is_found(
    server: OpenCodeServer, start: Start, index_path: Path
) -> None:
    server.put(session_item("ses_1", "From the start"), user_item("msg_1", "pelican"))
    start(service(server))
    eventually(lambda: found(index_path, "pelican") == ["ses_1"])
    server.wait_for_listener()
    server.put(session_item("ses_2", "Later"), user_item("msg_1", "walrus"))
    server.changed("ses_2")
    eventually(lambda: found(index_path, "walrus") == ["ses_2"])
    server.put(session_item("ses_2", "Renamed"), user_item("msg_1", "walrus"))
    server.changed("ses_2")
    eventually(lambda: found(index_path, "Renamed") == ["ses_2"])
    assert found(index_path, "Later") == []
    server.delete("ses_2")
    eventually(lambda: found(index_path, "walrus") == [])
    assert found(index_path, "pelican") == ["ses_1"]
    require_sound(index_path)


def test_events_count_from_the_start_even_while_the_first_backfill_hangs(
    server: OpenCodeServer, start: Start, index_path: Path
) -> None:
    server.put(session_item("ses_1", at=T0 + MINUTE), user_item("msg_1", "pelican"))
    gate = server.hold("/api/session/ses_1/message")
    start(service(server))
    assert gate.arrived.wait(20)
    server.wait_for_listener()
    server.put(session_item("ses_2"), user_item("msg_1", "walrus"))
    server.changed("ses_2")
    eventually(lambda: found(index_path, "walrus") == ["ses_2"])
    assert found(index_path, "pelican") == []
    assert rows(index_path, "SELECT finished FROM syncs ORDER BY id LIMIT 1") == [(None,)]
    gate.open()
    eventually(lambda: found(index_path, "pelican") == ["ses_1"])


def test_a_fetch_that_hangs_does_not_lock_the_index(
    server: OpenCodeServer, start: Start, index_path: Path
) -> None:
    server.put(session_item("ses_1"), user_item("msg_1", "pelican"))
    gate = server.hold("/api/session/ses_1/message", times=-1)
    start(service(server))
    assert gate.arrived.wait(20)
    conn = sqlite3.connect(index_path, timeout=0, isolation_level=None)
    eventually(lambda: _can_lock(conn), "the listing to end")
    conn.execute("BEGIN IMMEDIATE")
    conn.execute("ROLLBACK")
    conn.close()
    gate.open()
    eventually(lambda: found(index_path, "pelican") == ["ses_1"])


def _can_lock(conn: sqlite3.Connection) -> bool:
    try:
        conn.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    conn.execute("ROLLBACK")
    return True


def test_a_session_deleted_while_it_is_fetched_does_not_come_back(
    server: OpenCodeServer, start: Start, index_path: Path
) -> None:
    server.put(session_item("ses_1"), user_item("msg_1", "pelican"))
    server.put(session_item("ses_2"), user_item("msg_1", "walrus"))
    held = threading.Event()
    go_on = threading.Event()

    def answer_late(handler: Any) -> bool:
        """Take the answer from before the deletion, and send it after."""
        body = json.dumps({"data": server.held["ses_1"].messages, "cursor": {}}).encode()
        held.set()
        go_on.wait(20)
        handler.reply(200, body)
        return True

    server.on("/api/session/ses_1/message", answer_late)
    start(service(server))
    assert held.wait(20)
    server.wait_for_listener()
    server.delete("ses_1")
    eventually(lambda: rows(index_path, "SELECT session_id FROM tombstones") == [("ses_1",)])
    go_on.set()
    eventually(lambda: found(index_path, "walrus") == ["ses_2"])
    finished = "SELECT count(*) FROM syncs WHERE finished IS NOT NULL"
    eventually(lambda: rows(index_path, finished) >= [(1,)])
    assert found(index_path, "pelican") == []


def test_after_a_broken_stream_what_was_missed_is_found(
    server: OpenCodeServer, start: Start, index_path: Path
) -> None:
    server.put(session_item("ses_1"), user_item("msg_1", "pelican"))
    server.put(session_item("ses_2"), user_item("msg_1", "walrus"))
    start(service(server))
    eventually(lambda: found(index_path, "walrus") == ["ses_2"])
    server.wait_for_listener()
    gate = server.hold("/api/event")
    server.send(b'data: {"cut', None)
    assert gate.arrived.wait(20)
    server.put(session_item("ses_3"), user_item("msg_1", "said while nobody listened"))
    server.delete("ses_2", tell=False)
    gate.open()
    eventually(lambda: found(index_path, "nobody listened") == ["ses_3"])
    eventually(lambda: found(index_path, "walrus") == [])
    assert found(index_path, "pelican") == ["ses_1"]


def register(folder: Path, server: OpenCodeServer) -> None:
    folder.mkdir(exist_ok=True)
    registration = {
        "url": server.url, "pid": server.pid, "version": server.version, "password": PASSWORD,
    }  # fmt: skip
    (folder / "service.json").write_text(json.dumps(registration), encoding="utf-8")


def test_a_service_may_come_go_and_come_back_elsewhere(
    start: Start, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENCODE_SERVER_PASSWORD", raising=False)
    state = tmp_path / "state"
    start(SyncConfig(state_dirs=(state,)))
    for number, word in enumerate(("pelican", "walrus")):
        with opencode_server() as server:
            server.pid = os.getpid()
            for earlier in range(number + 1):
                words = ("pelican", "walrus")[earlier]
                server.put(session_item(f"ses_{earlier}"), user_item("msg_1", words))
            register(state, server)
            eventually(lambda word=word: found(index_path, word) != [])  # type: ignore[misc]
            server.wait_for_listener()
        eventually(lambda: rows(index_path, OUTAGE) != [], "the outage to be noted")
    assert found(index_path, "pelican") == ["ses_0"]
    assert rows(index_path, "SELECT kind, location FROM sources") == [
        ("api", str(state / "service.json"))
    ]


def test_10000_events_in_a_burst_cost_a_refresh_a_second_and_session(
    server: OpenCodeServer, start: Start, index_path: Path
) -> None:
    for number in range(4):
        server.put(session_item(f"ses_{number}"), user_item("msg_1", "pelican"))
    start(service(server))
    eventually(lambda: len(found(index_path, "pelican")) == 4)
    server.wait_for_listener()
    server.put(session_item("ses_0"), user_item("msg_1", "pelican"), user_item("msg_2", "walrus"))
    asked = len(server.requests)
    line = b'data: {"type": "session.renamed", "data": {"sessionID": "ses_%d"}}\n\n'
    server.send(*(line % (number % 4) for number in range(9_999)))
    server.put(session_item("ses_9"), user_item("msg_1", "the last one"))
    server.changed("ses_9")
    seconds = eventually(lambda: found(index_path, "the last one") == ["ses_9"])
    eventually(lambda: found(index_path, "walrus") == ["ses_0"])
    reads = [r for r in server.requests[asked:] if "/message" in r]
    assert len(reads) <= 5 * (seconds + 3)


# Files


def test_what_happens_in_a_database_is_found(
    tmp_path: Path, start: Start, index_path: Path
) -> None:
    path = tmp_path / "opencode.db"
    with Database(path, "1.18") as db:
        db.session("ses_1", "First")
        db.message("msg_1", "ses_1", "user", "pelican")
        start(SyncConfig(databases=(path,)))
        eventually(lambda: found(index_path, "pelican") == ["ses_1"])
        db.session("ses_2", "Second")
        db.message("msg_2", "ses_2", "user", "walrus")
        eventually(lambda: found(index_path, "walrus") == ["ses_2"])
        # A part that grows in place moves no time of the session or the message.
        part = json.dumps({"type": "text", "text": "walrus and ibex"})
        db.conn.execute(
            "UPDATE part SET data = ?, time_updated = ? WHERE message_id = 'msg_2'",
            (part, T0 + MINUTE),
        )
        eventually(lambda: found(index_path, "ibex") == ["ses_2"])
        db.conn.execute("UPDATE session SET title = 'Renamed' WHERE id = 'ses_1'")
        eventually(lambda: found(index_path, "Renamed") == ["ses_1"])
        for table in ("part", "message"):
            db.conn.execute(f"DELETE FROM {table} WHERE session_id = 'ses_2'")
        db.conn.execute("DELETE FROM session WHERE id = 'ses_2'")
        eventually(lambda: found(index_path, "walrus") == [])
    assert found(index_path, "pelican") == ["ses_1"]
    require_sound(index_path)


def test_a_database_and_a_store_that_come_later_are_watched(
    tmp_path: Path, start: Start, index_path: Path
) -> None:
    data = tmp_path / "data"
    start(SyncConfig(data_dirs=(data,)))
    eventually(lambda: rows(index_path, "SELECT count(*) FROM syncs") == [(1,)])
    store = JsonStore(data)
    store.session("ses_1", "In a file")
    store.message("msg_1", "ses_1", "user", "pelican")
    eventually(lambda: found(index_path, "pelican") == ["ses_1"])
    with Database(data / "opencode.db", "1.18") as db:
        db.session("ses_2", "In a database")
        db.message("msg_2", "ses_2", "user", "walrus")
        eventually(lambda: found(index_path, "walrus") == ["ses_2"])
    store.message("msg_3", "ses_1", "assistant", "ibex")
    eventually(lambda: found(index_path, "ibex") == ["ses_1"])


def test_a_database_that_vanishes_takes_nothing_away(
    tmp_path: Path, start: Start, index_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "opencode.db"
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "pelican")
    start(SyncConfig(databases=(path,)))
    eventually(lambda: found(index_path, "pelican") == ["ses_1"])
    away = path.rename(tmp_path / "away.db")
    error = "SELECT error FROM sources"
    eventually(lambda: rows(index_path, error) != [(None,)], "the outage to be noted")
    assert found(index_path, "pelican") == ["ses_1"]
    away.rename(path)
    eventually(lambda: rows(index_path, error) == [(None,)], "the end of the outage")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"{path}: No such file or directory; trying again",
        f"{path} can be read again",
    ]


# The index


def test_an_index_that_is_rebuilt_meanwhile_is_filled_again(
    server: OpenCodeServer, start: Start, index_path: Path
) -> None:
    server.put(session_item("ses_1"), user_item("msg_1", "pelican"))
    start(service(server))
    eventually(lambda: found(index_path, "pelican") == ["ses_1"])
    delete_index(index_path)
    eventually(lambda: found(index_path, "pelican") == ["ses_1"])
    server.put(session_item("ses_2"), user_item("msg_1", "walrus"))
    # The service has not noticed yet that the first listener has gone.
    server.wait_for_listener(2)
    server.changed("ses_2")
    eventually(lambda: found(index_path, "walrus") == ["ses_2"])


def test_several_watchers_and_a_sync_share_one_index(
    server: OpenCodeServer, start: Start, index_path: Path
) -> None:
    for number in range(30):
        server.put(session_item(f"ses_{number:02}"), user_item("msg_1", f"pelican {number}"))
    start(service(server))
    start(service(server))
    (source,) = discovery(service(server))()
    with Index.open(index_path) as index:
        report = run_backfill(index, [source])
    source.close()
    assert report.failures == []
    eventually(lambda: len(found(index_path, "pelican")) == 30)
    server.wait_for_listener(2)
    for number in range(0, 30, 3):
        server.delete(f"ses_{number:02}")
    eventually(lambda: len(found(index_path, "pelican")) == 20)
    require_sound(index_path)
