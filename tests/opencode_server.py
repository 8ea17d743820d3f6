"""A service of OpenCode 2 for tests, on a real socket and stricter than the real one.

It refuses what the real one refuses, answers pages of one where told to, checks each of its
answers against the models of opencode-python-sdk, and can be made to hang, to cut a
connection, to fail, and to hold a request open until a test lets it go on.
"""

from __future__ import annotations

import base64
import json
import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pydantic
from opencode import types

from tests.builders import T0

PASSWORD = "s3cret"
VERSION = "2.1.2"
PID = 4711
WAIT_S = 20

Json = dict[str, Any]

_CHECKING = threading.Lock()


def session_item(
    session_id: str, title: str | None = "A session", *, at: int = T0, **more: Any
) -> Json:
    """A session as the API lists it; more: further keys of it, idle goes into its times."""
    idle = {"idle": more.pop("idle")} if "idle" in more else {}
    item = {
        "id": session_id,
        "projectID": "prj",
        "cost": 0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        "time": {"created": at, "updated": at, **idle},
        "location": {"directory": "/home/dev/app"},
        **more,
    }
    return item if title is None else item | {"title": title}


def user_item(message_id: str, text: str, *, at: int = T0) -> Json:
    return {"id": message_id, "type": "user", "time": {"created": at}, "text": text}


def assistant_item(message_id: str, *content: Json | str, at: int = T0) -> Json:
    return {
        "id": message_id,
        "type": "assistant",
        "time": {"created": at, "completed": at},
        "agent": "build",
        "model": {"id": "m", "providerID": "p"},
        "content": [{"type": "text", "text": c} if isinstance(c, str) else c for c in content],
    }


def tool_item(name: str, output: str, **inputs: Any) -> Json:
    return {
        "type": "tool",
        "id": "call_1",
        "name": name,
        "state": {
            "status": "completed",
            "input": inputs,
            "content": [{"type": "text", "text": output}],
        },
        "time": {"created": T0, "ran": T0, "completed": T0},
    }


def event(kind: str, session_id: str, **data: Any) -> Json:
    version = 2 if kind == "session.deleted" else 1
    durable = {"aggregateID": session_id, "seq": 1, "version": version}
    return {
        "id": "evt_1", "created": T0, "type": kind, "durable": durable,
        "data": {"sessionID": session_id, **data},
    }  # fmt: skip


