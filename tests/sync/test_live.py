"""Keeping one source current: races are forced by acting while a fetch is under way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sync import listing
from sync.backfill import run_backfill
from sync.errors import SourceUnavailable
from sync.index import Index
from sync.live import LiveSync, Peers
from sync.model import RANK_V2, BadRecord, Event
from sync.schedule import Schedule
from tests.builders import MINUTE, T0, copy, ref, session, user
from tests.sync.memory_source import LiveMemorySource, MemorySource


class Clock:
    """Turned by the test: seconds for schedules, milliseconds for writes."""

    def __init__(self) -> None:
        self.ms = T0 + 60 * MINUTE

    def seconds(self) -> float:
        return self.ms / 1000

    def milliseconds(self) -> int:
        self.ms += 1
        return self.ms

    def pass_s(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@dataclass
class World:
    """One index, a clock, and sources that are watched."""

    path: Path
    index: Index
    clock: Clock
    peers: Peers

    def watch(self, source: MemorySource) -> LiveSync:
        with self.index.transaction():
            source_id = self.index.source_id(source.kind, source.location)
        schedule = Schedule(self.clock.seconds, lambda: 1.0)
        live = LiveSync(source, source_id, schedule, self.peers, now_ms=self.clock.milliseconds)
        live.found()
        return live

    def settle(self, *lives: LiveSync) -> None:
        """Refresh what is due, a second at a time, until nothing is."""
        for _ in range(4):
            while sum(live.run_due(self.index) for live in lives):
                pass
            self.clock.pass_s(1)

    def rows(self, sql: str) -> list[Any]:
        return self.index.conn.execute(sql).fetchall()

    def texts(self) -> list[str]:
        return [
            row[0]
            for row in self.rows(
                "SELECT text FROM documents WHERE seq >= 0 ORDER BY session_id, seq"
            )
        ]

    def backfill(self, *sources: MemorySource) -> Any:
        return run_backfill(self.index, sources, clock=lambda: self.clock.milliseconds() / 1000)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "history.db"
    with Index.open(path) as index:
        yield World(path, index, Clock(), Peers())


@pytest.fixture
def service() -> LiveMemorySource:
    return LiveMemorySource()


def changed(session_id: str) -> Event:
    return Event(session_id=session_id)


def deleted(session_id: str) -> Event:
    return Event(session_id=session_id, deleted=True)


def test_an_event_brings_a_session_that_no_listing_told_of(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "brand new"))
    live.handle(world.index, changed("s1"))
    world.settle(live)
    assert world.texts() == ["brand new"]
    assert world.backfill(service).refreshed == 0


def test_a_message_without_a_new_activity_is_found_by_its_event(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "first"))
    world.backfill(service)
    service.put(session("s1"), user("m1", "first"), user("m2", "second"))
    assert world.backfill(service).refreshed == 0
    live.handle(world.index, changed("s1"))
    world.settle(live)
    assert world.texts() == ["first", "second"]


def test_one_new_message_in_a_session_of_2000_touches_one_document(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    messages = [user(f"m{n}", f"message {n}", at=T0 + n) for n in range(2000)]
    service.put(session("s1"), *messages)
    world.backfill(service)
    before = dict(world.rows("SELECT message_id, id FROM documents"))
    bodies = service.bodies
    changes = world.index.conn.total_changes
    service.put(session("s1"), *messages, user("m2000", "the new one"))
    live.handle(world.index, changed("s1"))
    world.settle(live)
    after = dict(world.rows("SELECT message_id, id FROM documents"))
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 1
    assert service.bodies - bodies == 1
    assert world.index.conn.total_changes - changes < 30


def test_a_deletion_takes_a_session_away_and_leaves_a_tombstone(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "soon gone"))
    service.put(session("s2"), user("m1", "stays"))
    world.backfill(service)
    del service.held["s1"]
    live.handle(world.index, deleted("s1"))
    assert world.texts() == ["stays"]
    assert world.rows("SELECT session_id FROM tombstones") == [("s1",)]


def test_a_404_for_a_session_that_the_source_had_takes_it_away(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "soon gone"))
    world.backfill(service)
    del service.held["s1"]
    live.handle(world.index, changed("s1"))
    world.settle(live)
    assert world.texts() == []
    assert world.rows("SELECT session_id FROM tombstones") == [("s1",)]


def test_a_deletion_that_no_event_told_of_is_found_by_the_next_backfill(
    world: World, service: LiveMemorySource
) -> None:
    service.put(session("s1"), user("m1", "soon gone"))
    service.put(session("s2"), user("m1", "stays"))
    world.backfill(service)
    del service.held["s1"]
    assert world.backfill(service).removed == 1
    assert world.texts() == ["stays"]


def test_a_session_that_is_only_missing_from_a_listing_stays(
    world: World, service: LiveMemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.put(session("s1"), user("m1", "precious"))
    world.backfill(service)
    monkeypatch.setattr(service, "sessions", lambda: iter(()))
    assert world.backfill(service).removed == 0
    service.unavailable = "the service has gone"
    assert world.backfill(service).removed == 0
    assert world.texts() == ["precious"]


def test_a_slow_fetch_does_not_revive_a_session_deleted_meanwhile(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "soon gone"))

    def meanwhile(_id: str) -> None:
        with Index.open(world.path) as index:
            live.handle(index, deleted("s1"))

    service.on_read = meanwhile
    live.handle(world.index, changed("s1"))
    live.run_due(world.index)
    assert (service.reads, world.texts()) == (["s1"], [])
    report = world.backfill(service)
    assert (service.reads, world.texts()) == (["s1", "s1"], [])
    assert (report.superseded, report.failures) == (1, [])


def test_a_slow_backfill_does_not_overwrite_what_came_after_its_fetch(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "old"))

    def meanwhile(_id: str) -> None:
        """Let the session change, and be refreshed, after the backfill's fetch has begun."""
        service.on_read = lambda _id: None
        old = service.held["s1"]
        service.put(session("s1"), user("m1", "new", stamp="new"))
        live.handle(world.index, changed("s1"))
        with Index.open(world.path) as index:
            live.run_due(index)
        service.held["s1"] = old

    service.on_read = meanwhile
    report = world.backfill(service)
    assert world.texts() == ["new"]
    assert (report.superseded, report.failures) == (1, [])


