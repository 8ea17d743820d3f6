"""Which sessions of a source to refresh, and when: at most once a second, later after failures."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

INTERVAL_S = 1.0
"""Seconds between two refreshes of one session while changes keep coming."""

FIRST_RETRY_S = 2.0
LAST_RETRY_S = 600.0
"""Seconds before the first and, doubling, the last retries of a session that fails."""


@dataclass(slots=True)
class _Entry:
    due: float
    dirty: bool = True
    running: bool = False
    failures: int = 0


class Schedule:
    """Sessions waiting for their refresh. Several threads may mark and take.

    A session is handed to one taker at a time. Marked again meanwhile, it comes again: what
    changed after its fetch began is not lost.

    clock: seconds, never going back. jitter: scales a retry's delay, so that what failed
    together is not retried together.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.0),
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._changed = threading.Condition()
        self._entries: dict[str, _Entry] = {}
        self._queue: list[tuple[float, int, str]] = []
        self._pushes = 0
        self._closed = False

    def mark(self, session_ids: Iterable[str]) -> None:
        """Note that sessions have changed; of those due at once, the first comes first."""
        with self._changed:
            for session_id in session_ids:
                entry = self._entries.get(session_id)
                if entry is None:
                    self._entries[session_id] = entry = _Entry(self._clock())
                    self._push(session_id, entry)
                elif not entry.dirty:
                    entry.dirty = True
                    self._push(session_id, entry)
            self._changed.notify_all()

    def take(self) -> str | None:
        """Return a session that is due; the caller then says done() or failed()."""
        with self._changed:
            now = self._clock()
            while self._queue and self._queue[0][0] <= now:
                due, _, session_id = heapq.heappop(self._queue)
                entry = self._entries.get(session_id)
                if entry is None or due != entry.due or entry.running:
                    continue
                if not entry.dirty:
                    # It only waited for its second to pass.
                    del self._entries[session_id]
                    continue
                entry.dirty, entry.running = False, True
                entry.due = now + INTERVAL_S
                return session_id
            return None

    def done(self, session_id: str) -> int:
        """Note a success; return how many times in a row the session had failed before."""
        with self._changed:
            entry = self._entries[session_id]
            failures, entry.failures = entry.failures, 0
            entry.running = False
            self._push(session_id, entry)
            self._changed.notify_all()
            return failures

    def failed(self, session_id: str) -> int:
        """Plan a retry; return how many times in a row the session has failed now.

        Further marks do not bring the retry forward.
        """
        with self._changed:
            entry = self._entries[session_id]
            entry.running, entry.dirty = False, True
            delay = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(entry.failures, 20))
            entry.failures += 1
            entry.due = self._clock() + delay * self._jitter()
            self._push(session_id, entry)
            return entry.failures

    def hurry(self) -> None:
        """Bring all retries forward: what kept sessions from being read has passed."""
        with self._changed:
            now = self._clock()
            for session_id, entry in self._entries.items():
                if entry.failures and not entry.running:
                    entry.due = min(entry.due, now)
                    self._push(session_id, entry)
            self._changed.notify_all()

    def wait(self, limit_s: float) -> None:
        """Sleep until something may be due, close() is called or limit_s seconds have passed."""
        with self._changed:
            if self._closed:
                return
            pause = limit_s
            if self._queue:
                pause = min(pause, self._queue[0][0] - self._clock())
            if pause > 0:
                self._changed.wait(pause)

    def close(self) -> None:
        """Wake everyone who waits; nobody waits any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _push(self, session_id: str, entry: _Entry) -> None:
        if not entry.running:
            self._pushes += 1
            heapq.heappush(self._queue, (entry.due, self._pushes, session_id))
