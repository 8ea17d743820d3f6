"""Services of OpenCode 1: what recorded ones answered, and the pitfalls of their lists."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import httpx
import pytest

from sync.errors import SourceUnavailable
from sync.model import BadRecord, Message, Session, SessionRef, Source, Unchanged
from sync.sources.api import ApiSource
from sync.sources.api_registration import Endpoint
from sync.sources.json_store import JsonSource
from sync.sources.sqlite import SqliteSource
from tests.builders import T0

Answer = Callable[[str, Mapping[str, str]], httpx.Response]


def service(answer: Answer) -> ApiSource:
    """A source whose service answers each path with its parameters."""

    def handle(request: httpx.Request) -> httpx.Response:
        return answer(unquote(request.url.path), dict(parse_qsl(request.url.query.decode())))

    def connect(_endpoint: Endpoint) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(handle), base_url="http://service")

    endpoint = Endpoint(httpx.URL("http://service"))
    return ApiSource("http://service", lambda: endpoint, connect)


class Recording:
    """Answers as a recorded service did, from samples/<version>/api."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = (folder / "INDEX.jsonl").read_text(encoding="utf-8").splitlines()
        self.answers = {}
        for entry in map(json.loads, lines):
            path, _, query = entry["path"].partition("?")
            params = dict(parse_qsl(query))
            if path.startswith("/session/"):
                # They were asked for with their directories, which matters before 1.2 only.
                params.pop("directory", None)
            self.answers[unquote(path), tuple(sorted(params.items()))] = entry

    def __call__(self, path: str, params: Mapping[str, str]) -> httpx.Response:
        wanted = {k: v for k, v in params.items() if k not in ("limit", "order")}
        if path.startswith("/session/"):
            wanted.pop("directory", None)
        for candidate in (params, wanted, wanted | {"limit": "200"}):
            entry = self.answers.get((path, tuple(sorted(candidate.items()))))
            if entry is not None:
                body = (self.folder / entry["file"]).read_bytes()
                if params.get("order") == "asc":
                    page = json.loads(body)
                    page["data"].reverse()
                    body = json.dumps(page).encode()
                return httpx.Response(entry["status"], headers=entry["headers"], content=body)
        if "cursor" in params:
            return httpx.Response(200, json={"data": [], "cursor": {}})
        if path == "/session":
            return httpx.Response(200, json=[])
        return httpx.Response(200, headers={"content-type": "text/html"}, content=b"<html>")


def stored_in(sample: Path, tmp_path: Path) -> SqliteSource:
    return SqliteSource(Path(shutil.copy(sample / "data" / "opencode.db", tmp_path)))


def refs(source: Source) -> list[SessionRef]:
    return [ref for ref in source.sessions() if isinstance(ref, SessionRef)]


def texts(items: Iterable[Message | Unchanged | BadRecord]) -> list[tuple[str, list[str]]]:
    return [(m.id, [p.text for p in m.parts]) for m in items if isinstance(m, Message)]


def test_everything_a_1_18_service_answers_is_what_its_database_holds(
    samples: Path, tmp_path: Path
) -> None:
    source = service(Recording(samples / "1.18.33" / "api"))
    database = stored_in(samples / "1.18.33", tmp_path)
    ids = json.loads((samples / "1.18.33" / "ids.json").read_text(encoding="utf-8"))["ids"]
    found = refs(source)
    assert len(found) == 44
    for ref in found:
        if ref.id == ids["structured-output"]:
            # The service itself cannot send what it stored.
            with pytest.raises(SourceUnavailable, match="status 400: Expected OutputFormat"):
                source.read(ref.id, {})
            continue
        copy, stored = source.read(ref.id, {}), database.read(ref.id, {})
        assert copy is not None
        assert stored is not None
        assert texts(copy.messages) == texts(stored.messages)
        assert same(copy.session) == same(stored.session)
    source.close()
    database.close()


