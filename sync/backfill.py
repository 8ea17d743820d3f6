"""Bring the index up to date: list every source, compare, read what differs, write it.

Every step can be cut off at any moment: a session is written whole or not at all, and what
was not done is still seen to differ by the next sync.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from sync.errors import SourceError
from sync.index import Index, Planned
from sync.model import BadRecord, Message, SessionCopy, SessionRef, Source, Unchanged
from sync.report import Failure, Report, SourceReport
from sync.session_writer import Written

log = logging.getLogger(__name__)

BATCH_CHARS = 8_000_000
BATCH_S = 1.0
"""A transaction ends after this much new text or time, whichever comes first: long ones
index faster, short ones let other writers in."""

LISTING_CHUNK = 1_000


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


class _SessionUnreadable(Exception):
    """Reading a session failed; the cause says how. Keeps its faults apart from the index's."""


@dataclass(slots=True)
class _Opened:
    source: Source
    report: SourceReport
    available: bool = False


def run_backfill(
    index: Index,
    sources: Sequence[Source],
    *,
    keep: bool = False,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.time,
) -> Report:
    """Refresh every session whose best copy differs from the index, newest activity first.

    keep: sessions that their source has deleted stay, marked with deleted_at.
    clock: Unix time in seconds. Returns the report; raises sqlite3.Error where the index
    itself cannot be written.
    """
    return _Backfill(index, keep, progress or Silent(), clock).run(sources)