def test_a_change_during_a_refresh_is_not_lost(world: World, service: LiveMemorySource) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "old"))

    def meanwhile(_id: str) -> None:
        """Let the session change right after the refresh has seen it as it was."""
        service.on_read = lambda _id: service.put(session("s1"), user("m1", "new", stamp="new"))
        live.handle(world.index, changed("s1"))

    service.on_read = meanwhile
    live.handle(world.index, changed("s1"))
    live.run_due(world.index)
    assert world.texts() == ["old"]
    world.settle(live)
    assert world.texts() == ["new"]


def test_a_burst_of_events_costs_one_refresh_a_second_and_session(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    for number in range(5):
        service.put(session(f"s{number}"), user("m1", "text"))
    began = world.clock.ms
    for number in range(10_000):
        live.handle(world.index, changed(f"s{number % 5}"))
        world.clock.ms = began + number * 2000 // 10_000
        live.run_due(world.index)
    assert len(service.reads) <= 5 * 3


def test_a_failing_session_is_said_once_and_holds_up_nobody(
    world: World, service: LiveMemorySource, caplog: pytest.LogCaptureFixture
) -> None:
    live = world.watch(service)
    service.put(session("bad"), user("m1", "text"))
    service.put(session("good"), user("m1", "fine"))
    service.fails["bad"] = ValueError("not what it says")
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            live.handle(world.index, changed("bad"))
            live.handle(world.index, changed("good"))
            world.settle(live)
            world.clock.pass_s(100)
    assert [r.getMessage() for r in caplog.records] == [
        "session bad of http://127.0.0.1:4096 cannot be read, and is tried again later: "
        "ValueError: not what it says"
    ]
    assert world.texts() == ["fine"]
    assert service.reads.count("bad") < 12
    assert world.rows("SELECT error FROM sources") == [
        ("not read: session bad: ValueError: not what it says",)
    ]
    service.fails.clear()
    world.clock.pass_s(600)
    world.settle(live)
    assert world.texts() == ["text", "fine"]
    assert world.rows("SELECT error FROM sources") == [(None,)]


def test_what_failed_while_a_service_was_away_is_read_when_it_is_back(
    world: World, service: LiveMemorySource, caplog: pytest.LogCaptureFixture
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "text"))
    service.unavailable = "the service has gone"
    live.lost()
    live.handle(world.index, changed("s1"))
    for _ in range(6):
        world.settle(live)
        world.clock.pass_s(100)
    assert caplog.records == []
    service.unavailable = None
    live.found()
    world.settle(live)
    assert world.texts() == ["text"]


def test_a_session_that_was_busy_when_the_stream_broke_is_looked_at_again(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "first"))
    live.handle(world.index, changed("s1"))
    world.settle(live)
    service.put(session("s1"), user("m1", "first"), user("m2", "said while nobody listened"))
    assert world.backfill(service).refreshed == 0
    live.handle(world.index, Event(connected=True))
    world.settle(live)
    assert world.texts() == ["first", "said while nobody listened"]


def test_what_another_copy_completed_stays_while_the_message_is_the_same(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "as the service has it"))
    world.backfill(service)
    completed = user("m1", "as the service has it", "and what another has", stamp=f"t:{T0}+x:7")
    with world.index.transaction():
        world.index.replace_session(
            copy(session("s1"), completed),
            source_id=live.source_id,
            fingerprint="",
            fetched_at_ms=world.clock.milliseconds(),
        )
    service.put(session("s1"), user("m1", "as the service has it"), user("m2", "new"))
    live.handle(world.index, changed("s1"))
    world.settle(live)
    assert world.texts() == ["as the service has it\nand what another has", "new"]


# Files