def same(session: Session) -> tuple[object, ...]:
    return (
        session.title, session.project_id, session.parent_id, session.directory, session.slug,
        session.version, session.created_ms, session.archived_ms, session.todos, session.revert,
    )  # fmt: skip


def test_messages_of_the_early_v2_api_are_read_too_and_merged_by_time(
    samples: Path, tmp_path: Path
) -> None:
    recording = Recording(samples / "1.18.33-v2" / "api")
    source = service(recording)
    database = stored_in(samples / "1.18.33-v2", tmp_path)
    ids = json.loads((samples / "1.18.33-v2" / "ids.json").read_text(encoding="utf-8"))["ids"]
    for feature in ("v2-login-bug", "v2-both-kinds", "v1-only", "v2-empty", "v2-reasoning"):
        copy, stored = source.read(ids[feature], {}), database.read(ids[feature], {})
        assert copy is not None
        assert stored is not None
        assert texts(copy.messages) == texts(stored.messages), feature
        assert copy.session.todos == stored.session.todos
    source.close()
    database.close()


def test_a_1_1_service_is_asked_directory_by_directory(samples: Path, tmp_path: Path) -> None:
    recording = Recording(samples / "1.1.53" / "api")
    source = service(recording)
    # A service has cut outputs only; away from tool-output, so have the files.
    files = shutil.copytree(samples / "1.1.53" / "data" / "storage", tmp_path / "storage")
    store = JsonSource(files)
    found = refs(source)
    # Directories outside of any project are in no list of its; the files beside it have them.
    missing = {ref.directory for ref in refs(store)} - {ref.directory for ref in found}
    assert missing == {"/home/dev/notes"}
    assert len({ref.id for ref in found}) == len(found) == 35
    for ref in found:
        copy, stored = source.read(ref.id, {}), store.read(ref.id, {})
        assert copy is not None
        assert stored is not None
        assert dict(texts(copy.messages)) == dict(texts(stored.messages))
    source.close()
    store.close()


def test_a_deleted_session_is_none_but_one_of_unknown_directory_is_not(samples: Path) -> None:
    newer = service(Recording(samples / "1.18.33" / "api"))
    assert newer.read("ses_000000000000AAAAAAAAAAAAAA", {}) is None
    older = service(Recording(samples / "1.1.53" / "api"))
    with pytest.raises(SourceUnavailable, match="does not say in which directory"):
        older.find("ses_000000000000AAAAAAAAAAAAAA")
    newer.close()
    older.close()


# Pitfalls that no recording has


HEALTH = {"healthy": True, "version": "1.18.33"}


def info(session_id: str, updated: int) -> dict[str, object]:
    return {
        "id": session_id, "title": session_id, "projectID": "prj", "directory": "/app",
        "time": {"created": T0, "updated": updated},
    }  # fmt: skip


def paged(sessions: list[dict[str, object]], size: int) -> Answer:
    """Page as 1.18 does: by time of update, newest first, strictly older than the cursor."""

    def updated(session: dict[str, object]) -> int:
        time = session["time"]
        assert isinstance(time, dict)
        return int(time["updated"])

    def answer(path: str, params: Mapping[str, str]) -> httpx.Response:
        if path == "/global/health":
            return httpx.Response(200, json=HEALTH)
        if path != "/experimental/session":
            return httpx.Response(404, json={})
        ordered = sorted(sessions, key=updated, reverse=True)
        if "cursor" in params:
            ordered = [s for s in ordered if updated(s) < int(params["cursor"])]
        page = ordered[:size]
        more = len(ordered) > size
        headers = {"x-next-cursor": str(updated(page[-1]))} if more else {}
        return httpx.Response(200, json=page, headers=headers)

    return answer


