"""What both dialects of the API have in common: sessions, projects and stamps as plain values."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from sync.decode_session import project_from_object, session_from_object, todo
from sync.model import (
    RANK_API,
    BadRecord,
    Message,
    Project,
    Session,
    SessionCopy,
    SessionRef,
    Todo,
    Unchanged,
)
from sync.values import filled, mapping, sequence, time_ms


@dataclass(slots=True)
class Messages:
    """Messages of one session in their order.

    activity_ms: the latest time in any of them. todos: None where the service keeps no list.
    """

    items: list[tuple[int, Message | Unchanged | BadRecord]] = field(default_factory=list)
    activity_ms: int = 0
    todos: tuple[Todo, ...] | None = None

    def add(self, time: object, item: Message | Unchanged | BadRecord) -> None:
        """Add a message whose raw times are given; a bad record stands where it was met."""
        times = mapping(time)
        created = time_ms(times.get("created"))
        if created is None:
            created = self.items[-1][0] if self.items else 0
        self.activity_ms = max([self.activity_ms, *(time_ms(t) or 0 for t in times.values())])
        self.items.append((created, item))

    def merged(self, other: Messages) -> Messages:
        """Return both lists as one: each in its own order, and by time between them."""
        return Messages(
            items=list(heapq.merge(self.items, other.items, key=lambda timed: timed[0])),
            activity_ms=max(self.activity_ms, other.activity_ms),
            todos=self.todos,
        )

    def copy_of(self, session: Session) -> SessionCopy:
        return SessionCopy(
            session=replace(
                session,
                updated_ms=max(session.updated_ms, self.activity_ms),
                todos=self.todos,
            ),
            messages=(item for _, item in self.items),
        )


def session_value(item: object) -> Session:
    """Return a session of V1 or V2 as a listing knows it. Raises ValueError without an id."""
    data = mapping(item)
    session_id = filled(data.get("id"))
    if session_id is None:
        raise ValueError("a session without an id")
    time = mapping(data.get("time"))
    times = [time_ms(time.get(name)) or 0 for name in ("created", "updated", "idle")]
    session = session_from_object(session_id, data, max(times))
    return replace(
        session,
        directory=session.directory or filled(mapping(data.get("location")).get("directory")),
        forked_from=filled(mapping(data.get("fork")).get("sessionID")),
    )


def session_ref(item: object, where: str) -> SessionRef | BadRecord:
    """Return what a listing says of a session; where: names the listing to a person."""
    try:
        session = session_value(item)
    except ValueError as error:
        return BadRecord(item=where, reason=str(error))
    return SessionRef(
        id=session.id,
        title=session.title,
        project_id=session.project_id,
        directory=session.directory,
        activity_ms=session.updated_ms,
        rank=RANK_API,
        holds="api",
    )


def project_value(item: object, where: str) -> Project | BadRecord:
    data = mapping(item)
    project_id = filled(data.get("id"))
    if project_id is None:
        return BadRecord(item=where, reason="a project without an id")
    return project_from_object(project_id, data)


def todo_values(items: object) -> tuple[Todo, ...]:
    return tuple(found for item in sequence(items) if (found := todo(item)) is not None)


def stamp(layout: str, item: object) -> str:
    """Return a digest of a raw message: the API does not say when one last changed."""
    text = json.dumps(item, sort_keys=True, separators=(",", ":"))
    return f"a{layout}:{blake2b(text.encode('ascii'), digest_size=12).hexdigest()}"
