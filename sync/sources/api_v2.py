"""The API of OpenCode 2: everything under /api, in pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from sync.decode_v2 import message_v2
from sync.errors import SourceUnavailable
from sync.model import (
    BadRecord,
    Project,
    Session,
    SessionCopy,
    SessionRef,
    Unchanged,
)
from sync.sources.api_client import ApiClient, NotFound, ServiceFault
from sync.sources.api_pages import Stuck, pages, whole_list
from sync.sources.api_values import (
    Messages,
    project_value,
    session_ref,
    session_value,
    stamp,
)
from sync.values import filled, mapping, sequence

SESSIONS = "/api/session"


class V2:
    """How to ask a service of OpenCode 2."""

    event_path = "/api/event"

    def __init__(self, client: ApiClient) -> None:
        self.client = client

    def projects(self) -> Iterator[Project | BadRecord]:
        for item in sequence(self.client.get("/api/project").data):
            yield project_value(item, "GET /api/project")

    def sessions(self) -> Iterator[SessionRef | BadRecord]:
        try:
            for item in pages(self.client, SESSIONS, "desc"):
                yield session_ref(item, f"GET {SESSIONS}")
        except Stuck as stuck:
            raise SourceUnavailable(f"{stuck.fault}; sessions could not be listed") from stuck

    def find(self, session_id: str) -> SessionRef | None:
        data = session_data(self.client, session_id)
        if data is None:
            return None
        found = session_ref(data, f"GET {SESSIONS}/{session_id}")
        if isinstance(found, BadRecord):
            raise SourceUnavailable(f"{self.client.name} answered {found.item} with {found.reason}")
        return found

    def read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        data = session_data(self.client, session_id)
        if data is None:
            return None
        session = session_value(data)
        messages = read_messages(self.client, session, known)
        return None if messages is None else messages.copy_of(session)


def session_data(client: ApiClient, session_id: str) -> object | None:
    """Return the raw session; None where the service says that there is none of that id."""
    try:
        return mapping(client.get(_session_path(session_id)).data).get("data")
    except NotFound as error:
        if error.tag == "SessionNotFoundError":
            return None
        raise


def read_messages(client: ApiClient, session: Session, known: Mapping[str, str]) -> Messages | None:
    """Read all messages of a session, oldest first; None where it has just been deleted."""
    path = f"{_session_path(session.id)}/message"
    try:
        found = whole_list(client, path)
    except NotFound as error:
        if error.tag == "SessionNotFoundError":
            return None
        raise
    if found.missing is not None and not found.items:
        # Are these this session's only messages, or does the service fail at everything?
        _require_answer(client, path, found.missing)
    messages = Messages()
    for position, item in enumerate(found.items):
        if found.missing is not None and position == found.before:
            messages.add(None, _missing(session.id, found.missing))
        _add(messages, session, mapping(item), known)
    if found.missing is not None:
        if found.before == len(found.items):
            messages.add(None, _missing(session.id, found.missing))
        seen = {item.id for _, item in messages.items if not isinstance(item, BadRecord)}
        for record in _known_ones(client, session, [i for i in known if i not in seen]):
            messages.add(None, record)
    return messages


def _add(
    messages: Messages, session: Session, item: Mapping[str, object], known: Mapping[str, str]
) -> None:
    message_id = filled(item.get("id"))
    if message_id is None:
        record = BadRecord(
            item=f"a message of session {session.id}", reason="no id", session_id=session.id
        )
        messages.add(None, record)
        return
    digest = stamp("2", item)
    if known.get(message_id) == digest:
        messages.add(item.get("time"), Unchanged(message_id))
        return
    kind = filled(item.get("type")) or "unknown"
    messages.add(
        item.get("time"),
        message_v2(message_id, kind, item, stamp=digest, row_ms=None, directory=session.directory),
    )


def _missing(session_id: str, fault: ServiceFault) -> BadRecord:
    return BadRecord(
        item=f"messages of session {session_id}",
        reason=f"the service cannot decode one or more in a row: {fault}",
        session_id=session_id,
    )


def _known_ones(client: ApiClient, session: Session, ids: list[str]) -> Iterator[BadRecord]:
    """Keep what the index has of messages that the lists left out, unless they are deleted."""
    for message_id in ids:
        path = f"{_session_path(session.id)}/message/{quote(message_id, safe='')}"
        try:
            client.get(path)
        except NotFound as error:
            if error.tag == "MessageNotFoundError":
                continue
            raise
        except ServiceFault as fault:
            reason = str(fault)
        else:
            reason = "it stands between messages that the service cannot decode"
        yield BadRecord(
            item=f"message {message_id}",
            reason=reason,
            session_id=session.id,
            message_id=message_id,
        )


def _require_answer(client: ApiClient, path: str, fault: ServiceFault) -> None:
    """Raise the fault unless the service answers for messages that are not the broken ones."""
    for kind in ("idle", "system"):
        try:
            client.get(path, {"limit": "1", "order": "desc", "type": kind})
        except ServiceFault:
            continue
        return
    raise fault


def _session_path(session_id: str) -> str:
    return f"{SESSIONS}/{quote(session_id, safe='')}"
