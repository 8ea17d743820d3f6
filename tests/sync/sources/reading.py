"""Ways to look at what a source yields."""

from __future__ import annotations

from collections.abc import Mapping

from sync.model import BadRecord, Message, Session, SessionRef, Source, Unchanged

Item = Message | Unchanged | BadRecord


def listed(source: Source) -> dict[str, SessionRef]:
    return {ref.id: ref for ref in source.sessions() if isinstance(ref, SessionRef)}


def problems(source: Source) -> list[BadRecord]:
    return [record for record in source.sessions() if isinstance(record, BadRecord)]


def read(
    source: Source, session_id: str, known: Mapping[str, str] | None = None
) -> tuple[Session, list[Item]]:
    copy = source.read(session_id, known or {})
    assert copy is not None
    return copy.session, list(copy.messages)


def messages(source: Source, session_id: str) -> list[Message]:
    """Read a session of which everything can be read."""
    found = []
    for item in read(source, session_id)[1]:
        assert isinstance(item, Message), item
        found.append(item)
    return found


def stamps(source: Source, session_id: str) -> dict[str, str]:
    return {m.id: m.stamp for m in read(source, session_id)[1] if isinstance(m, Message)}


def texts(message: Message | Item) -> list[str]:
    assert isinstance(message, Message), message
    return [part.text for part in message.parts]
