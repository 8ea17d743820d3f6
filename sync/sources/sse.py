"""What the events of a service say about its sessions."""

from __future__ import annotations

from collections.abc import Mapping

from sync.model import Event
from sync.values import decode_json, filled, mapping

NOISE = (".delta", ".progress")
"""Ends of the types of events that come by the hundred and change nothing for good."""

FAMILIES = ("session.", "message.", "todo.")
"""Beginnings of the types of events that are about a session."""


def read_event(data: str) -> Event | None:
    """Return what one event says; None for those that say nothing about a session.

    V2 sends {type, data}, V1 {type, properties}, both also wrapped in {payload}. Raises
    ValueError where it is not JSON.
    """
    event = mapping(decode_json(data))
    event = mapping(event.get("payload")) or event
    kind = filled(event.get("type"))
    if kind == "server.connected":
        return Event(connected=True)
    # V1 repeats every durable change as a `sync` event: once is enough.
    if kind is None or not kind.startswith(FAMILIES) or kind.endswith(NOISE):
        return None
    body = mapping(event.get("data") or event.get("properties"))
    # 1.1 sends each piece of streamed text as an update of its part.
    if "delta" in body:
        return None
    session_id = _session_id(body, kind)
    if session_id is None:
        return None
    return Event(session_id=session_id, deleted=kind == "session.deleted")


def _session_id(data: Mapping[str, object], kind: str) -> str | None:
    info = mapping(data.get("info"))
    found = (
        filled(data.get("sessionID"))
        or filled(mapping(data.get("part")).get("sessionID"))
        or filled(info.get("sessionID"))
    )
    if found is None and kind.startswith("session."):
        return filled(info.get("id"))
    return found