def test_a_changed_file_is_listed_and_what_differs_refreshed(world: World) -> None:
    files = MemorySource()
    live = world.watch(files)
    files.stable_signature = "1"
    files.put(session("s1"), user("m1", "one"))
    files.put(session("s2"), user("m1", "two"))
    world.backfill(files)
    assert live.scan(world.index).skipped
    files.put(session("s1", at=T0 + 1), user("m1", "one, edited", stamp="new"))
    files.stable_signature = "2"
    assert [ref.id for ref in live.scan(world.index).changed] == ["s1"]
    world.settle(live)
    assert world.texts() == ["one, edited", "two"]
    assert files.reads[2:] == ["s1"]


def test_what_was_listed_before_a_listing_broke_off_is_refreshed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MemorySource()
    live = world.watch(files)
    files.put(session("s1"), user("m1", "listed"))

    def half() -> Iterator[Any]:
        yield from (ref(of) for of, _ in files.held.values())
        yield from [BadRecord(item="row", reason="bad")] * listing.CHUNK
        raise SourceUnavailable("the disk went away")

    monkeypatch.setattr(files, "sessions", half)
    with pytest.raises(SourceUnavailable):
        live.scan(world.index)
    world.settle(live)
    assert world.texts() == ["listed"]


def test_a_clock_that_goes_back_delays_a_refresh_but_loses_nothing(
    world: World, service: LiveMemorySource
) -> None:
    live = world.watch(service)
    service.put(session("s1"), user("m1", "old"))
    live.handle(world.index, changed("s1"))
    world.settle(live)
    world.clock.ms -= 10_000
    service.put(session("s1"), user("m1", "new", stamp="new"))
    live.schedule.hurry()
    live.handle(world.index, changed("s1"))
    for _ in range(60):
        world.settle(live)
    assert world.texts() == ["new"]


def test_a_session_deleted_from_a_file_goes(world: World) -> None:
    files = MemorySource()
    live = world.watch(files)
    files.put(session("s1"), user("m1", "soon gone"))
    files.put(session("s2"), user("m1", "stays"))
    live.scan(world.index)
    world.settle(live)
    del files.held["s1"]
    assert live.scan(world.index).removed == 1
    assert world.texts() == ["stays"]


def test_a_file_that_cannot_be_listed_takes_nothing_away(world: World) -> None:
    files = MemorySource()
    live = world.watch(files)
    files.put(session("s1"), user("m1", "precious"))
    live.scan(world.index)
    world.settle(live)
    files.held.clear()
    files.unavailable = "the disk is not mounted"
    with pytest.raises(SourceUnavailable):
        live.scan(world.index)
    assert world.texts() == ["precious"]


# A service and its own database, side by side


def test_an_event_refreshes_the_better_copy_in_the_database(
    world: World, service: LiveMemorySource
) -> None:
    files = MemorySource(rank=RANK_V2)
    api, db = world.watch(service), world.watch(files)
    service.put(session("s1", at=T0), user("m1", "from the service"))
    files.put(session("s1", at=T0 + 5), user("m1", "from the file"))
    world.backfill(service, files)
    files.put(session("s1", at=T0 + 5), user("m1", "from the file"), user("m2", "mid-turn"))
    api.handle(world.index, changed("s1"))
    world.settle(api, db)
    assert world.texts() == ["from the file", "mid-turn"]
    assert service.reads == []


def test_a_deletion_seen_by_the_service_is_checked_in_the_database_at_once(
    world: World, service: LiveMemorySource
) -> None:
    files = MemorySource(rank=RANK_V2)
    api, db = world.watch(service), world.watch(files)
    for source in (service, files):
        source.put(session("s1"), user("m1", "soon gone"))
    world.backfill(service, files)
    service.held.clear()
    files.held.clear()
    api.handle(world.index, deleted("s1"))
    world.settle(api, db)
    assert world.texts() == []
    assert world.rows("SELECT session_id FROM tombstones") == [("s1",)]


def test_another_copy_takes_over_from_a_deleted_one(
    world: World, service: LiveMemorySource
) -> None:
    files = MemorySource("/old-laptop/opencode.db", rank=RANK_V2)
    api, db = world.watch(service), world.watch(files)
    service.put(session("s1", at=T0 + 5), user("m1", "newer"))
    files.put(session("s1"), user("m1", "older", stamp="older"))
    world.backfill(service, files)
    assert world.texts() == ["newer"]
    service.held.clear()
    api.handle(world.index, deleted("s1"))
    world.settle(api, db)
    assert world.texts() == ["older"]


def test_a_source_that_is_away_is_nobodys_better_copy(
    world: World, service: LiveMemorySource
) -> None:
    files = MemorySource(rank=RANK_V2)
    api, db = world.watch(service), world.watch(files)
    service.put(session("s1", at=T0 + 5), user("m1", "from the service"))
    files.put(session("s1"), user("m1", "from the file"))
    with world.index.transaction():
        ref = service.find("s1")
        assert ref is not None
        world.index.record_copies(api.source_id, [ref])
    api.lost()
    db.scan(world.index)
    world.settle(db)
    assert world.texts() == ["from the file"]