def test_sessions_of_the_same_millisecond_on_two_pages_are_all_listed() -> None:
    times = [5, 4, 4, 4, 3, 3, 2, 1, 1]
    sessions = [info(f"ses_{n}", T0 + time) for n, time in enumerate(times)]
    source = service(paged(sessions, 4))
    assert [ref.id for ref in refs(source)] == [f"ses_{n}" for n in range(9)]
    source.close()


def test_a_page_full_of_one_millisecond_does_not_go_on_for_ever() -> None:
    sessions = [info(f"ses_{n}", T0) for n in range(9)] + [info("ses_old", T0 - 1)]
    source = service(paged(sessions, 4))
    found = {ref.id for ref in refs(source)}
    assert {"ses_0", "ses_1", "ses_2", "ses_3", "ses_old"} <= found
    source.close()


def test_a_service_without_the_early_v2_api_is_not_asked_for_it() -> None:
    asked = []

    def answer(path: str, params: Mapping[str, str]) -> httpx.Response:
        asked.append(path)
        if path == "/api/session":
            return httpx.Response(400, content=b"")
        if path == "/session/ses_1":
            return httpx.Response(200, json=info("ses_1", T0))
        if path.startswith("/session/ses_1/"):
            return httpx.Response(200, json=[])
        return paged([info("ses_1", T0)], 4)(path, params)

    source = service(answer)
    copy = source.read("ses_1", {})
    assert copy is not None
    assert list(copy.messages) == []
    assert asked[-3:] == ["/session/ses_1", "/session/ses_1/message", "/session/ses_1/todo"]
    source.close()


def test_known_messages_are_unchanged_and_a_changed_part_is_not() -> None:
    text = {"id": "prt_1", "type": "text", "text": "first"}
    message = {"info": {"id": "msg_1", "role": "user", "time": {"created": T0}}, "parts": [text]}

    def answer(path: str, params: Mapping[str, str]) -> httpx.Response:
        if path == "/session/ses_1":
            return httpx.Response(200, json=info("ses_1", T0))
        if path == "/session/ses_1/message":
            return httpx.Response(200, json=[message])
        if path == "/session/ses_1/todo":
            return httpx.Response(200, json=[])
        return paged([], 4)(path, params)

    source = service(answer)
    first = source.read("ses_1", {})
    assert first is not None
    (stored,) = first.messages
    assert isinstance(stored, Message)
    known = {"msg_1": stored.stamp}
    again = source.read("ses_1", known)
    assert again is not None
    assert list(again.messages) == [Unchanged("msg_1")]
    text["text"] = "first, edited"
    edited = source.read("ses_1", known)
    assert edited is not None
    assert texts(edited.messages) == [("msg_1", ["first, edited"])]
    source.close()


def test_a_message_that_cannot_be_sent_costs_only_what_is_older() -> None:
    bad = 2

    def item(number: int) -> dict[str, object]:
        return {"info": {"id": f"msg_{number}", "role": "user", "time": {"created": T0}}}

    def answer(path: str, params: Mapping[str, str]) -> httpx.Response:
        if path == "/session/ses_1":
            return httpx.Response(200, json=info("ses_1", T0))
        if path == "/session/ses_1/todo":
            return httpx.Response(200, json=[])
        if path != "/session/ses_1/message":
            return paged([], 4)(path, params)
        end = int(params.get("before", 6))
        start = max(0, end - int(params.get("limit", 6)))
        if start <= bad < end:
            return httpx.Response(400, json={"name": "BadRequest", "data": {"message": "no"}})
        headers = {"x-next-cursor": str(start)} if start else {}
        return httpx.Response(200, json=[item(n) for n in range(start, end)], headers=headers)

    source = service(answer)
    copy = source.read("ses_1", {"msg_1": "a1:old", "msg_5": "a1:old"})
    assert copy is not None
    found = list(copy.messages)
    assert [r.message_id for r in found if isinstance(r, BadRecord)] == [None, "msg_1"]
    assert [m for m, _ in texts(found)] == ["msg_3", "msg_4", "msg_5"]
    source.close()
