"""Bring the index up to date: list every source, compare, read what differs, write it.

Every step can be cut off at any moment: a session is written whole or not at all, and what
was not done is still seen to differ by the next sync.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from sync import additions
from sync.additions import Additions
from sync.errors import SourceError
from sync.index import Index, Planned
from sync.listing import Listed, list_source
from sync.model import Source
from sync.read_ahead import ReadAhead
from sync.refresh import FetchThread, SessionUnreadable, fetch, record_failure, store
from sync.report import Failure, Report, SourceReport
from sync.session_writer import Written

log = logging.getLogger(__name__)

BATCH_CHARS = 8_000_000
BATCH_S = 1.0
"""A transaction ends after this much new text or time, whichever comes first: long ones
index faster, short ones let other writers in."""

MERGE_FROM = 48
"""Segments from which on a merge pays: some hundreds of megabytes of new text leave as many."""

LOOK_AHEAD = 512
"""Sessions whose reading may begin while earlier ones are being written."""

TURN_S = 0.02
"""Pause between two batches, long enough for whoever waits to write to get a turn."""

FETCHES = 4
"""Sessions that are fetched from a service at once."""

MAX_FAILURES = 8
"""Fetches in a row that may fail before a service is left alone until the next sync."""


class Progress(Protocol):
    """Told of a backfill's progress; counts are sessions."""

    def listing(self, location: str) -> None: ...
    def planned(self, sessions: int) -> None: ...
    def advanced(self, done: int) -> None: ...
    def finishing(self) -> None: ...


class Silent:
    """Progress for nobody."""

    def listing(self, location: str) -> None: ...
    def planned(self, sessions: int) -> None: ...
    def advanced(self, done: int) -> None: ...
    def finishing(self) -> None: ...


@dataclass(slots=True)
class _Opened:
    source: Source
    report: SourceReport
    available: bool = False
    failures: int = 0


def run_backfill(
    index: Index,
    sources: Sequence[Source],
    *,
    keep: bool = False,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.time,
    stop: Callable[[], bool] = lambda: False,
    merge_from: int = MERGE_FROM,
) -> Report:
    """Refresh every session whose best copy differs from the index, newest activity first.

    keep: sessions that their source has deleted stay, marked with deleted_at.
    clock: Unix time in seconds. stop: asked between batches; once it says True, the rest is
    left to the next sync. merge_from: segments of the full-text index from which on they are
    merged at the end. Returns the report; raises sqlite3.Error where the index itself
    cannot be written.
    """
    return _Backfill(index, keep, progress or Silent(), clock, stop, merge_from).run(sources)


