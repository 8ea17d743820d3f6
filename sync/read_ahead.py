"""Reads sessions in a thread of its own while earlier ones are written.

Decoding is the interpreter's work, indexing is SQLite's, which lets go of the interpreter
meanwhile: side by side, a first sync takes little longer than the slower of the two.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, runtime_checkable

from sync.additions import Additions
from sync.model import BadRecord, Message, Session, SessionCopy, Source, Unchanged
from sync.refresh import Fetched, SessionUnreadable, fetch

CHUNK = 256
CHUNK_CHARS = 256_000
"""Messages, or code points of their texts, that are handed over at once."""

MOST_CHARS = 8_000_000
"""Code points that may wait to be written: as many as the full-text index takes in one go, so
that there is reading to do all the while, and what bounds the memory of it."""

ENOUGH_CHARS = 500_000
"""From here on reading only goes on while SQLite works: at any other time the two threads would
take turns with one interpreter, and gain nothing."""

WAIT_S = 0.2

END_S = 10
"""How long the end waits for a read that is under way."""

Item = Message | Unchanged | BadRecord


@runtime_checkable
class TwinSource(Source, Protocol):
    """A source of which a second reader can work beside the first, in another thread."""

    def twin(self) -> Source | None:
        """Return one that nobody else uses; None where only this one can read the place."""


class _Begin(NamedTuple):
    session_id: str
    session: Session | None
    at_ms: int


class _End(NamedTuple):
    """failure: why the session could not be read to its end, or at all."""

    session_id: str
    failure: SessionUnreadable | None


class ReadAhead:
    """Sessions are read in the order in which they were wanted, and must be taken in it.

    Use as a context manager; the thread ends with it.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._told: dict[str, str] = {}
        self._wanted: queue.SimpleQueue[tuple[str, Source, str] | None] = queue.SimpleQueue()
        self._read: queue.SimpleQueue[_Begin | _End | tuple[list[Item], int]] = queue.SimpleQueue()
        self._waiting = threading.Condition()
        self._waiting_chars = 0
        self._twins: dict[int, Source | None] = {}
        self._is_written = False
        self._closed = False
        # A daemon: a disk that hangs must not keep a process alive.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ReadAhead:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._waiting:
            self._closed = True
            self._waiting.notify_all()
        self._wanted.put(None)
        self._thread.join(END_S)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Read on in any case inside of this block: the interpreter is not needed elsewhere."""
        with self._waiting:
            self._is_written = True
            self._waiting.notify_all()
        try:
            yield
        finally:
            self._is_written = False

    def want(self, session_id: str, source_id: int, source: Source, told: str) -> None:
        """Ask for a session of which the index has no message yet.

        told: see Additions; the session must be one to which no other copy adds anything.
        """
        if source_id not in self._twins:
            self._twins[source_id] = source.twin() if isinstance(source, TwinSource) else None
        twin = self._twins[source_id]
        if twin is not None:
            self._told[session_id] = told
            self._wanted.put((session_id, twin, told))

    def take(self, session_id: str) -> Fetched | None:
        """Return a session that was wanted, its messages still arriving; None for any other.

        Raises SessionUnreadable, here or while the messages are taken.
        """
        if session_id not in self._told:
            return None
        told = self._told.pop(session_id)
        while (item := self._next()) is not None:
            if isinstance(item, _End) and item.session_id == session_id and item.failure:
                raise item.failure
            if isinstance(item, _Begin) and item.session_id == session_id:
                if item.session is None:
                    return Fetched(None, item.at_ms)
                copy = SessionCopy(session=item.session, messages=self._messages())
                return Fetched(copy, item.at_ms, Additions((), told))
        return None

    def _messages(self) -> Iterator[Item]:
        while (item := self._next()) is not None and not isinstance(item, _Begin):
            if isinstance(item, _End):
                if item.failure is not None:
                    raise item.failure
                return
            yield from item
        raise RuntimeError("reading ahead ended in the middle of a session")

    def _next(self) -> _Begin | _End | list[Item] | None:
        """Return what was read next, None once nothing more can come."""
        while True:
            try:
                item = self._read.get(timeout=WAIT_S)
            except queue.Empty:
                if not self._thread.is_alive() and self._read.empty():
                    return None
                continue
            if isinstance(item, _Begin | _End):
                return item
            chunk, chars = item
            with self._waiting:
                self._waiting_chars -= chars
                self._waiting.notify_all()
            return chunk

    # In the thread

    def _run(self) -> None:
        try:
            while (wanted := self._wanted.get()) is not None and not self._closed:
                self._read_one(*wanted)
        finally:
            for twin in self._twins.values():
                if twin is not None:
                    twin.close()

    def _read_one(self, session_id: str, source: Source, told: str) -> None:
        try:
            fetched = fetch(source, session_id, {}, self._now_ms, Additions((), told))
            if fetched.copy is None:
                self._put(_Begin(session_id, None, fetched.at_ms))
                return
            self._put(_Begin(session_id, fetched.copy.session, fetched.at_ms))
            chunk: list[Item] = []
            chars = 0
            for message in fetched.copy.messages:
                chunk.append(message)
                if isinstance(message, Message):
                    chars += sum(len(part.text) for part in message.parts)
                if len(chunk) == CHUNK or chars >= CHUNK_CHARS:
                    self._put_chunk(chunk, chars)
                    chunk, chars = [], 0
                    if self._closed:
                        return
            self._put_chunk(chunk, chars)
            self._put(_End(session_id, None))
        except SessionUnreadable as error:
            self._put(_End(session_id, error))

    def _put(self, item: _Begin | _End) -> None:
        self._read.put(item)

    def _put_chunk(self, chunk: list[Item], chars: int) -> None:
        """Hand a chunk over, and wait until there is room for the next one."""
        self._read.put((chunk, chars))
        with self._waiting:
            self._waiting_chars += chars
            self._waiting.wait_for(self._may_go_on)

    def _may_go_on(self) -> bool:
        most = MOST_CHARS if self._is_written else ENOUGH_CHARS
        return self._closed or self._waiting_chars < most
