"""A backfill reads what differs, newest first, and survives whatever a source does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sync.backfill import Silent, run_backfill
from sync.errors import SourceUnavailable
from sync.index import Index
from sync.model import RANK_API, RANK_JSON, RANK_V1, RANK_V2, BadRecord, Project, SessionRef
from sync.report import EXIT_DONE, EXIT_FAILED, EXIT_NOTHING
from tests.builders import MINUTE, T0, session, user
from tests.sync.memory_source import MemorySource


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with Index.open(tmp_path / "history.db") as index:
        yield index


def titles(index: Index) -> list[str]:
    return [row[0] for row in index.conn.execute("SELECT title FROM sessions ORDER BY id")]


def texts(index: Index) -> list[str]:
    rows = index.conn.execute("SELECT text FROM documents WHERE seq >= 0 ORDER BY session_id, seq")
    return [row[0] for row in rows]


def test_sessions_are_read_newest_activity_first(index: Index) -> None:
    source = MemorySource()
    for name, minute in (("old", 0), ("newest", 2), ("middle", 1)):
        source.put(session(name, at=T0 + minute * MINUTE), user("m1", name))
    report = run_backfill(index, [source])
    assert source.reads == ["newest", "middle", "old"]
    assert (report.refreshed, report.exit_code()) == (3, EXIT_DONE)


def test_a_second_backfill_reads_no_session(index: Index) -> None:
    source = MemorySource()
    source.put(session("s1"), user("m1", "hello there"))
    run_backfill(index, [source])
    report = run_backfill(index, [source])
    assert (source.reads, source.bodies, source.listings) == (["s1"], 1, 2)
    assert (report.refreshed, report.removed) == (0, 0)


def test_an_unchanged_signature_spares_the_listing_too(index: Index) -> None:
    source = MemorySource()
    source.stable_signature = "size 1"
    source.put(session("s1"), user("m1", "hello there"))
    run_backfill(index, [source])
    report = run_backfill(index, [source])
    assert source.listings == 1
    assert report.sources[0].skipped
    source.stable_signature = "size 2"
    run_backfill(index, [source])
    assert source.listings == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"title": "Renamed"}, id="title"),
        pytest.param({"project_id": "other"}, id="project"),
        pytest.param({"directory": "/elsewhere"}, id="directory"),
        pytest.param({"updated_ms": T0 + 1}, id="activity"),
    ],
)
def test_a_session_whose_fingerprint_differs_is_refreshed(
    index: Index, change: dict[str, Any]
) -> None:
    source = MemorySource()
    source.put(session("s1"), user("m1", "one"))
    source.put(session("s2"), user("m1", "two"))
    run_backfill(index, [source])
    source.put(session("s1", **change), user("m1", "one"))
    report = run_backfill(index, [source])
    assert source.reads[2:] == ["s1"]
    assert report.refreshed == 1
    assert report.messages_written == 0


@pytest.mark.parametrize(
    ("first", "second", "wins"),
    [
        pytest.param((RANK_JSON, 1), (RANK_V1, 0), "first", id="later-activity"),
        pytest.param((RANK_V1, 0), (RANK_V2, 0), "second", id="v2-over-v1"),
        pytest.param((RANK_JSON, 0), (RANK_V1, 0), "second", id="v1-over-json"),
        pytest.param((RANK_API, 0), (RANK_V2, 0), "first", id="api-over-files"),
    ],
)
def test_of_several_copies_the_best_is_indexed_and_stays(
    index: Index, first: tuple[int, int], second: tuple[int, int], wins: str
) -> None:
    sources = []
    for name, (rank, minute) in (("first", first), ("second", second)):
        source = MemorySource(f"/data/{name}", rank=rank)
        source.put(session("s1", name, at=T0 + minute * MINUTE), user("m1", name))
        sources.append(source)
    run_backfill(index, sources)
    run_backfill(index, sources)
    assert titles(index) == [wins]
    assert texts(index) == [wins]
    assert [len(s.reads) for s in sources] == [int(s.location.endswith(wins)) for s in sources]


def test_a_copy_takes_over_when_the_better_one_is_deleted(index: Index) -> None:
    better, worse = MemorySource("/a", rank=RANK_V2), MemorySource("/b", rank=RANK_V1)
    better.put(session("s1", "better"))
    worse.put(session("s1", "worse"))
    run_backfill(index, [better, worse])
    better.held.clear()
    report = run_backfill(index, [better, worse])
    assert titles(index) == ["worse"]
    assert report.removed == 0


def test_a_session_that_its_source_no_longer_holds_is_removed(index: Index) -> None:
    source = MemorySource()
    source.put(session("gone"), user("m1", "soon deleted"))
    source.put(session("stays"), user("m1", "still there"))
    run_backfill(index, [source])
    del source.held["gone"]
    report = run_backfill(index, [source])
    assert texts(index) == ["still there"]
    assert report.removed == 1


def test_keep_lets_the_index_outlive_a_deletion(index: Index) -> None:
    source = MemorySource()
    source.put(session("gone"), user("m1", "soon deleted"))
    run_backfill(index, [source])
    source.held.clear()
    run_backfill(index, [source], keep=True)
    assert texts(index) == ["soon deleted"]
    assert index.conn.execute("SELECT deleted_at > 0 FROM sessions").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "away",
    [
        pytest.param("unavailable", id="unavailable"),
        pytest.param("not-probed", id="no-longer-found"),
        pytest.param("not-authoritative", id="a-service-that-lists-less"),
        pytest.param("bad-listing", id="a-listing-with-unknown-rows"),
    ],
)
def test_sessions_stay_where_the_source_cannot_say_that_they_are_gone(
    index: Index, away: str
) -> None:
    source = MemorySource()
    source.put(session("s1"), user("m1", "precious"))
    run_backfill(index, [source])
    source.held.clear()
    sources = [source]
    if away == "unavailable":
        source.unavailable = "the disk is not mounted"
    elif away == "not-probed":
        sources = []
    elif away == "not-authoritative":
        source.authoritative = False
    else:
        source.bad = [BadRecord(item="session row 7", reason="id is not text", hides_session=True)]
    run_backfill(index, sources)
    assert texts(index) == ["precious"]


def test_a_session_with_an_unreadable_row_stays_as_it_was(index: Index) -> None:
    source = MemorySource()
    source.put(session("s1"), user("m1", "precious"))
    run_backfill(index, [source])
    source.held.clear()
    source.bad = [
        BadRecord(
            item="session s1", reason="title is a number", session_id="s1", hides_session=True
        )
    ]
    report = run_backfill(index, [source])
    assert texts(index) == ["precious"]
    assert (report.exit_code(), report.exit_code(strict=True)) == (EXIT_DONE, EXIT_FAILED)


def test_a_failing_session_is_listed_and_its_neighbours_are_indexed(index: Index) -> None:
    source = MemorySource()
    for number in range(5):
        source.put(session(f"s{number}", at=T0 - number), user("m1", f"text {number}"))
    source.fails["s2"] = ValueError("not what it says")
    report = run_backfill(index, [source])
    assert texts(index) == ["text 0", "text 1", "text 3", "text 4"]
    assert [(f.session_id, f.reason) for f in report.failures] == [
        ("s2", "ValueError: not what it says")
    ]
    assert (report.refreshed, report.exit_code()) == (4, EXIT_FAILED)
    error = index.conn.execute("SELECT error FROM sources").fetchone()[0]
    assert error == "not read: session s2: ValueError: not what it says"
    source.fails.clear()
    assert run_backfill(index, [source]).refreshed == 1
    assert index.conn.execute("SELECT error FROM sources").fetchone()[0] is None
    assert index.conn.execute("SELECT count(*) FROM problems").fetchone() == (0,)


def test_a_failing_refresh_keeps_what_was_indexed(index: Index) -> None:
    source = MemorySource()
    source.put(session("s1"), user("m1", "as it was"))
    run_backfill(index, [source])
    source.put(session("s1", at=T0 + 1), user("m1", "half read", stamp="new"))
    source.fails["s1"] = SourceUnavailable("the disk went away")
    report = run_backfill(index, [source])
    assert texts(index) == ["as it was"]
    assert [f.reason for f in report.failures] == ["the disk went away"]


def test_unreadable_rows_are_reported_and_what_is_beside_them_is_indexed(index: Index) -> None:
    source = MemorySource()
    bad = [BadRecord(item=f"message m{n}", reason="not JSON", session_id="s1") for n in (1, 2)]
    source.put(session("s1"), user("m0", "before"), *bad, user("m3", "after"))
    report = run_backfill(index, [source])
    assert texts(index) == ["before", "after"]
    assert report.all_problems == bad
    error = index.conn.execute("SELECT error FROM sources").fetchone()[0]
    assert error == "2 records not read, such as message m1: not JSON"
    source.put(session("s1", at=T0 + 1), user("m0", "before"), user("m3", "after"))
    run_backfill(index, [source])
    assert index.conn.execute("SELECT count(*) FROM problems").fetchone() == (0,)


def test_a_source_that_cannot_be_read_does_not_stop_the_others(index: Index) -> None:
    broken, fine = MemorySource("/broken"), MemorySource("/fine")
    broken.unavailable = "/broken is locked"
    fine.put(session("s1"), user("m1", "fine"))
    report = run_backfill(index, [broken, fine])
    assert texts(index) == ["fine"]
    assert report.exit_code() == EXIT_FAILED
    assert index.conn.execute("SELECT location, error FROM sources ORDER BY id").fetchall() == [
        ("/broken", "/broken is locked"),
        ("/fine", None),
    ]


def test_a_session_deleted_between_listing_and_reading_is_removed(index: Index) -> None:
    source = MemorySource()
    source.put(session("s1", at=T0), user("m1", "one"))
    source.put(session("s2", at=T0 + 1), user("m1", "two"))
    run_backfill(index, [source], clock=lambda: T0 / 1000)
    source.put(session("s1", at=T0 + 5), user("m1", "one"))
    source.put(session("s2", at=T0 + 6), user("m1", "two"))
    source.on_read = lambda _id: source.held.pop("s1", None) and None
    report = run_backfill(index, [source], clock=lambda: (T0 + 10) / 1000)
    assert texts(index) == ["two"]
    assert report.removed == 1


def test_no_source_at_all_has_an_exit_code_of_its_own(index: Index) -> None:
    assert run_backfill(index, []).exit_code() == EXIT_NOTHING


def test_projects_are_saved_and_merged_over_sources(index: Index) -> None:
    one, two = MemorySource("/a"), MemorySource("/b")
    one.projects_held = [Project(id="p", directory="/home/dev/app", created_ms=5, updated_ms=6)]
    two.projects_held = [Project(id="p", name="App", created_ms=3, updated_ms=9)]
    two.put(session("s1", project_id="never-listed"))
    run_backfill(index, [one, two])
    assert index.conn.execute("SELECT * FROM projects ORDER BY id").fetchall() == [
        ("never-listed", None, None, None, None, None),
        ("p", "/home/dev/app", "App", None, 3, 9),
    ]


def test_status_rows_tell_a_running_backfill_and_then_a_finished_one(
    index: Index, tmp_path: Path
) -> None:
    source = MemorySource()
    for number in range(3):
        source.put(session(f"s{number}"), user("m1", "text"))
    seen: list[Any] = []
    reader = sqlite3.connect(tmp_path / "history.db")
    source.on_read = lambda _id: seen.append(
        reader.execute("SELECT planned, done, finished FROM syncs").fetchone()
    )
    run_backfill(index, [source], clock=lambda: T0 / 1000)
    assert seen == [(3, 0, None)] * 3
    assert reader.execute("SELECT planned, done, failed, finished FROM syncs").fetchall() == [
        (3, 3, 0, T0)
    ]
    reader.close()


def test_progress_is_told_of_every_session(index: Index) -> None:
    told: list[Any] = []

    class Recorder(Silent):
        def planned(self, sessions: int) -> None:
            told.append(sessions)

        def advanced(self, done: int) -> None:
            told.append(-done)

    source = MemorySource()
    for number in range(7):
        source.put(session(f"s{number}"), user("m1", "text"))
    run_backfill(index, [source], progress=Recorder())
    assert told[0] == 7
    assert sum(told) == 0


def test_whatever_a_source_raises_while_it_lists_stops_no_other_source(index: Index) -> None:
    class Broken(MemorySource):
        def sessions(self) -> Iterator[SessionRef | BadRecord]:
            yield from super().sessions()
            raise PermissionError(13, "Permission denied", "/data/x")

    class Unsigned(MemorySource):
        def signature(self) -> str | None:
            raise ValueError("no digest")

    broken, unsigned, good = Broken("/a"), Unsigned("/b"), MemorySource("/c")
    for source, name in ((broken, "s1"), (unsigned, "s2"), (good, "s3")):
        source.put(session(name, name), user("m1", name))
    report = run_backfill(index, [broken, unsigned, good])
    assert [one.error for one in report.sources] == [
        "/a: PermissionError: [Errno 13] Permission denied: '/data/x'",
        "/b: ValueError: no digest",
        None,
    ]
    assert report.exit_code() == EXIT_FAILED
    assert titles(index) == ["s3"]


@pytest.mark.parametrize("name", ["", "ses_\udcff", "ses_\0"])
def test_a_session_whose_id_cannot_be_stored_is_reported_and_its_neighbours_indexed(
    index: Index, name: str
) -> None:
    source = MemorySource("/data/\udcff/opencode.db")
    source.put(session(name, "Nameless"), user("m1", "unreachable"))
    source.put(session("s2", "Named"), user("m1", "reachable"))
    for _ in range(2):
        report = run_backfill(index, [source])
        [bad] = report.all_problems
        assert bad.reason == "its id is empty, or no text that can be stored"
        assert "\udcff" not in report.to_text()
    assert titles(index) == ["Named"]
    assert index.conn.execute("SELECT location FROM sources").fetchall() == [
        ("/data/\ufffd/opencode.db",)
    ]


def test_messages_with_odd_ids_are_found_or_reported(index: Index) -> None:
    source = MemorySource()
    bad = BadRecord(item="x", reason="y", session_id="s1", message_id="m\udc00")
    source.put(session("s1"), user("", "nameless"), user("m\0", "one"), user("m\udcff", "two"), bad)
    for _ in range(2):
        report = run_backfill(index, [source])
        assert [(p.item, p.reason) for p in report.problems] == [
            ("a message of session s1", "its id is empty"),
            ("x", "y"),
        ]
    rows = index.conn.execute("SELECT message_id, text FROM documents WHERE seq >= 0")
    assert rows.fetchall() == [("m\ufffd", "one")]


def test_rows_that_could_not_be_read_count_in_every_sync(index: Index) -> None:
    """Else a strict sync would be an error once, and then never again."""
    source = MemorySource()
    source.put(session("s1"), user("m1", "one"), BadRecord(item="message m2", reason="not JSON"))
    source.bad = [BadRecord(item="message m3", reason="orphan")]
    source.stable_signature = "same"
    for refreshed in (1, 0, 0):
        report = run_backfill(index, [source])
        assert report.refreshed == refreshed
        assert [p.item for p in report.all_problems] == ["message m3", "message m2"]
        assert (report.exit_code(), report.exit_code(strict=True)) == (EXIT_DONE, EXIT_FAILED)
    source.stable_signature = "mended"
    source.bad = []
    source.put(session("s1", at=T0 + 1), user("m1", "one"))
    assert run_backfill(index, [source]).exit_code(strict=True) == EXIT_DONE


def test_what_a_clock_that_ran_ahead_wrote_is_replaced_once_it_is_right(index: Index) -> None:
    source = MemorySource()
    for name in ("s1", "s2"):
        source.put(session(name, "Old"), user("m1", "one"))
    year_s = 365 * 86_400
    now_s = T0 / 1000
    run_backfill(index, [source], clock=lambda: now_s + year_s)
    del source.held["s2"]
    source.put(session("s1", "New", at=T0 + 1), user("m1", "one"))
    report = run_backfill(index, [source], clock=lambda: now_s)
    assert (titles(index), report.refreshed, report.superseded) == (["New"], 1, 0)
    source.put(session("s2", "Back", at=T0 + 2), user("m1", "one"))
    run_backfill(index, [source], clock=lambda: now_s + 1)
    assert titles(index) == ["New", "Back"]


def test_what_is_wrong_with_a_copy_is_forgotten_once_another_one_counts(index: Index) -> None:
    database, service = MemorySource("/db"), MemorySource("http://x", kind="api", rank=RANK_API)
    bad = BadRecord(item="message m2", reason="not JSON", session_id="s1")
    database.put(session("s1"), user("m1", "one"), bad)
    database.put(session("s2"), user("m1", "two"))
    assert run_backfill(index, [database]).all_problems == [bad]
    service.put(session("s1", at=T0 + 1), user("m1", "one"))
    assert run_backfill(index, [database, service]).all_problems == []
    service.put(session("s2", at=T0 + 1), user("m1", "two"), bad)
    assert [p.item for p in run_backfill(index, [database, service]).all_problems] == [bad.item]
    del service.held["s2"]
    service.authoritative = True
    assert run_backfill(index, [database, service]).all_problems == []


def test_many_segments_are_merged_at_the_end_and_stay_searchable(index: Index) -> None:
    source = MemorySource()
    for number in range(12):
        source.put(session(f"s{number}", at=T0 + number), user("m1", f"number {number} of many"))
        run_backfill(index, [source], merge_from=100)
    assert index.full_text.segments() == 12
    source.put(session("last"), user("m1", "the last of many"))
    run_backfill(index, [source], merge_from=5)
    assert index.full_text.segments() == 1
    rows = index.conn.execute(
        "SELECT count(*) FROM documents_fts WHERE documents_fts MATCH '\"of many\"'"
    )
    assert rows.fetchone() == (13,)
    index.conn.execute(
        "INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)"
    )


def test_a_merge_that_is_stopped_is_finished_by_the_next_backfill(index: Index) -> None:
    source = MemorySource()
    for number in range(12):
        source.put(session(f"s{number}", at=T0 + number), user("m1", f"number {number} of many"))
        run_backfill(index, [source], merge_from=100)
    index.full_text.merge(lambda: True)
    run_backfill(index, [source], merge_from=1)
    assert index.full_text.segments() == 1
