"""The stream of events, however its bytes are cut, and what each event says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sync.errors import SourceUnavailable
from sync.model import Event
from sync.sources import api_client
from sync.sources.api_client import ApiClient
from sync.sources.sse import read_event


class Chunks(httpx.SyncByteStream):
    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.chunks:
            if chunk == b"SILENCE":
                raise httpx.ReadTimeout("no byte came")
            yield chunk


def received(*chunks: bytes, kind: str = "text/event-stream") -> list[str]:
    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": kind}, stream=Chunks(*chunks))

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://service") as http:
        return list(ApiClient(http, "http://service").events("/api/event", lambda _: None))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_events_survive_any_cut_any_line_end_and_unicode_line_separators(
    size: int, line_end: str
) -> None:
    lines = [
        ": heartbeat", "", "data: é 🚀", "", "event: message", "id: 7", "data: a\u2028b\u0085c",
        "data: second line", "", "retry: 10", "", "data:no space", "", "",
    ]  # fmt: skip
    raw = line_end.join(lines).encode()
    chunks = [raw[i : i + size] for i in range(0, len(raw), size)]
    assert received(*chunks) == ["é 🚀", "a\u2028b\u0085c\nsecond line", "no space"]


def test_an_event_cut_off_by_the_end_of_the_stream_is_none() -> None:
    assert received(b"data: whole\n\n", b"data: ha") == ["whole"]


def test_text_is_utf_8_whatever_the_header_says() -> None:
    raw = "data: é\n\n".encode()
    assert received(raw, kind="text/event-stream; charset=latin-1") == ["é"]


def test_a_silent_connection_is_a_broken_one() -> None:
    with pytest.raises(SourceUnavailable, match="did not answer /api/event in time"):
        received(b": heartbeat\n\n", b"SILENCE")


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "MAX_EVENT_BYTES", 100)
    short = b"data: " + b"x" * 80 + b"\n\n"
    assert len(received(short, short, short)) == 3
    with pytest.raises(SourceUnavailable, match="an event of more than 100 B"):
        received(b"data: ", *[b"x" * 10] * 12)


def test_a_page_instead_of_a_stream_is_said() -> None:
    with pytest.raises(SourceUnavailable, match="without a stream of events"):
        received(b"<html>", kind="text/html")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(
            {"type": "server.connected", "data": {}}, Event(connected=True), id="v2-connected"
        ),
        pytest.param(
            {"payload": {"type": "server.connected", "properties": {}}},
            Event(connected=True),
            id="v1-connected",
        ),
        pytest.param(
            {"type": "session.renamed", "data": {"sessionID": "ses_1", "title": "x"}},
            Event(session_id="ses_1"),
            id="v2-change",
        ),
        pytest.param(
            {"type": "session.deleted", "data": {"sessionID": "ses_1"}},
            Event(session_id="ses_1", deleted=True),
            id="v2-deletion",
        ),
        pytest.param(
            {
                "directory": "/a",
                "payload": {"type": "session.deleted", "properties": {"info": {"id": "ses_1"}}},
            },
            Event(session_id="ses_1", deleted=True),
            id="v1-deletion",
        ),
        pytest.param(
            {"type": "message.part.updated", "properties": {"part": {"sessionID": "ses_1"}}},
            Event(session_id="ses_1"),
            id="v1-part",
        ),
        pytest.param(
            {
                "type": "message.updated",
                "properties": {"info": {"id": "msg_1", "sessionID": "ses_1"}},
            },
            Event(session_id="ses_1"),
            id="v1-message",
        ),
        pytest.param(
            {"type": "message.updated", "properties": {"info": {"id": "msg_1"}}},
            None,
            id="a-message-id-is-no-session-id",
        ),
        pytest.param(
            {"type": "session.text.delta", "data": {"sessionID": "ses_1"}}, None, id="v2-delta"
        ),
        pytest.param(
            {"type": "session.tool.progress", "data": {"sessionID": "ses_1"}}, None, id="progress"
        ),
        pytest.param(
            {"type": "message.part.delta", "properties": {"sessionID": "ses_1"}},
            None,
            id="v1-delta",
        ),
        pytest.param(
            {
                "type": "message.part.updated",
                "properties": {"part": {"sessionID": "ses_1"}, "delta": "wo"},
            },
            None,
            id="1.1-delta",
        ),
        pytest.param(
            {
                "payload": {
                    "type": "sync",
                    "syncEvent": {"data": {"sessionID": "ses_1"}, "type": "session.updated.1"},
                }
            },
            None,
            id="v1-second-copy",
        ),
        pytest.param({"type": "file.edited", "data": {"file": "a"}}, None, id="no-session"),
        pytest.param({"type": "server.heartbeat", "properties": {}}, None, id="heartbeat"),
        pytest.param({"type": 7}, None, id="no-type"),
        pytest.param([], None, id="no-object"),
    ],
)
def test_an_event_says_which_session_changed_or_is_gone(data: object, says: Event | None) -> None:
    assert read_event(json.dumps(data)) == says


def test_an_event_that_is_no_json_is_an_error() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        read_event("{half")


@pytest.mark.parametrize(
    ("name", "deleted"),
    [
        ("1.1.53/events/global-event.sse", "ses_dd0ea27a4ffeSMAouMx5b1QGDp"),
        ("1.18.33/events/global-event.sse", "ses_dd0e223c0ffe9SiLTWV2Th8TYQ"),
        ("1.18.33-v2/events/global-event-v2-session.sse", "ses_dd0dd9e27ffe0aOfjqqzrwJQML"),
    ],
)
def test_recorded_streams_tell_of_one_session_and_its_end(
    samples: Path, name: str, deleted: str
) -> None:
    said = [read_event(data) for data in received((samples / name).read_bytes())]
    events = [event for event in said if event is not None]
    assert events[0] == Event(connected=True)
    assert {event.session_id for event in events[1:]} == {deleted}
    assert events[-1] == Event(session_id=deleted, deleted=True)
