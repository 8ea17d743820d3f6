"""A service of OpenCode 2 as a source: what it holds, and every way in which it can fail."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from sync.errors import SourceUnavailable
from sync.hookspecs import SyncConfig
from sync.model import (
    RANK_API,
    BadRecord,
    Event,
    LiveSource,
    Message,
    Part,
    Project,
    SessionRef,
    Tokens,
    Unchanged,
)
from sync.sources import api_client
from sync.sources.api import ApiSource, register_sources
from sync.sources.api_registration import Endpoint
from tests.builders import MINUTE, T0
from tests.opencode_server import (
    PASSWORD,
    PID,
    VERSION,
    Handler,
    OpenCodeServer,
    assistant_item,
    event,
    opencode_server,
    session_item,
    tool_item,
    user_item,
)

ID = "ses_1"


@pytest.fixture
def server() -> Iterator[OpenCodeServer]:
    with opencode_server() as server:
        yield server


@pytest.fixture
def connect(server: OpenCodeServer) -> Iterator[Callable[..., ApiSource]]:
    """Make sources of the server; keywords change what its endpoint says."""
    sources = []

    def make(**values: Any) -> ApiSource:
        endpoint = replace(Endpoint(httpx.URL(server.url), password=PASSWORD), **values)
        source = ApiSource(server.url, lambda: endpoint)
        sources.append(source)
        return source

    yield make
    for source in sources:
        source.close()


@pytest.fixture
def source(connect: Callable[..., ApiSource]) -> ApiSource:
    return connect()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "TIMEOUT", httpx.Timeout(0.3))
    monkeypatch.setattr(api_client, "PROBE_TIMEOUT", httpx.Timeout(0.3))


def messages(
    source: ApiSource, known: dict[str, str] | None = None
) -> list[Message | Unchanged | BadRecord]:
    copy = source.read(ID, known or {})
    assert copy is not None
    return list(copy.messages)


def ids(items: list[Message | Unchanged | BadRecord]) -> list[str | None]:
    return [None if isinstance(item, BadRecord) else item.id for item in items]


def words(items: list[Message | Unchanged | BadRecord]) -> list[str]:
    return [p.text for item in items if isinstance(item, Message) for p in item.parts]


def test_it_is_a_live_source_that_has_no_last_word(
    source: ApiSource, server: OpenCodeServer
) -> None:
    assert isinstance(source, LiveSource)
    assert (source.kind, source.location, source.authoritative, source.remote) == (
        "api", server.url, False, True,
    )  # fmt: skip
    assert source.signature() is None


def test_a_session_comes_with_everything_the_api_tells(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(
        session_item(
            ID,
            "Fix the login",
            parentID="ses_0",
            fork={"sessionID": "ses_9", "boundary": {"type": "through", "messageID": "msg_9"}},
            agent="build",
            model={"id": "m", "providerID": "p"},
            cost=0.25,
            tokens={"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}},
            idle=T0 + MINUTE,
            revert={"messageID": "msg_2"},
        ),
        user_item("msg_1", "please fix it"),
        assistant_item(
            "msg_2",
            "On it.",
            tool_item("todowrite", "ok", todos=[{"content": "test it", "status": "pending"}]),
            at=T0 + 2 * MINUTE,
        ),
    )
    copy = source.read(ID, {})
    assert copy is not None
    session = copy.session
    assert (session.id, session.title, session.parent_id, session.forked_from) == (
        ID, "Fix the login", "ses_0", "ses_9",
    )  # fmt: skip
    assert (session.project_id, session.directory) == ("prj", "/home/dev/app")
    assert (session.created_ms, session.updated_ms) == (T0, T0 + 2 * MINUTE)
    assert (session.cost, session.provider, session.model) == (0.25, "p", "m")
    assert session.tokens == Tokens(input=1, output=2, reasoning=3, cache_read=4, cache_write=5)
    assert session.todos is None
    assert session.revert is not None
    assert session.revert.message_id == "msg_2"
    found = list(copy.messages)
    assert ids(found) == ["msg_1", "msg_2"]
    assert isinstance(found[1], Message)
    assert found[1].parts[:2] == (
        Part(kind="text", text="On it."),
        Part(
            kind="tool", text="todowrite", name="todowrite", call=0, status="completed",
            started_ms=T0, ended_ms=T0,
        ),
    )  # fmt: skip


def test_a_listing_tells_the_later_of_update_and_idle(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item("ses_1", None, at=T0))
    server.put(session_item("ses_2", "Two", at=T0 + MINUTE, idle=T0 + 5 * MINUTE))
    refs = list(source.sessions())
    assert refs == [
        SessionRef(
            id="ses_2", title="Two", project_id="prj", directory="/home/dev/app",
            activity_ms=T0 + 5 * MINUTE, rank=RANK_API, holds="api",
        ),
        SessionRef(
            id="ses_1", title="", project_id="prj", directory="/home/dev/app", activity_ms=T0,
            rank=RANK_API, holds="api",
        ),
    ]  # fmt: skip
    assert source.find("ses_2") == refs[0]


def test_projects_are_listed(source: ApiSource, server: OpenCodeServer) -> None:
    server.projects = [
        {
            "id": "prj", "canonical": "/home/dev/app", "vcs": "git", "sandboxes": [],
            "time": {"created": 1, "updated": 2, "active": 3},
        }
    ]  # fmt: skip
    assert list(source.projects()) == [
        Project(id="prj", directory="/home/dev/app", vcs="git", created_ms=1, updated_ms=2)
    ]


@pytest.mark.parametrize("size", [1, 2, 200])
def test_pages_of_any_size_make_one_list_in_order(
    source: ApiSource, server: OpenCodeServer, size: int
) -> None:
    server.page_size = size
    for number in range(5):
        server.put(session_item(f"ses_{number}", at=T0 + number))
    server.put(session_item(ID), *[user_item(f"msg_{n}", f"text {n}") for n in range(7)])
    assert {ref.id for ref in source.sessions() if isinstance(ref, SessionRef)} == {
        "ses_0", "ses_1", "ses_2", "ses_3", "ses_4",
    }  # fmt: skip
    assert words(messages(source)) == [f"text {n}" for n in range(7)]


def test_messages_the_index_knows_are_not_decoded_again(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item(ID), user_item("msg_1", "first"), user_item("msg_2", "second"))
    known = {m.id: m.stamp for m in messages(source) if isinstance(m, Message)}
    server.put(session_item(ID), user_item("msg_1", "first"), user_item("msg_2", "second!"))
    found = messages(source, known)
    assert found[0] == Unchanged("msg_1")
    assert words(found) == ["second!"]


def test_a_session_without_messages_is_an_empty_one(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item(ID))
    assert messages(source) == []


def test_a_deleted_session_is_none(source: ApiSource, server: OpenCodeServer) -> None:
    assert source.read("ses_gone", {}) is None
    assert source.find("ses_gone") is None


def test_a_session_deleted_while_it_is_read_is_none(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item(ID), user_item("msg_1", "first"))

    def delete(_handler: Handler) -> bool:
        server.delete(ID, tell=False)
        return False

    server.on(r"/message\?", delete)
    assert source.read(ID, {}) is None


def test_an_id_with_odd_characters_stays_one_segment(
    source: ApiSource, server: OpenCodeServer
) -> None:
    odd = "ses_a/b?c#d%20e"
    server.put(session_item(odd), user_item("msg_1", "first"))
    copy = source.read(odd, {})
    assert copy is not None
    assert words(list(copy.messages)) == ["first"]


# Undecodable messages


@pytest.mark.parametrize("bad", [0, 3, 6])
def test_an_undecodable_message_is_isolated_and_the_rest_kept(
    source: ApiSource, server: OpenCodeServer, bad: int
) -> None:
    server.put(session_item(ID), *[user_item(f"msg_{n}", f"text {n}") for n in range(7)])
    server.held[ID].undecodable = {f"msg_{bad}"}
    found = messages(source)
    expected: list[str | None] = [f"msg_{n}" for n in range(7)]
    expected[bad] = None
    assert ids(found) == expected
    record = found[bad]
    assert isinstance(record, BadRecord)
    assert (record.session_id, record.message_id) == (ID, None)
    assert "status 500" in record.reason


def test_what_the_index_has_of_an_undecodable_message_stays(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item(ID), *[user_item(f"msg_{n}", f"text {n}") for n in range(6)])
    known = {m.id: m.stamp for m in messages(source) if isinstance(m, Message)}
    server.held[ID].undecodable = {"msg_2", "msg_4"}
    known["msg_deleted"] = "a2:0"
    found = messages(source, known)
    assert ids(found) == ["msg_0", "msg_1", None, "msg_5", None, None, None]
    named = {r.message_id: r.reason for r in found if isinstance(r, BadRecord) and r.message_id}
    assert sorted(named) == ["msg_2", "msg_3", "msg_4"]
    assert "stands between" in named["msg_3"]


def test_a_sessions_only_message_can_be_undecodable(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item(ID), user_item("msg_1", "text"))
    server.held[ID].undecodable = {"msg_1"}
    (record,) = messages(source)
    assert isinstance(record, BadRecord)


def test_a_page_that_fails_once_loses_nothing(source: ApiSource, server: OpenCodeServer) -> None:
    server.put(session_item(ID), *[user_item(f"msg_{n}", f"text {n}") for n in range(3)])
    server.answer(r"/message\?", 500, {"_tag": "UnknownError", "message": "busy"}, times=1)
    assert words(messages(source)) == ["text 0", "text 1", "text 2"]


def test_a_service_that_fails_at_every_message_is_broken_not_undecodable(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item(ID), user_item("msg_1", "text"))
    server.answer(r"/message", 500, {"_tag": "UnknownError", "message": "no disk"})
    with pytest.raises(SourceUnavailable, match="status 500: no disk"):
        source.read(ID, {})


# Failures, each with a message of its own and none of them "no sessions"


def fails(source: ApiSource, match: str) -> str:
    with pytest.raises(SourceUnavailable, match=match) as caught:
        list(source.sessions())
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def test_a_wrong_password_is_said(connect: Callable[..., ApiSource]) -> None:
    fails(connect(password="wrong"), r"refused the user name or password \(401\); set OPENCODE_SER")
    fails(connect(password=None), r"refused the user name or password")
    fails(connect(username="somebody"), r"refused the user name or password")


def test_an_older_service_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    server.answer("/api/info", 404, b"Not Found")
    fails(source, "is an older OpenCode service, without /api/info")


def test_a_broken_service_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    server.answer("/api/info", 500, {"_tag": "UnknownError", "message": "failed to start"})
    fails(source, "the service is broken: .*status 500: failed to start; restart it")


def test_a_page_instead_of_an_answer_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    server.answer("/api/info", 200, b"<html>Welcome</html>")
    fails(source, "with text/html instead of JSON: it is no OpenCode service")


def test_half_an_answer_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    server.cut("/api/session")
    fails(source, "the connection broke at /api/session")


def test_an_answer_that_is_no_page_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    server.answer("/api/session", 200, {"items": []})
    fails(source, "answered /api/session with something else than a page")


def test_a_service_that_lists_but_fails_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    server.put(session_item(ID))
    server.answer(r"/api/session\?", 503, b"<html>busy</html>")
    fails(source, "status 503; sessions could not be listed")


def test_a_repeated_cursor_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    page = {"data": [session_item(ID)], "cursor": {"next": "again"}}
    server.answer("/api/session", 200, page)
    fails(source, "the same cursor twice: its list has no end")


def test_a_refused_connection_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    gone = Endpoint(httpx.URL("http://127.0.0.1:1"))
    fails(ApiSource("gone", lambda: gone), "http://127.0.0.1:1 cannot be reached")


def test_an_answer_that_is_too_large_is_refused(
    source: ApiSource, server: OpenCodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(session_item(ID, "x" * 5000))
    monkeypatch.setattr(api_client, "MAX_ANSWER_BYTES", 4000)
    fails(source, "answered /api/session with more than 4.0 kB, which is refused")


@pytest.mark.usefixtures("impatient")
def test_a_request_that_hangs_once_is_repeated(source: ApiSource, server: OpenCodeServer) -> None:
    server.put(session_item(ID))
    gate = server.hold("/api/info")
    assert [ref.id for ref in source.sessions() if isinstance(ref, SessionRef)] == [ID]
    gate.open()


@pytest.mark.usefixtures("impatient")
def test_a_service_that_never_answers_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    gate = server.hold("/api/info", times=-1)
    fails(source, "did not answer /api/info in time")
    gate.open()


def test_after_a_failure_the_service_is_asked_anew(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item(ID))
    server.answer("/api/session", 503, {"_tag": "UnknownError", "message": "wait"}, times=20)
    fails(source, "wait")
    server.faults.clear()
    assert len(list(source.sessions())) == 1


# Finding services


def register(folder: Path, name: str = "service.json", **values: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    registration = {"id": "x", "version": VERSION, "pid": os.getpid(), "password": PASSWORD}
    path.write_text(json.dumps(registration | values), encoding="utf-8")
    return path


def sole(config: SyncConfig) -> ApiSource:
    (probe,) = register_sources(config)
    assert isinstance(probe.source, ApiSource)
    return probe.source


def test_a_registered_service_is_found_and_logged_into(
    server: OpenCodeServer, tmp_path: Path
) -> None:
    server.pid = os.getpid()
    server.put(session_item(ID))
    path = register(tmp_path, url=server.url)
    (probe,) = register_sources(SyncConfig(state_dirs=(tmp_path,)))
    assert (probe.location, probe.what) == (str(path), f"service at {server.url}")
    assert isinstance(probe.source, ApiSource)
    assert len(list(probe.source.sessions())) == 1
    probe.source.close()


def test_a_service_that_moved_is_still_the_same_source(
    server: OpenCodeServer, tmp_path: Path
) -> None:
    server.pid = os.getpid()
    server.put(session_item(ID))
    register(tmp_path, url="http://127.0.0.1:1")
    source = sole(SyncConfig(state_dirs=(tmp_path,)))
    fails(source, "cannot be reached")
    path = register(tmp_path, url=server.url)
    assert len(list(source.sessions())) == 1
    assert source.location == str(path)
    path.unlink()
    with pytest.raises(SourceUnavailable, match="is gone: the service has ended"):
        next(source.events())
    source.close()


def test_a_registration_left_over_by_another_process_is_said(
    server: OpenCodeServer, tmp_path: Path
) -> None:
    register(tmp_path, url=server.url)
    source = sole(SyncConfig(state_dirs=(tmp_path,)))
    message = fails(source, "is left over")
    assert f"it names process {os.getpid()}" in message
    assert f"is process {PID} of version {VERSION}" in message
    source.close()


def test_a_registration_of_another_version_is_left_over_too(
    server: OpenCodeServer, tmp_path: Path
) -> None:
    server.pid = os.getpid()
    register(tmp_path, url=server.url, version="2.0.0")
    source = sole(SyncConfig(state_dirs=(tmp_path,)))
    fails(source, "of version 2.0.0, but at")
    source.close()


def test_a_dead_service_is_no_source_but_is_shown(tmp_path: Path, dead_pid: int) -> None:
    path = register(tmp_path, url="http://127.0.0.1:1", pid=dead_pid)
    (probe,) = register_sources(SyncConfig(state_dirs=(tmp_path,)))
    assert (probe.location, probe.source) == (str(path), None)
    assert probe.what == f"left over: process {dead_pid} is not running any more"


def test_a_service_that_dies_is_said(tmp_path: Path, dead_pid: int) -> None:
    register(tmp_path, url="http://127.0.0.1:1")
    source = sole(SyncConfig(state_dirs=(tmp_path,)))
    register(tmp_path, url="http://127.0.0.1:1", pid=dead_pid)
    fails(source, f"the service it names, process {dead_pid}, is not running")


@pytest.fixture
def dead_pid() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{half", "is no registration of a service: not JSON"),
        ("[]", "it names no URL"),
        ('{"url": "file:///etc/passwd"}', "not an http or https URL"),
        ('{"url": "http://u:s3cret@host:port"}', "not a URL"),
    ],
)
def test_a_file_that_registers_nothing_is_shown(tmp_path: Path, content: str, what: str) -> None:
    (tmp_path / "service.json").write_text(content, encoding="utf-8")
    (probe,) = register_sources(SyncConfig(state_dirs=(tmp_path,)))
    assert probe.source is None
    assert what in probe.what
    assert PASSWORD not in probe.what


def test_services_of_every_channel_are_found_and_nothing_else(tmp_path: Path) -> None:
    for name in ("service.json", "service-beta.json", "services.json", "service.json.bak"):
        register(tmp_path, name, url=f"http://127.0.0.1:1/{name}")
    probes = register_sources(SyncConfig(state_dirs=(tmp_path, tmp_path / "none")))
    assert [Path(p.location).name for p in probes] == ["service-beta.json", "service.json"]


@pytest.mark.parametrize("environment", [True, False])
def test_a_url_brings_its_password_or_takes_it_from_the_environment(
    server: OpenCodeServer, monkeypatch: pytest.MonkeyPatch, environment: bool
) -> None:
    server.put(session_item(ID))
    url = server.url
    if environment:
        monkeypatch.setenv("OPENCODE_SERVER_PASSWORD", PASSWORD)
    else:
        monkeypatch.delenv("OPENCODE_SERVER_PASSWORD", raising=False)
        url = url.replace("http://", f"http://opencode:{PASSWORD}@")
    (probe,) = register_sources(SyncConfig(urls=(f"{url}/?token=x#y",)))
    assert probe.location == server.url
    assert isinstance(probe.source, ApiSource)
    assert len(list(probe.source.sessions())) == 1
    assert PASSWORD not in repr(vars(probe.source))
    assert not any(PASSWORD in target for target in server.requests)
    probe.source.close()


@pytest.mark.parametrize("url", ["opencode", "ftp://host", "http://", "http://u:s3cret@host:port"])
def test_a_url_that_is_none_is_shown_without_its_text(url: str) -> None:
    (probe,) = register_sources(SyncConfig(urls=(url,)))
    assert (probe.location, probe.source) == ("--url", None)
    assert probe.what.startswith("not a")
    assert PASSWORD not in probe.what


# Events


def test_events_say_what_changed_and_what_is_gone(
    source: ApiSource, server: OpenCodeServer
) -> None:
    server.put(session_item(ID))
    events = source.events()
    assert next(events) == Event(connected=True)
    server.send(b": heartbeat\n\n", b"data: {half\n\n")
    delta = {
        "id": "evt_2", "created": T0, "type": "session.text.delta",
        "data": {
            "sessionID": ID, "assistantMessageID": "msg_1", "ordinal": 0, "delta": "wo",
        },
    }  # fmt: skip
    server.emit(delta, event("session.renamed", ID, title="New"))
    assert next(events) == Event(session_id=ID)
    server.delete(ID)
    assert next(events) == Event(session_id=ID, deleted=True)
    server.send(None)
    assert list(events) == []


def test_closing_ends_a_wait_for_events(source: ApiSource, server: OpenCodeServer) -> None:
    events = source.events()
    assert next(events) == Event(connected=True)
    threading.Timer(0.05, source.close).start()
    assert list(events) == []


def test_a_refused_stream_is_said(source: ApiSource, server: OpenCodeServer) -> None:
    server.answer("/api/event", 503, b"<html>busy</html>")
    with pytest.raises(SourceUnavailable, match="answered /api/event with status 503"):
        next(source.events())