class _Backfill:
    def __init__(
        self, index: Index, keep: bool, progress: Progress, clock: Callable[[], float]
    ) -> None:
        self.index = index
        self.keep = keep
        self.progress = progress
        self.clock = clock
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
            self._list(source)
        self._refresh_all()
        self.progress.finishing()
        with self.index.transaction():
            for source_id, opened in self.opened.items():
                if opened.available:
                    self.index.source_read(source_id)
        self._heartbeat(finished=True)
        self.report.seconds = round(time.monotonic() - began, 3)
        return self.report

    # Listing

    def _list(self, source: Source) -> None:
        self.progress.listing(source.location)
        report = SourceReport(source.kind, source.location)
        self.report.sources.append(report)
        with self.index.transaction():
            source_id = self.index.source_id(source.kind, source.location)
        opened = self.opened[source_id] = _Opened(source, report)
        try:
            self._list_opened(source_id, opened)
        except SourceError as error:
            log.debug("listing %s failed", source.location, exc_info=True)
            opened.available = False
            report.error = str(error)
            with self.index.transaction():
                self.index.source_failed(source_id, report.error)

    def _list_opened(self, source_id: int, opened: _Opened) -> None:
        listed_at = self.now_ms()
        signature = opened.source.signature()
        opened.available = True
        if signature is not None and signature == self.index.source_signature(source_id):
            opened.report.skipped = True
            return
        self._save_projects(opened)
        for chunk in _chunks(opened.source.sessions(), LISTING_CHUNK):
            refs = [ref for ref in chunk if isinstance(ref, SessionRef)]
            bad = [record for record in chunk if isinstance(record, BadRecord)]
            opened.report.listed += len(refs)
            opened.report.problems += bad
            with self.index.transaction():
                self.index.record_copies(source_id, refs, self.sync_id)
                for record in bad:
                    if record.session_id is not None and record.hides_session:
                        self.index.keep_copy(source_id, record.session_id, self.sync_id)
            self._heartbeat()
        problems = opened.report.problems
        with self.index.transaction():
            if opened.source.authoritative and not any(
                p.hides_session and p.session_id is None for p in problems
            ):
                self._remove_unlisted(source_id, listed_at)
            self.index.replace_problems(source_id, "list", problems, now_ms=listed_at)
            self.index.source_listed(source_id, listed_at_ms=listed_at, signature=signature)

    def _save_projects(self, opened: _Opened) -> None:
        projects = []
        for project in opened.source.projects():
            if isinstance(project, BadRecord):
                opened.report.problems.append(project)
            else:
                projects.append(project)
        with self.index.transaction():
            self.index.save_projects(projects)

    def _remove_unlisted(self, source_id: int, listed_at: int) -> None:
        for session_id in self.index.drop_unlisted(source_id, self.sync_id):
            self._remove(session_id, listed_at)

    def _remove(self, session_id: str, deleted_at: int) -> None:
        if self.index.remove_session(session_id, deleted_at_ms=deleted_at, keep=self.keep):
            self.report.removed += 1

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
        queue = _Queue(first, plan)
        while batch := self._refresh_batch(queue):
            self.done += len(batch)
            self._heartbeat()
            self.progress.advanced(len(batch))

    def _refresh_batch(self, queue: _Queue) -> list[Planned]:
        """Refresh sessions in one transaction; where one fails, each in one of its own."""
        batch: list[Planned] = []
        results: list[Written] = []
        began = time.monotonic()
        try:
            with self.index.transaction():
                for planned in queue:
                    batch.append(planned)
                    results.append(self._refresh(planned))
                    if (
                        sum(r.text_length for r in results) > BATCH_CHARS
                        or time.monotonic() - began > BATCH_S
                    ):
                        break
        except _SessionUnreadable:
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
        except _SessionUnreadable as error:
            cause = error.__cause__
            log.debug("session %s failed", planned.session_id, exc_info=cause)
            reason = (
                f"{cause}" if isinstance(cause, SourceError) else f"{type(cause).__name__}: {cause}"
            )
            self._fail(planned, reason)
            return []

    def _fail(self, planned: Planned, reason: str) -> None:
        self.report.failures.append(Failure(planned.session_id, reason))
        record = BadRecord(
            item=f"session {planned.session_id}", reason=reason, session_id=planned.session_id
        )
        with self.index.transaction():
            self.index.replace_problems(
                planned.source_id,
                "read",
                [record],
                now_ms=self.now_ms(),
                session_id=planned.session_id,
            )

    def _refresh(self, planned: Planned) -> Written:
        fetched_at = self.now_ms()
        source = self.opened[planned.source_id].source
        known = self.index.known_stamps(planned.session_id)
        with _reading(planned.session_id):
            copy = source.read(planned.session_id, known)
        if copy is None:
            if self.index.drop_copy(planned.source_id, planned.session_id):
                self._remove(planned.session_id, fetched_at)
            return Written(outcome="gone")
        return self.index.replace_session(
            SessionCopy(session=copy.session, messages=_guarded(planned.session_id, copy.messages)),
            source_id=planned.source_id,
            fingerprint=planned.fingerprint,
            fetched_at_ms=fetched_at,
        )

    def _count(self, result: Written) -> None:
        if result.outcome == "stale":
            self.report.superseded += 1
        if result.outcome != "written":
            return
        self.report.refreshed += 1
        self.report.messages_written += result.inserted + result.changed
        self.report.characters_written += result.text_length
        self.report.problems += result.problems

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
    """The plan, read one session at a time by one batch after the other."""

    def __init__(self, first: Planned, rest: Iterator[Planned]) -> None:
        self.next: Planned | None = first
        self.rest = rest

    def __iter__(self) -> Iterator[Planned]:
        while (planned := self.next) is not None:
            self.next = next(self.rest, None)
            yield planned


class _reading:  # noqa: N801 - reads as a statement: with _reading(...)
    """Turn whatever a source raises into _SessionUnreadable."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    def __enter__(self) -> None: ...

    def __exit__(self, _type: object, error: BaseException | None, _tb: object) -> None:
        if isinstance(error, Exception):
            raise _SessionUnreadable(self.session_id) from error


def _guarded(
    session_id: str, messages: Iterator[Message | Unchanged | BadRecord]
) -> Iterator[Message | Unchanged | BadRecord]:
    while True:
        with _reading(session_id):
            message = next(messages, None)
        if message is None:
            return
        yield message


def _chunks(
    refs: Iterator[SessionRef | BadRecord], size: int
) -> Iterator[list[SessionRef | BadRecord]]:
    while chunk := list(islice(refs, size)):
        yield chunk
