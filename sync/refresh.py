"""Read one session from its source and write it: what a backfill and a watch have in common.

Every write carries the time at which its fetch began, and the index refuses what is older
than what it has, so that the two need to know nothing of each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sync.additions import Additions, completed, own_stamp
from sync.errors import SourceError
from sync.index import Index, Planned
from sync.listing import Listed, drop_session
from sync.model import BadRecord, Message, SessionCopy, Source, Unchanged
from sync.session_writer import Written

STOP_CHECK_S = 0.2
"""Seconds between two looks at whether somebody wants to stop while a service is slow."""


class SessionUnreadable(Exception):
    """Reading a session failed; the cause says how. Keeps its faults apart from the index's."""

    @property
    def reason(self) -> str:
        cause = self.__cause__
        return str(cause) if isinstance(cause, SourceError) else f"{type(cause).__name__}: {cause}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """copy: None where the source no longer has the session. at_ms: when the fetch began."""

    copy: SessionCopy | None
    at_ms: int
    additions: Additions | None = None


def fetch(
    source: Source,
    session_id: str,
    known: Mapping[str, str],
    now_ms: Callable[[], int],
    additions: Additions | None = None,
) -> Fetched:
    """Ask a source for a session. Raises SessionUnreadable, here or while it is stored.

    additions: what other copies add to it; None where they were not all asked.
    """
    at_ms = now_ms()
    if additions is None:
        # A message that was completed from another copy stays so until its own copy changes.
        known = {message_id: own_stamp(stamp) for message_id, stamp in known.items()}
    with Reading(session_id):
        copy = source.read(session_id, known)
    if copy is None:
        return Fetched(None, at_ms)
    found = copy.messages if additions is None else completed(copy.messages, additions.messages)
    messages = _guarded(session_id, found)
    if source.remote:
        messages = iter(list(messages))
    return Fetched(SessionCopy(session=copy.session, messages=messages), at_ms, additions)


class FetchThread(threading.Thread):
    """One fetch beside others. A daemon: a service that hangs must not keep a process alive."""

    def __init__(
        self,
        source: Source,
        planned: Planned,
        known: Mapping[str, str],
        now_ms: Callable[[], int],
        additions: Additions | None,
    ) -> None:
        super().__init__(daemon=True)
        self.planned = planned
        self._arguments = (source, planned.session_id, known, now_ms, additions)
        self._fetched: Fetched | SessionUnreadable | None = None

    def run(self) -> None:
        try:
            self._fetched = fetch(*self._arguments)
        except SessionUnreadable as error:
            self._fetched = error

    def result(self, stop: Callable[[], bool]) -> Fetched | None:
        """Wait for the fetch; None where stop says True before. Raises SessionUnreadable."""
        while self.is_alive():
            if stop():
                return None
            self.join(STOP_CHECK_S)
        if isinstance(self._fetched, SessionUnreadable):
            raise self._fetched
        return self._fetched


def store(index: Index, planned: Planned, fetched: Fetched, *, keep: bool) -> Written:
    """Write what was fetched, within the caller's transaction."""
    if fetched.copy is None:
        listed = Listed()
        drop_session(
            index,
            planned.source_id,
            planned.session_id,
            listed,
            at_ms=fetched.at_ms,
            keep=keep,
        )
        return Written(outcome="removed" if listed.removed else "gone")
    return index.replace_session(
        fetched.copy,
        source_id=planned.source_id,
        fingerprint=planned.fingerprint,
        fetched_at_ms=fetched.at_ms,
        additions=fetched.additions,
    )


def record_failure(index: Index, planned: Planned, reason: str, *, now_ms: int) -> None:
    """Note that a session could not be read; what the index has of it stays."""
    record = BadRecord(
        item=f"session {planned.session_id}", reason=reason, session_id=planned.session_id
    )
    with index.transaction():
        index.replace_problems(
            planned.source_id, "read", [record], now_ms=now_ms, session_id=planned.session_id
        )


class Reading:
    """Turn whatever a source raises into SessionUnreadable."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    def __enter__(self) -> None: ...

    def __exit__(self, _type: object, error: BaseException | None, _tb: object) -> None:
        if isinstance(error, Exception):
            raise SessionUnreadable(self.session_id) from error


def _guarded(
    session_id: str, messages: Iterator[Message | Unchanged | BadRecord]
) -> Iterator[Message | Unchanged | BadRecord]:
    while True:
        with Reading(session_id):
            message = next(messages, None)
        if message is None:
            return
        yield message
