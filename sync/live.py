"""Keep one source's sessions current: act on events, notice changed files, refresh what is due.

Nothing here agrees with a backfill that may run meanwhile: what is written carries the time
at which its fetch began, and the index refuses what is older than what it has.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sync.index import Index, Planned
from sync.listing import Listed, drop_session, list_source
from sync.model import Event, LiveSource, Source
from sync.refresh import Reading, SessionUnreadable, fetch, record_failure, store
from sync.schedule import Schedule

log = logging.getLogger(__name__)


class Peers:
    """The sources that are being watched, by number: who else may have a better copy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schedules: dict[int, Schedule] = {}
        self._available: set[int] = set()

    def add(self, source_id: int, schedule: Schedule) -> None:
        with self._lock:
            self._schedules[source_id] = schedule

    def set_available(self, source_id: int, available: bool) -> None:
        """Say whether a source can be read now; until it is said, it cannot."""
        with self._lock:
            if available:
                self._available.add(source_id)
            else:
                self._available.discard(source_id)

    def available(self) -> set[int]:
        with self._lock:
            return set(self._available)

    def mark(self, source_id: int, session_id: str) -> None:
        with self._lock:
            schedule = self._schedules.get(source_id)
        if schedule is not None:
            schedule.mark([session_id])


class LiveSync:
    """One watched source. Its methods take the index of the thread that calls them.

    now_ms: Unix time in milliseconds. keep: sessions that are gone stay, marked.
    """

    def __init__(
        self,
        source: Source,
        source_id: int,
        schedule: Schedule,
        peers: Peers,
        *,
        now_ms: Callable[[], int],
        keep: bool = False,
    ) -> None:
        self.source = source
        self.source_id = source_id
        self.schedule = schedule
        self.peers = peers
        self.now_ms = now_ms
        self.keep = keep
        self._recent: set[str] = set()
        peers.add(source_id, schedule)

    def found(self) -> None:
        """The source can be read; what failed while it could not is tried again."""
        if not self.is_available():
            self.peers.set_available(self.source_id, True)
            self.schedule.hurry()

    def is_available(self) -> bool:
        return self.source_id in self.peers.available()

    def lost(self) -> None:
        """The source cannot be read for now."""
        self.peers.set_available(self.source_id, False)

    def handle(self, index: Index, event: Event) -> None:
        """Act on an event: a deletion at once, a change when the schedule says so."""
        if event.connected:
            # A listing does not tell of messages in the middle of a turn: so what was busy
            # when the last stream ended is looked at again.
            busy, self._recent = self._recent, set()
            self.schedule.mark(busy)
        if event.session_id is None:
            return
        if event.deleted:
            self._recent.discard(event.session_id)
            self._drop(index, event.session_id, self.now_ms())
        else:
            self._recent.add(event.session_id)
            self.schedule.mark([event.session_id])

    def scan(self, index: Index) -> Listed:
        """List the source if it has changed, and mark what differs from the last listing.

        Raises SourceError; what was noted before it is marked all the same.
        """
        listed = Listed()
        try:
            list_source(
                index,
                self.source_id,
                self.source,
                listed,
                now_ms=self.now_ms,
                keep=self.keep,
            )
        finally:
            newest_first = sorted(listed.changed, key=lambda ref: ref.activity_ms, reverse=True)
            self.schedule.mark(ref.id for ref in newest_first)
        for session_id in listed.dropped:
            self._pass_on(index, session_id)
        return listed

    def refresh(self, index: Index, session_id: str) -> bool:
        """Bring one session up to date from the best of its copies.

        A better copy elsewhere is left to that source's own refresh. Returns False where the
        index has something newer, as far as clocks tell. Raises SessionUnreadable.
        """
        if isinstance(self.source, LiveSource) and not self._note(index, self.source, session_id):
            return True
        best = index.best_copy(session_id, self.peers.available())
        if best is None:
            return True
        if best.source_id != self.source_id:
            self.peers.mark(best.source_id, session_id)
            return True
        known = index.known_stamps(session_id)
        fetched = fetch(self.source, session_id, known, self.now_ms)
        with index.transaction():
            written = store(index, best, fetched, keep=self.keep)
        log.debug("session %s of %s: %s", session_id, self.source.location, written.outcome)
        if written.outcome == "gone":
            self._pass_on(index, session_id)
        return written.outcome != "stale"

    def run_due(self, index: Index) -> bool:
        """Refresh a session that is due; False where there is none."""
        session_id = self.schedule.take()
        if session_id is None:
            return False
        try:
            written = self.refresh(index, session_id)
        except SessionUnreadable as error:
            self._failed(index, session_id, error)
        except BaseException:
            # The index's fault, not the session's: whoever opens it anew finds it still due.
            self.schedule.failed(session_id)
            raise
        else:
            if not written:
                # Were it the clock that went back, the change would be lost without a retry.
                self.schedule.failed(session_id)
            elif self.schedule.done(session_id):
                with index.transaction():
                    index.source_read(self.source_id)
        return True

    def _note(self, index: Index, source: LiveSource, session_id: str) -> bool:
        """Ask what a listing would say of a session now; False where it is gone."""
        began = self.now_ms()
        with Reading(session_id):
            ref = source.find(session_id)
        if ref is None:
            self._drop(index, session_id, began)
            return False
        with index.transaction():
            index.record_copies(self.source_id, [ref])
        return True

    def _drop(self, index: Index, session_id: str, at_ms: int) -> None:
        listed = Listed()
        with index.transaction():
            drop_session(index, self.source_id, session_id, listed, at_ms=at_ms, keep=self.keep)
        self._pass_on(index, session_id)

    def _pass_on(self, index: Index, session_id: str) -> None:
        """Let another source that holds a session look whether it still does."""
        best = index.best_copy(session_id, self.peers.available())
        if best is not None:
            self.peers.mark(best.source_id, session_id)

    def _failed(self, index: Index, session_id: str, error: SessionUnreadable) -> None:
        failures = self.schedule.failed(session_id)
        if failures > 1 or not self.is_available():
            # Said before, of the session or of its source.
            log.debug("session %s failed: %s", session_id, error.reason)
            return
        log.warning(
            "session %s of %s cannot be read, and is tried again later: %s",
            session_id,
            self.source.location,
            error.reason,
        )
        planned = Planned(session_id, self.source_id, "")
        record_failure(index, planned, error.reason, now_ms=self.now_ms())
        with index.transaction():
            index.source_read(self.source_id)
