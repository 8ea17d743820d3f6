"""The threads of one watched source: listening, looking at files, refreshing."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sync.errors import SourceError
from sync.index import Index
from sync.listing import note_current
from sync.live import LiveSync, Peers
from sync.model import LiveSource, Source
from sync.schedule import Schedule

log = logging.getLogger(__name__)

TICK_S = 1.0
"""Seconds between two looks at a source's files, and at which sources there are."""

SHARE = 4
IDLE_SHARE = 50
"""A source that costs a second of computing to look at is left alone for so many, up to
MAX_PAUSE_S: for fewer while it changes, so that what is said is found, and for more while not."""

MAX_PAUSE_S = 60.0

REFRESHERS = 2
"""Sessions of one service that are refreshed at once."""

RECONNECT_S = (0.5, 15.0)
"""Seconds before the first and, doubling, the last attempts to reach a service again."""

STEADY_S = 10.0
"""A stream of events that lasted this long was not a failure, however it ended."""


class Backfills:
    """Which sources want a backfill, by kind and location; None stands for all of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wanted: set[tuple[str, str] | None] = set()
        self._closed = False

    def request(self, *sources: tuple[str, str] | None) -> None:
        with self._changed:
            self._wanted.update(sources)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self, limit_s: float) -> set[tuple[str, str] | None] | None:
        """Wait for requests, up to limit_s seconds, and return them; None once closed."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._wanted) or self._closed, limit_s)
            wanted, self._wanted = self._wanted, set()
            return None if self._closed else wanted or {None}


@dataclass(frozen=True, slots=True)
class Context:
    """What all threads over one index file share.

    stop: set once they are to end. listed: set once the first backfill has listed everything.
    """

    index_path: Path
    keep: bool
    now_ms: Callable[[], int]
    peers: Peers = field(default_factory=Peers)
    stop: threading.Event = field(default_factory=threading.Event)
    listed: threading.Event = field(default_factory=threading.Event)
    backfills: Backfills = field(default_factory=Backfills)


class Watched:
    """One source and what its threads do."""

    def __init__(self, context: Context, source: Source) -> None:
        self.context = context
        self.source = source
        self.schedule = Schedule()
        self._live: LiveSync | None = None
        self._lock = threading.Lock()
        self._down = False

    def work(self) -> list[Callable[[], None]]:
        if isinstance(self.source, LiveSource):
            return [self._listen] + [self._refresh] * REFRESHERS
        return [self._watch_files]

    def live(self, index: Index) -> LiveSync:
        with self._lock:
            if self._live is None:
                with index.transaction():
                    source_id = index.source_id(self.source.kind, self.source.location)
                self._live = LiveSync(
                    self.source,
                    source_id,
                    self.schedule,
                    self.context.peers,
                    now_ms=self.context.now_ms,
                    keep=self.context.keep,
                )
            return self._live

    def _refresh(self) -> None:
        with Index.open(self.context.index_path) as index:
            live = self.live(index)
            while not self.context.stop.is_set():
                if not live.run_due(index):
                    if live.is_available():
                        note_current(index, live.source_id, now_ms=live.now_ms())
                    self.schedule.wait(TICK_S)

    def _watch_files(self) -> None:
        """Look at the files once a second, and more rarely where that costs much."""
        # The first backfill's listing says what there is to compare with.
        self.context.listed.wait()
        with Index.open(self.context.index_path) as index:
            live = self.live(index)
            due = 0.0
            while not self.context.stop.is_set():
                if time.monotonic() >= due:
                    began = time.thread_time()
                    share = SHARE if self._scan(live, index) else IDLE_SHARE
                    cost = time.thread_time() - began
                    due = time.monotonic() + min(MAX_PAUSE_S, max(TICK_S, share * cost))
                while not self.context.stop.is_set() and live.run_due(index):
                    if time.monotonic() >= due:
                        break
                self.schedule.wait(max(0.0, due - time.monotonic()))

    def _scan(self, live: LiveSync, index: Index) -> bool:
        """Look at the files; True where they have changed."""
        try:
            listed = live.scan(index)
        except SourceError as error:
            self._failed(live, index, str(error))
            return False
        self._recovered(live, index)
        return not listed.skipped

    def _listen(self) -> None:
        with Index.open(self.context.index_path) as index:
            live = self.live(index)
            assert isinstance(self.source, LiveSource)
            attempts = 0
            while not self.context.stop.is_set():
                began = time.monotonic()
                self._follow(self.source, live, index)
                attempts = 0 if time.monotonic() - began > STEADY_S else attempts + 1
                first, last = RECONNECT_S
                delay = min(last, first * 2 ** min(attempts, 20))
                self.context.stop.wait(delay * random.uniform(0.5, 1.0))

    def _follow(self, source: LiveSource, live: LiveSync, index: Index) -> None:
        """Act on one stream of events until it ends."""
        try:
            for event in source.events():
                if self.context.stop.is_set():
                    return
                live.handle(index, event)
                if event.connected:
                    self._recovered(live, index)
                    # Whatever happened before this moment, the backfill finds.
                    self.context.backfills.request((source.kind, source.location))
        except SourceError as error:
            if not self.context.stop.is_set():
                self._failed(live, index, str(error))

    def _failed(self, live: LiveSync, index: Index, reason: str) -> None:
        """Say once that a source cannot be read, however long that lasts."""
        first = not self._down
        if first:
            self._down = True
            live.lost()
            log.warning("%s; trying again", reason)
        else:
            log.debug("%s", reason)
        # A backfill that had begun before may have noted since that all was read.
        if first or index.source_error(live.source_id) is None:
            with index.transaction():
                index.source_failed(live.source_id, reason)

    def _recovered(self, live: LiveSync, index: Index) -> None:
        live.found()
        if self._down:
            self._down = False
            log.warning("%s can be read again", self.source.location)
            with index.transaction():
                index.source_read(live.source_id)