class Gate:
    """Holds requests: `arrived` is set once one waits, which it does until `open()`."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def wait(self) -> None:
        self.arrived.set()
        if not self._opened.wait(WAIT_S):
            raise TimeoutError("the test never opened the gate")


@dataclass
class Fault:
    """What happens to the requests whose path matches; times: how often, -1 for ever."""

    pattern: re.Pattern[str]
    act: Callable[[Handler], bool]
    times: int = -1


@dataclass
class Held:
    """One session and its messages; undecodable: ids that the service fails at."""

    item: Json
    messages: list[Json] = field(default_factory=list)
    undecodable: set[str] = field(default_factory=set)


class OpenCodeServer:
    """What the service holds and how it misbehaves. requests: every target asked for."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.projects: list[Json] = []
        self.page_size = 200
        self.password: str | None = PASSWORD
        self.version, self.pid = VERSION, PID
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.lock = threading.Lock()
        self.streams: list[queue.Queue[bytes | None]] = []
        self.stream_opened = threading.Condition(self.lock)
        self.url = ""

    def put(self, item: Json, *messages: Json) -> None:
        with self.lock:
            undecodable = self.held[item["id"]].undecodable if item["id"] in self.held else set()
            self.held[item["id"]] = Held(item, list(messages), undecodable)

    def delete(self, session_id: str, *, tell: bool = True) -> None:
        with self.lock:
            del self.held[session_id]
        if tell:
            self.emit(event("session.deleted", session_id))

    def changed(self, session_id: str) -> None:
        self.emit(event("session.renamed", session_id, title="New"))

    def emit(self, *events: Json) -> None:
        """Send events to everyone who listens, each checked against the model."""
        for one in events:
            _checked(types.Event, one, "an event")
        self.send(*(f"data: {json.dumps(one)}\n\n".encode() for one in events))

    def send(self, *chunks: bytes | None) -> None:
        """Send raw bytes of the event stream as they are; None ends the streams."""
        with self.lock:
            for stream in self.streams:
                for chunk in chunks:
                    stream.put(chunk)

    def wait_for_listener(self, count: int = 1) -> None:
        with self.stream_opened:
            if not self.stream_opened.wait_for(lambda: len(self.streams) >= count, WAIT_S):
                raise TimeoutError("nobody listens to the events")

    # Misbehaviour

    def on(self, pattern: str, act: Callable[[Handler], bool], times: int = 1) -> None:
        """Call act for the next requests that match; where it returns True it has answered."""
        self.faults.append(Fault(re.compile(pattern), act, times))

    def hold(self, pattern: str, times: int = 1) -> Gate:
        gate = Gate()

        def act(_handler: Handler) -> bool:
            gate.wait()
            return False

        self.on(pattern, act, times)
        return gate

    def answer(self, pattern: str, status: int, body: bytes | Json, times: int = -1) -> None:
        """Answer with a status and a body: JSON, or bytes as an HTML page."""

        def act(handler: Handler) -> bool:
            if isinstance(body, bytes):
                handler.reply(status, body, "text/html")
            else:
                handler.reply(status, json.dumps(body).encode())
            return True

        self.on(pattern, act, times)

    def cut(self, pattern: str, times: int = -1) -> None:
        """Promise more bytes than are sent, and close the connection."""

        def act(handler: Handler) -> bool:
            handler.send_response(200)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"data": [')
            handler.close_connection = True
            return True

        self.on(pattern, act, times)

    def fault(self, target: str, handler: Handler) -> bool:
        """Let the first matching fault act; True where it answered."""
        with self.lock:
            found = next((f for f in self.faults if f.times and f.pattern.search(target)), None)
            if found is not None and found.times > 0:
                found.times -= 1
        return found is not None and found.act(handler)


class Refusal(Exception):
    def __init__(self, status: int, tag: str, message: str, **more: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"_tag": tag, "message": message, **more}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: OpenCodeServer

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self.service.requests.append(self.path)
        parts = urlsplit(self.path)
        try:
            self._require_password()
            if self.service.fault(self.path, self):
                return
            names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
            if len(names) != len(set(names)):
                raise Refusal(400, "InvalidRequestError", "a parameter twice")
            self._route(parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)))
        except Refusal as refusal:
            _checked(getattr(types, refusal.body["_tag"] + "Body"), refusal.body, "a refusal")
            self.reply(refusal.status, json.dumps(refusal.body).encode())
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _require_password(self) -> None:
        if self.service.password is None:
            return
        expected = base64.b64encode(f"opencode:{self.service.password}".encode()).decode()
        if self.headers.get("authorization") != f"Basic {expected}":
            raise Refusal(401, "UnauthorizedError", "Unauthorized")

    def _route(self, path: str, query: dict[str, str]) -> None:
        service = self.service
        if path == "/api/info":
            info = {"version": service.version, "pid": service.pid, "urls": [service.url]}
            self._json(types.ServerInfo, info | {"paths": {"tmp": "/tmp"}}, query)
        elif path == "/api/project":
            self._json(list[types.Project], service.projects, query)
        elif path == "/api/event":
            self._stream()
        elif path == "/api/session":
            self._sessions(query)
        elif match := re.fullmatch(r"/api/session/([^/]+)", path):
            self._json(dict[str, types.SessionInfo], {"data": self._held(match[1]).item}, query)
        elif match := re.fullmatch(r"/api/session/([^/]+)/message", path):
            self._messages(self._held(match[1]), query)
        elif match := re.fullmatch(r"/api/session/([^/]+)/message/([^/]+)", path):
            self._message(self._held(match[1]), unquote(match[2]), query)
        else:
            self.reply(404, b"Not Found", "text/plain")

    def _held(self, segment: str) -> Held:
        session_id = unquote(segment)
        if not session_id.startswith("ses_"):
            raise Refusal(400, "InvalidRequestError", "Invalid session ID", field="sessionID")
        with self.service.lock:
            held = self.service.held.get(session_id)
        if held is None:
            raise Refusal(
                404, "SessionNotFoundError", f"Session not found: {session_id}",
                sessionID=session_id,
            )  # fmt: skip
        return held

    def _sessions(self, query: dict[str, str]) -> None:
        _allow(query, "limit", "order", "cursor")
        with self.service.lock:
            items = [held.item for held in self.service.held.values()]
        items.sort(key=lambda item: (item["time"]["created"], item["id"]))
        self._page(types.SessionsResponse, items, query, 1000, set())

    def _messages(self, held: Held, query: dict[str, str]) -> None:
        _allow(query, "limit", "order", "cursor", "type")
        items = [m for m in held.messages if query.get("type") in (None, m["type"])]
        self._page(types.SessionMessagesResponse, items, query, 200, held.undecodable)

    def _message(self, held: Held, message_id: str, query: dict[str, str]) -> None:
        found = [m for m in held.messages if m["id"] == message_id]
        if not found:
            raise Refusal(
                404, "MessageNotFoundError", f"Message not found: {message_id}",
                sessionID=held.item["id"], messageID=message_id,
            )  # fmt: skip
        if message_id in held.undecodable:
            raise Refusal(500, "UnknownError", "Unexpected server error")
        self._json(dict[str, types.SessionMessageInfo], {"data": found[0]}, query)

    def _page(
        self, model: Any, items: list[Json], query: dict[str, str], most: int, bad: set[str]
    ) -> None:
        limit = query.get("limit", "50")
        if not limit.isdecimal() or not 1 <= int(limit) <= most:
            raise Refusal(400, "InvalidRequestError", "Invalid limit", field="limit")
        order, last = query.get("order", "desc"), None
        if "cursor" in query:
            if "order" in query:
                raise Refusal(400, "InvalidRequestError", "cursor and order do not go together")
            order, last = _read_cursor(query["cursor"])
        if order not in ("asc", "desc"):
            raise Refusal(400, "InvalidRequestError", "Invalid order", field="order")
        ordered = items if order == "asc" else items[::-1]
        start = 0
        if last is not None:
            ids = [item["id"] for item in ordered]
            if last not in ids:
                raise Refusal(400, "InvalidCursorError", "Invalid cursor")
            start = ids.index(last) + 1
        page = ordered[start : start + min(int(limit), self.service.page_size)]
        if any(item["id"] in bad for item in page):
            raise Refusal(500, "UnknownError", "Unexpected server error")
        cursor: Json = {"previous": None, "next": None}
        if page:
            cursor = {
                "previous": _cursor(order, page[0]["id"]),
                "next": _cursor(order, page[-1]["id"]),
            }
        self._json(model, {"data": page, "cursor": cursor}, {})

    def _json(self, model: Any, data: Any, query: dict[str, str]) -> None:
        _allow(query)
        _checked(model, data, self.path)
        self.reply(200, json.dumps(data).encode())

    def _stream(self) -> None:
        stream: queue.Queue[bytes | None] = queue.Queue()
        connected = {"id": "evt_0", "type": "server.connected", "data": {}}
        _checked(types.ServerConnectedEvent, connected, "the first event")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        with self.service.stream_opened:
            self.service.streams.append(stream)
        try:
            self.wfile.write(f"data: {json.dumps(connected)}\n\n: heartbeat\n\n".encode())
            with self.service.stream_opened:
                self.service.stream_opened.notify_all()
            while (chunk := stream.get()) is not None:
                self.wfile.write(chunk)
                self.wfile.flush()
        finally:
            with self.service.lock:
                self.service.streams.remove(stream)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A request that is still held when its test ends must not keep the test waiting.
    block_on_close = False


