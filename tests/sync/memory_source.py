"""A source that a test fills by hand: the same protocol as the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sync.errors import SourceUnavailable
from sync.model import (
    RANK_API,
    BadRecord,
    Event,
    Message,
    Project,
    Session,
    SessionCopy,
    SessionRef,
    SourceKind,
    Unchanged,
)
from tests.builders import ref


class MemorySource:
    """Holds sessions in a dict. reads counts the sessions read, bodies the messages sent."""

    def __init__(
        self, location: str = "/data/opencode.db", *, kind: SourceKind = "db", rank: int = 1
    ) -> None:
        self.kind: SourceKind = kind
        self.location = location
        self.rank = rank
        self.authoritative = True
        self.remote = False
        self.held: dict[str, tuple[Session, list[Message | BadRecord]]] = {}
        self.bad: list[BadRecord] = []
        self.projects_held: list[Project | BadRecord] = []
        self.unavailable: str | None = None
        self.stable_signature: str | None = None
        self.fails: dict[str, Exception] = {}
        self.on_read: Callable[[str], None] = lambda _id: None
        self.reads: list[str] = []
        self.bodies = 0
        self.listings = 0

    def put(self, session: Session, *messages: Message | BadRecord) -> None:
        self.held[session.id] = (session, list(messages))

    def signature(self) -> str | None:
        if self.unavailable:
            raise SourceUnavailable(self.unavailable)
        return self.stable_signature

    def projects(self) -> Iterator[Project | BadRecord]:
        return iter(self.projects_held)

    def sessions(self) -> Iterator[SessionRef | BadRecord]:
        self.listings += 1
        yield from (ref(session, rank=self.rank) for session, _ in self.held.values())
        yield from self.bad

    def read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        self.on_read(session_id)
        self.reads.append(session_id)
        if session_id not in self.held:
            return None
        session, messages = self.held[session_id]
        return SessionCopy(session=session, messages=self._messages(session_id, messages, known))

    def _messages(
        self, session_id: str, messages: list[Message | BadRecord], known: Mapping[str, str]
    ) -> Iterator[Message | Unchanged | BadRecord]:
        for message in messages:
            if isinstance(message, Message) and known.get(message.id) == message.stamp:
                yield Unchanged(message.id)
                continue
            self.bodies += 1
            yield message
        if session_id in self.fails:
            raise self.fails[session_id]

    def close(self) -> None: ...


class LiveMemorySource(MemorySource):
    """A service: it tells of changes, and its listing has not the last word."""

    def __init__(self, location: str = "http://127.0.0.1:4096") -> None:
        super().__init__(location, kind="api", rank=RANK_API)
        self.authoritative = False
        self.remote = True

    def find(self, session_id: str) -> SessionRef | None:
        if self.unavailable:
            raise SourceUnavailable(self.unavailable)
        if session_id not in self.held:
            return None
        return ref(self.held[session_id][0], rank=self.rank)

    def events(self) -> Iterator[Event]:
        return iter(())
