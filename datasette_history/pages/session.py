"""The routes of a session: its page, more of its messages, a search in it, its exports."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import TYPE_CHECKING, Any, Final

from datasette import Response

from datasette_history.errors import InvalidInput
from datasette_history.pages.blocks import Shown, show
from datasette_history.pages.conversation import (
    Window,
    part_text,
    window_around,
    window_before,
    window_from,
)
from datasette_history.pages.export import export_json, export_markdown
from datasette_history.pages.find import find_in_session
from datasette_history.pages.overview import load_children, load_overview
from datasette_history.pages.site import PAGE_HEADERS, Site, argument, path_variable, with_site
from datasette_history.read import find_session
from datasette_history.web import HEADERS

if TYPE_CHECKING:
    from datasette.utils.asgi import Request

_POSITION: Final = re.compile(r"\d{1,9}", re.ASCII)
_UNSAFE_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")

_WRITTEN = "SELECT fetched_at FROM sessions WHERE id = ?"


@with_site
async def session_page(site: Site) -> Response:
    """Answer ``/-/history/session/ID``: the page, or ``.md`` and ``.json`` for an export."""
    session_id = path_variable(site.request, "session_id")
    kind = site.request.url_vars.get("format")
    if kind:
        return await _export(site, session_id, kind)
    text = argument(site.request, "find")

    def question(conn: sqlite3.Connection) -> dict[str, Any]:
        overview = load_overview(conn, session_id)
        window = _wanted(conn, site.request, session_id)
        found, more = find_in_session(conn, session_id, overview.session.num, text)
        return {
            "overview": overview,
            "window": window,
            "messages": show(window, overview.children),
            "written": _written(conn, session_id),
            "find": text,
            "found": found,
            "found_more": more,
        }

    values = await site.ask(question)
    return await site.page("history_session.html", {**values, "session_id": session_id})


@with_site
async def messages(site: Site) -> Response:
    """Answer ``.../session/ID/messages``: a window of messages, as a piece of the page."""
    session_id = path_variable(site.request, "session_id")

    def question(conn: sqlite3.Connection) -> tuple[Window, list[Shown], int]:
        find_session(conn, session_id)
        window = _wanted(conn, site.request, session_id)
        return window, show(window, load_children(conn, session_id)), _written(conn, session_id)

    window, shown, written = await site.ask(question)
    values = {"window": window, "messages": shown, "session_id": session_id, "written": written}
    return await site.page("history_messages.html", values)


@with_site
async def found(site: Site) -> Response:
    """Answer ``.../session/ID/find``: the messages that hold a text, as a piece of the page."""
    session_id = path_variable(site.request, "session_id")
    text = argument(site.request, "find")

    def question(conn: sqlite3.Connection) -> dict[str, Any]:
        session = find_session(conn, session_id)
        hits, more = find_in_session(conn, session_id, session.num, text)
        return {"found": hits, "found_more": more}

    values = await site.ask(question)
    return await site.page("history_found.html", {**values, "find": text, "session_id": session_id})


@with_site
async def whole_text(site: Site) -> Response:
    """Answer ``.../session/ID/text/MESSAGE/PART``: a piece that the page shows in part."""
    session_id = path_variable(site.request, "session_id")
    message_id = path_variable(site.request, "message_id")
    part = int(site.request.url_vars["part"])
    text = await site.ask(lambda conn: part_text(conn, session_id, message_id, part))
    return _plain(text, "text/plain")


async def _export(site: Site, session_id: str, kind: str) -> Response:
    message_id = argument(site.request, "message") or None
    if kind == "json":
        body = await site.ask(
            lambda conn: export_json(conn, session_id, message_id, site.index.url_for)
        )
        response = _plain(json.dumps(body, ensure_ascii=False), "application/json")
    else:
        text = await site.ask(lambda conn: export_markdown(conn, session_id, message_id))
        response = _plain(text, "text/markdown")
    if message_id is None:
        name = _UNSAFE_IN_NAME.sub("-", session_id)[:80]
        response.headers["content-disposition"] = f'attachment; filename="{name}.{kind}"'
    return response


def _plain(text: str, content_type: str) -> Response:
    headers = {**HEADERS, "content-security-policy": PAGE_HEADERS["content-security-policy"]}
    return Response(text, headers=headers, content_type=f"{content_type}; charset=utf-8")


def _wanted(conn: sqlite3.Connection, request: Request, session_id: str) -> Window:
    """Return the window that the URL names: around a message, or before or from a position."""
    if message_id := argument(request, "at"):
        return window_around(conn, session_id, message_id)
    if before := argument(request, "before"):
        return window_before(conn, session_id, _position(before))
    if start := argument(request, "from"):
        return window_from(conn, session_id, _position(start))
    return window_around(conn, session_id, None)


def _position(text: str) -> int:
    if not _POSITION.fullmatch(text):
        raise InvalidInput(f"{text[:60]!r} is no position in a session; use a whole number")
    return int(text)


def _written(conn: sqlite3.Connection, session_id: str) -> int:
    """Return what changes whenever the session is written anew."""
    return int(conn.execute(_WRITTEN, (session_id,)).fetchone()[0])
