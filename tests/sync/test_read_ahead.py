"""Reading ahead: the same values in the same order, whatever a source does meanwhile."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sync.backfill import run_backfill
from sync.errors import SourceUnavailable
from sync.index import Index
from sync.model import Message, Source
from sync.read_ahead import CHUNK, ReadAhead
from sync.refresh import SessionUnreadable
from tests.builders import T0, session, user
from tests.sync.memory_source import MemorySource


class Twins(MemorySource):
    """A source of which another thread may have a reader of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def twin(self) -> Source:
        twin = MemorySource(self.location)
        twin.held, twin.fails, twin.reads = self.held, self.fails, self.reads
        twin.on_read = self._note
        return twin

    def _note(self, session_id: str) -> None:
        self.threads.append(threading.get_ident())
        self.on_read(session_id)


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with Index.open(tmp_path / "history.db") as index:
        yield index


def filled(sessions: int, messages: int = 3) -> Twins:
    source = Twins()
    for number in range(sessions):
        source.put(
            session(f"s{number:03}", at=T0 - number),
            *[user(f"m{n}", f"text {n} of {number}", at=T0 + n) for n in range(messages)],
        )
    return source


def content(index: Index) -> list[Any]:
    return index.conn.execute(
        "SELECT session_id, message_id, seq, text FROM documents ORDER BY session_id, seq"
    ).fetchall()


def test_new_sessions_are_read_in_another_thread_and_written_whole(
    index: Index, tmp_path: Path
) -> None:
    source = filled(100)
    report = run_backfill(index, [source])
    assert report.refreshed == 100
    assert source.reads == [f"s{number:03}" for number in range(100)]
    assert set(source.threads) != {threading.get_ident()}
    with Index.open(tmp_path / "plain.db") as plain:
        other = MemorySource()
        other.held = source.held
        run_backfill(plain, [other])
        assert content(index) == content(plain)


def test_sessions_longer_than_what_may_wait_are_read_to_their_end(index: Index) -> None:
    source = filled(3, messages=CHUNK * 9 + 1)
    run_backfill(index, [source])
    count = index.conn.execute("SELECT count(*) FROM documents WHERE seq >= 0").fetchone()
    assert count == (3 * (CHUNK * 9 + 1),)


def test_a_session_that_fails_half_way_takes_no_other_along(index: Index) -> None:
    source = filled(40)
    source.fails["s007"] = SourceUnavailable("the disk went away")
    source.fails["s031"] = ValueError("not what it says")
    report = run_backfill(index, [source])
    assert report.refreshed == 38
    assert [failure.session_id for failure in report.failures] == ["s007", "s031"]
    indexed = {row[0] for row in index.conn.execute("SELECT id FROM sessions")}
    assert indexed == set(source.held) - {"s007", "s031"}


def test_a_session_that_went_away_before_its_turn_is_not_indexed(index: Index) -> None:
    source = filled(40)
    source.on_read = lambda _id: source.held.pop("s020", None) and None
    run_backfill(index, [source])
    assert index.conn.execute("SELECT count(*) FROM sessions").fetchone() == (39,)


def test_sessions_that_the_index_knows_are_compared_not_read_ahead(index: Index) -> None:
    source = filled(5)
    run_backfill(index, [source])
    source.threads.clear()
    for number in range(5):
        _, messages = source.held[f"s{number:03}"]
        source.put(session(f"s{number:03}", at=T0 + 1), *messages)
    report = run_backfill(index, [source])
    assert (report.refreshed, report.messages_written, source.threads) == (5, 0, [])


def test_stopping_ends_the_thread_although_it_waits_to_hand_over(index: Index) -> None:
    source = filled(30, messages=CHUNK * 6)
    stops: list[bool] = [False, True]
    run_backfill(index, [source], stop=lambda: stops.pop(0) if len(stops) > 1 else stops[0])
    assert not [t for t in threading.enumerate() if "ReadAhead" in repr(getattr(t, "_target", ""))]


def test_what_was_not_wanted_is_not_there() -> None:
    source = filled(2)
    with ReadAhead(now()) as ahead:
        assert ahead.take("s000") is None
        ahead.want("s001", 1, source, "")
        fetched = ahead.take("s001")
        assert fetched is not None
        assert fetched.copy is not None
        assert [m.id for m in fetched.copy.messages if isinstance(m, Message)] == ["m0", "m1", "m2"]


def test_a_failure_at_the_first_step_is_raised_where_the_session_is_taken() -> None:
    source = filled(1)

    def fail(_id: str) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    source.on_read = fail
    with ReadAhead(now()) as ahead:
        ahead.want("s000", 1, source, "")
        with pytest.raises(SessionUnreadable) as raised:
            ahead.take("s000")
    assert raised.value.reason == "OperationalError: disk I/O error"


def now() -> Callable[[], int]:
    return lambda: T0
