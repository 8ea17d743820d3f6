"""Watch every source of this machine: threads around sync.live, and backfills beside them.

Each watched source has threads of its own, each thread an index of its own. A database or
JSON store has one thread, which looks at the files and refreshes; a service has one that
listens and two that refresh. One more runs the backfills: at the start over everything,
after each connection to a service over that service, and now and then over everything again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sync.backfill import Progress, Silent, run_backfill
from sync.errors import SyncError
from sync.index import Index
from sync.model import LiveSource, Source
from sync.report import Report
from sync.watched import MAX_PAUSE_S, TICK_S, Context, Watched

log = logging.getLogger(__name__)

EVERYTHING_S = 600.0
"""Seconds between two backfills over everything, for whatever went unnoticed."""

JOIN_S = 3.0
"""Seconds to wait for threads to end; one that waits for a service ends with the process."""


class Watcher:
    """Keeps an index current until stop() is called.

    discover: returns the sources of this machine, new ones on every call; it opens nothing.
    finished: told of each backfill's report. progress: of the first backfill.
    now_ms: Unix time in milliseconds.
    """

    def __init__(
        self,
        index_path: Path,
        discover: Callable[[], Sequence[Source]],
        *,
        keep: bool = False,
        progress: Progress | None = None,
        finished: Callable[[Report], None] = lambda _report: None,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.index_path = index_path
        self.discover = discover
        self.keep = keep
        self.progress = progress or Silent()
        self.finished = finished
        self.now_ms = now_ms
        self._stop = threading.Event()
        self._run: _Run | None = None
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def start(self) -> None:
        """Begin to watch, in threads. Raises IndexUnusable where the index cannot be opened."""
        with Index.open(self.index_path):
            pass
        self._supervisor.start()

    def stop(self) -> None:
        """End all threads; a session that is being read is left to the next sync."""
        self._stop.set()
        self._supervisor.join(2 * JOIN_S)

    def _supervise(self) -> None:
        while not self._stop.is_set():
            run = _Run(self)
            try:
                run.watch(self._stop)
            except (SyncError, sqlite3.Error) as error:
                log.warning("%s; trying again", error)
                self._stop.wait(MAX_PAUSE_S)
            finally:
                run.end()


class _Run:
    """Threads over one index file, until it is replaced by another."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.context = Context(watcher.index_path, watcher.keep, watcher.now_ms)
        self.watched: dict[tuple[str, str], Watched] = {}
        self.threads: list[threading.Thread] = []

    def watch(self, stop: threading.Event) -> None:
        """Watch what is there and what comes, until stop is set or the index is replaced."""
        with Index.open(self.watcher.index_path):
            identity = _identity(self.watcher.index_path)
        self._look_around()
        self.context.backfills.request(None)
        self._thread(self._backfill)
        while not stop.wait(TICK_S) and _identity(self.watcher.index_path) == identity:
            if self._look_around():
                self.context.backfills.request(None)

    def end(self) -> None:
        self.context.stop.set()
        self.context.listed.set()
        self.context.backfills.close()
        for watched in self.watched.values():
            watched.schedule.close()
            if isinstance(watched.source, LiveSource):
                watched.source.close()
        deadline = time.monotonic() + JOIN_S
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self.threads):
            log.debug("something is still being read; it is left to the next sync")
            return
        for watched in self.watched.values():
            watched.source.close()

    def _look_around(self) -> bool:
        """Watch the sources that were not there before; True where there are any."""
        found = False
        for source in self.watcher.discover():
            key = (source.kind, source.location)
            if key in self.watched:
                continue
            found = True
            watched = self.watched[key] = Watched(self.context, source)
            for work in watched.work():
                self._thread(work)
        return found

    def _thread(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
        self.threads.append(thread)
        thread.start()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a thread's work again where the index failed it: locked, full or replaced."""
        pause = TICK_S
        while not self.context.stop.is_set():
            try:
                work()
            except (sqlite3.Error, SyncError) as error:
                log.warning("the index could not be used, and is tried again: %s", error)
            except Exception:
                log.exception("watching failed, and is tried again")
            else:
                return
            self.context.stop.wait(pause)
            pause = min(2 * pause, MAX_PAUSE_S)

    def _backfill(self) -> None:
        while (wanted := self.context.backfills.take(EVERYTHING_S)) is not None:
            sources = self.watcher.discover()
            if None not in wanted:
                sources = [s for s in sources if (s.kind, s.location) in wanted]
            try:
                self._run_backfill(sources)
            except BaseException:
                self.context.backfills.request(*wanted)
                raise

    def _run_backfill(self, sources: Sequence[Source]) -> None:
        first = not self.context.listed.is_set()
        progress = _Listed(self.watcher.progress, self.context.listed) if first else Silent()
        try:
            with Index.open(self.watcher.index_path) as index:
                report = run_backfill(
                    index,
                    sources,
                    keep=self.watcher.keep,
                    progress=progress,
                    clock=lambda: self.watcher.now_ms() / 1000,
                    stop=self.context.stop.is_set,
                )
        finally:
            for source in sources:
                source.close()
        self.context.listed.set()
        if not self.context.stop.is_set():
            self.watcher.finished(report)


class _Listed:
    """Passes progress on, and says when the first listing is through."""

    def __init__(self, progress: Progress, listed: threading.Event) -> None:
        self.listing = progress.listing
        self.advanced = progress.advanced
        self.finishing = progress.finishing
        self._progress = progress
        self._listed = listed

    def planned(self, sessions: int) -> None:
        self._listed.set()
        self._progress.planned(sessions)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