class _Backfill:
    def __init__(
        self,
        index: Index,
        keep: bool,
        progress: Progress,
        clock: Callable[[], float],
        stop: Callable[[], bool],
        merge_from: int,
    ) -> None:
        self.index = index
        self.keep = keep
        self.progress = progress
        self.clock = clock
        self.stop = stop
        self.merge_from = merge_from
        self.report = Report()
        self.opened: dict[int, _Opened] = {}
        self.done = 0

    def now_ms(self) -> int:
        return int(self.clock() * 1000)

    def run(self, sources: Sequence[Source]) -> Report:
        began = time.monotonic()
        with self.index.transaction():
            self.sync_id = self.index.begin_sync(pid=os.getpid(), now_ms=self.now_ms())
        for source in sources:
            if not self.stop():
                self._list(source)
        self._refresh_all()
        self.progress.finishing()
        with self.index.transaction():
            for source_id, opened in self.opened.items():
                if opened.available:
                    self.index.source_read(source_id)
                    self._recall(source_id, opened.report)
        self._heartbeat(finished=not self.stop())
        # All is searchable by now; a large load left segments that slow every search down.
        if self.index.full_text.segments() > self.merge_from:
            self.index.full_text.merge(self.stop)
        self.report.seconds = round(time.monotonic() - began, 3)
        return self.report

    def _recall(self, source_id: int, report: SourceReport) -> None:
        """Report as unreadable also what was so before, and so was not looked at again."""
        if report.skipped:
            report.problems = self.index.problems(source_id, "list")
        told = {f"session {failure.session_id}" for failure in self.report.failures}
        self.report.problems += [
            record for record in self.index.problems(source_id, "read") if record.item not in told
        ]

    # Listing

    def _list(self, source: Source) -> None:
        self.progress.listing(source.location)
        report = SourceReport(source.kind, source.location)
        self.report.sources.append(report)
        with self.index.transaction():
            source_id = self.index.source_id(source.kind, source.location)
        opened = self.opened[source_id] = _Opened(source, report)
        listed = Listed()
        try:
            list_source(
                self.index,
                source_id,
                source,
                listed,
                now_ms=self.now_ms,
                keep=self.keep,
                between=self._heartbeat,
            )
        except SourceError as error:
            log.debug("listing %s failed", source.location, exc_info=True)
            self._give_up(source_id, opened, str(error))
            return
        opened.available = True
        report.listed = listed.sessions
        report.skipped = listed.skipped
        report.problems = listed.problems
        self.report.removed += listed.removed

    def _give_up(self, source_id: int, opened: _Opened, reason: str) -> None:
        opened.available = False
        opened.report.error = reason
        with self.index.transaction():
            self.index.source_failed(source_id, reason)

    # Refreshing

    def _refresh_all(self) -> None:
        available = [number for number, opened in self.opened.items() if opened.available]
        plan = self.index.plan(available)
        first = next(plan, None)
        planned = self.index.planned()
        self.progress.planned(planned)
        self._heartbeat(planned=planned)
        if first is None:
            return
        with ReadAhead(self.now_ms) as self.ahead:
            self.index.full_text.while_writing = self.ahead.going_on
            queue = _Queue(first, plan, self._read_ahead)
            while not self.stop() and (batch := self._refresh_batch(queue)):
                self.done += len(batch)
                self._heartbeat()
                self.progress.advanced(len(batch))
                time.sleep(TURN_S)

    def _read_ahead(self, planned: Planned) -> None:
        """Have a session read while others are written, where it is new and whole in one copy."""
        if self._is_remote(planned) or self.index.known_stamps(planned.session_id):
            return
        conn, source = self.index.conn, self.opened[planned.source_id].source
        if not additions.others(conn, planned.session_id, planned.source_id):
            told = additions.told(conn, planned.session_id, planned.source_id)
            self.ahead.want(planned.session_id, planned.source_id, source, told)

    def _refresh_batch(self, queue: _Queue) -> list[Planned]:
        if batch := queue.take(self._is_remote, FETCHES):
            self._refresh_remote(batch)
            return batch
        return self._refresh_local(queue)

    def _is_remote(self, planned: Planned) -> bool:
        return self.opened[planned.source_id].source.remote

    def _refresh_local(self, queue: _Queue) -> list[Planned]:
        """Refresh sessions in one transaction; where one fails, each in one of its own."""
        batch: list[Planned] = []
        results: list[Written] = []
        began = time.monotonic()
        try:
            with self.index.transaction():
                while taken := queue.take(lambda planned: not self._is_remote(planned), 1):
                    batch += taken
                    results.append(self._refresh(taken[0]))
                    if (
                        sum(r.text_length for r in results) > BATCH_CHARS
                        or time.monotonic() - began > BATCH_S
                    ):
                        break
        except SessionUnreadable:
            results = []
            for planned in batch:
                results += self._refresh_alone(planned)
        for result in results:
            self._count(result)
        return batch

    def _refresh_alone(self, planned: Planned) -> list[Written]:
        try:
            with self.index.transaction():
                return [self._refresh(planned)]
        except SessionUnreadable as error:
            self._fail(planned, error)
            return []

    def _refresh(self, planned: Planned) -> Written:
        if ahead := self.ahead.take(planned.session_id):
            return store(self.index, planned, ahead, keep=self.keep)
        source = self.opened[planned.source_id].source
        known = self.index.known_stamps(planned.session_id)
        added = self._additions(planned)
        fetched = fetch(source, planned.session_id, known, self.now_ms, added)
        return store(self.index, planned, fetched, keep=self.keep)

    def _additions(self, planned: Planned) -> Additions | None:
        """Return what other copies add to a session; None where one of them cannot be read."""
        told = additions.told(self.index.conn, planned.session_id, planned.source_id)
        numbers = additions.others(self.index.conn, planned.session_id, planned.source_id)
        opened = [self.opened[number] for number in numbers if number in self.opened]
        if len(opened) < len(numbers) or not all(one.available for one in opened):
            return None
        try:
            found = additions.gathered([one.source for one in opened], planned.session_id)
        except Exception:
            # Whatever is wrong with another copy, this one is written, and what that one added
            # before stays; its own refresh reports the fault.
            log.debug("copies of %s cannot be read", planned.session_id, exc_info=True)
            return None
        return Additions(found, told)

    def _refresh_remote(self, batch: list[Planned]) -> None:
        """Fetch sessions side by side, and only then lock the index for each of them."""
        fetches = []
        for planned in batch:
            opened = self.opened[planned.source_id]
            if opened.available:
                known = self.index.known_stamps(planned.session_id)
                added = self._additions(planned)
                fetches.append(FetchThread(opened.source, planned, known, self.now_ms, added))
                fetches[-1].start()
        for fetching in fetches:
            planned = fetching.planned
            opened = self.opened[planned.source_id]
            try:
                fetched = fetching.result(self.stop)
            except SessionUnreadable as error:
                self._fail(planned, error)
                opened.failures += 1
                if opened.available and opened.failures >= MAX_FAILURES:
                    self._give_up(planned.source_id, opened, error.reason)
                continue
            if fetched is None:
                return
            opened.failures = 0
            with self.index.transaction():
                result = store(self.index, planned, fetched, keep=self.keep)
            self._count(result)

    def _fail(self, planned: Planned, error: SessionUnreadable) -> None:
        log.debug("session %s failed", planned.session_id, exc_info=error)
        self.report.failures.append(Failure(planned.session_id, error.reason))
        record_failure(self.index, planned, error.reason, now_ms=self.now_ms())

    def _count(self, result: Written) -> None:
        if result.outcome == "stale":
            self.report.superseded += 1
        if result.outcome == "removed":
            self.report.removed += 1
        if result.outcome != "written":
            return
        self.report.refreshed += 1
        self.report.messages_written += result.inserted + result.changed
        self.report.characters_written += result.text_length

    def _heartbeat(self, *, planned: int | None = None, finished: bool = False) -> None:
        with self.index.transaction():
            self.index.update_sync(
                self.sync_id,
                now_ms=self.now_ms(),
                planned=planned,
                done=self.done,
                failed=len(self.report.failures),
                finished=finished,
            )


class _Queue:
    """The plan, read one session at a time by one batch after the other.

    announce: told of each session some places before its turn.
    """

    def __init__(
        self, first: Planned, rest: Iterator[Planned], announce: Callable[[Planned], None]
    ) -> None:
        self.rest = chain([first], rest)
        self.announce = announce
        self.coming: deque[Planned] = deque()

    @property
    def next(self) -> Planned | None:
        while len(self.coming) < LOOK_AHEAD and (planned := next(self.rest, None)):
            self.coming.append(planned)
            self.announce(planned)
        return self.coming[0] if self.coming else None

    def take(self, wanted: Callable[[Planned], bool], limit: int) -> list[Planned]:
        """Return up to limit next sessions, ending before the first that is not wanted."""
        taken: list[Planned] = []
        while len(taken) < limit and self.next is not None and wanted(self.next):
            taken.append(self.coming.popleft())
        return taken