@contextmanager
def opencode_server() -> Iterator[OpenCodeServer]:
    service = OpenCodeServer()
    handler = type("BoundHandler", (Handler,), {"service": service})
    server = _Server(("127.0.0.1", 0), handler)
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        service.send(None)
        server.shutdown()
        thread.join()
        server.server_close()


def _allow(query: dict[str, str], *names: str) -> None:
    for name in query:
        if name not in names:
            raise Refusal(400, "InvalidRequestError", f"Unknown parameter {name}", field=name)


def _cursor(order: str, last: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([order, last]).encode()).decode().rstrip("=")


def _read_cursor(text: str) -> tuple[str, str]:
    try:
        order, last = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError) as error:
        raise Refusal(400, "InvalidCursorError", "Invalid cursor") from error
    return order, last


def _checked(model: Any, data: Any, what: str) -> None:
    """Raise where an answer of this server is none that OpenCode could give."""
    # The models are built when they are first used, which only one thread may do.
    with _CHECKING:
        found = pydantic.TypeAdapter(model).validate_python(data)
    for value in _models(found):
        name = type(value).__name__
        if name.startswith("Unknown") and name != "UnknownErrorBody":
            raise AssertionError(f"{what}: {value!r} is of no known kind")
        if value.model_extra:
            raise AssertionError(f"{what}: {name} has no {sorted(value.model_extra)}")


def _models(value: Any) -> Iterator[pydantic.BaseModel]:
    if isinstance(value, pydantic.BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from _models(getattr(value, name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _models(item)
    elif isinstance(value, list):
        for item in value:
            yield from _models(item)
