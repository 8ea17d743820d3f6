"""From an HTTP request to the inputs of a tool, and from an answer or error to a response."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from datasette import Forbidden, Response

from datasette_history.config import Config
from datasette_history.database import viewable_index
from datasette_history.errors import HistoryError, InvalidInput
from datasette_history.inputs import storable
from datasette_history.render import error_json
from datasette_history.text import error_text
from datasette_history.tools import Context

if TYPE_CHECKING:
    from datasette.app import Datasette
    from datasette.utils.asgi import Request

TOOL_PATH: Final = re.compile(
    r"/-/history/(?P<tool>search-messages|search-sessions|search-edits|read)"
    r"\.(?P<format>json|txt)$"
)

MAX_BODY: Final = 100_000
"""Bytes of the longest JSON body."""

MAX_FIELDS: Final = 50

FORBIDDEN: Final = "you are not allowed to see this history; log in, or send a token"

HEADERS: Final = {
    "cache-control": "private, no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}

View = Callable[..., Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Call:
    """What a request asks for.

    inputs: of the tool, without ``database``, which chooses the index.
    as_text: inputs come from the URL, as texts.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    database: str | None = None
    as_text: bool = True


@dataclass(frozen=True, slots=True)
class Index:
    """The index that a request may ask. named: the request chose it by name."""

    datasette: Datasette
    request: Request
    config: Config
    database: str
    named: bool

    def url_for(self, session_id: str, message_id: str | None) -> str:
        """Return the absolute address of a session's page, at a message."""
        return str(self.datasette.absolute_url(self.request, self.path_for(session_id, message_id)))

    def path_for(self, session_id: str, message_id: str | None) -> str:
        """Return the same address without scheme and host, for links within a page."""
        path = self.datasette.urls.path(f"/-/history/session/{quote(session_id, safe='')}")
        chosen = f"?{urlencode({'database': self.database})}" if self.named else ""
        at = f"#{quote(message_id, safe='')}" if message_id else ""
        return f"{path}{chosen}{at}"


async def open_index(datasette: Datasette, request: Request, database: str | None) -> Index:
    """Return the index to ask; raise Forbidden where the actor may not see it."""
    config = Config.from_datasette(datasette)
    name = await viewable_index(datasette, request.actor, config, database)
    return Index(datasette, request, config, name, database is not None)


def context() -> Context:
    """Return the context of a call over HTTP: no directory but the one that inputs name."""
    # Naive means the machine's own zone, with its rules; an aware one has a fixed offset.
    return Context(now=datetime.now(), home=str(Path.home()))  # noqa: DTZ005


async def read_call(request: Request) -> Call:
    """Return what a request asks for; raise InvalidInput where it cannot be understood."""
    texts = _query_string(request)
    database = texts.pop("database", None)
    if request.method != "POST":
        return Call(texts, database)
    inputs = await _json_body(request)
    if texts:
        raise InvalidInput(
            f"{next(iter(texts))} is given in the URL; with POST, put inputs into the JSON body"
        )
    return json_call({"database": database, **inputs})


def json_call(inputs: Mapping[str, Any]) -> Call:
    """Return what inputs that came as JSON ask for; ``database`` may be among them."""
    rest = dict(inputs)
    database = rest.pop("database", None)
    if database is not None and not isinstance(database, str):
        raise InvalidInput("database must be a text: the name of an attached index")
    return Call(rest, database, as_text=False)


def answers_errors(view: View) -> View:
    """Let a view of JSON answer errors as JSON, whatever Datasette makes of them."""

    @wraps(view)
    async def wrapped(datasette: Datasette, request: Request) -> Response:
        text = request.url_vars.get("format") == "txt"
        try:
            return await view(datasette, request)
        except HistoryError as error:
            return error_response(error.messages, error.status, text=text)
        except Forbidden:
            return error_response((FORBIDDEN,), 403, text=text)

    return wrapped


def error_response(messages: tuple[str, ...], status: int, *, text: bool) -> Response:
    if text:
        return text_response(error_text(messages), status)
    return json_response(error_json(messages, status), status)


def json_response(body: Mapping[str, Any], status: int = 200) -> Response:
    return Response(
        json.dumps(body, ensure_ascii=False),
        status=status,
        headers=HEADERS,
        content_type="application/json; charset=utf-8",
    )


def text_response(body: str, status: int = 200) -> Response:
    return Response(body, status=status, headers=HEADERS, content_type="text/plain; charset=utf-8")


def needs_no_csrf_token(scope: Mapping[str, Any]) -> bool:
    """Tell whether a POST is a JSON call of a tool.

    Tools change nothing, and no page of another origin can send JSON with someone's cookies
    or read the answer, so there is nothing for a token to guard.
    """
    headers = dict(scope.get("headers") or ())
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    return bool(TOOL_PATH.search(scope["path"])) and _is_json(content_type)


def _is_json(content_type: str) -> bool:
    """Tell whether a Content-Type header names JSON."""
    return content_type.split(";", maxsplit=1)[0].strip().lower() == "application/json"


def _query_string(request: Request) -> dict[str, str]:
    try:
        pairs = parse_qsl(request.query_string, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidInput(f"the URL has more than {MAX_FIELDS} inputs") from error
    texts = {storable(name): storable(value) for name, value in pairs}
    if len(texts) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{twice} is given more than once; give it once")
    return texts


async def _json_body(request: Request) -> dict[str, Any]:
    if not _is_json(request.headers.get("content-type", "")):
        raise InvalidInput("POST takes JSON; send the header Content-Type: application/json")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_BODY:
        raise _too_long()
    body = await _bounded_body(request)
    try:
        inputs = json.loads(body, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the body is not JSON; send an object with the inputs") from error
    if not isinstance(inputs, dict):
        raise InvalidInput("the body must be a JSON object with the inputs")
    return inputs


async def _bounded_body(request: Request) -> bytes:
    """Return the body; one of unknown length is not read further than is allowed."""
    body = b""
    more = True
    while more:
        message = await request.receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            raise _too_long()
    return body


def _too_long() -> InvalidInput:
    return InvalidInput(f"the body has more than the {MAX_BODY} bytes allowed")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{storable(twice)} is given more than once; give it once")
    return values
