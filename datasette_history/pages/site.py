"""What every page has in common: its index, its links, its headers, its errors."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, unquote, urlencode

from datasette import Response

from datasette_history.config import Config
from datasette_history.database import ask
from datasette_history.errors import HistoryError
from datasette_history.inputs import storable
from datasette_history.pages import shown
from datasette_history.pages.marks import mark
from datasette_history.render import iso, resume_command
from datasette_history.tools import require_current, snapshot
from datasette_history.web import HEADERS, Index, open_index

if TYPE_CHECKING:
    from datasette.app import Datasette
    from datasette.utils.asgi import Request

T = TypeVar("T")
View = Callable[..., Awaitable[Response]]

PAGE_HEADERS: Final = {
    **HEADERS,
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
}

STATIC: Final = "datasette_history"


@dataclass(frozen=True, slots=True)
class Site:
    """The pages over one index: where they are and how they are rendered."""

    index: Index

    @property
    def datasette(self) -> Datasette:
        return self.index.datasette

    @property
    def request(self) -> Request:
        return self.index.request

    def url(self, path: str, /, **query: str | int | None) -> str:
        """Return the address of a path below ``/-/history``, under base_url."""
        chosen = {"database": self.index.database} if self.index.named else {}
        given = {key: value for key, value in query.items() if value is not None}
        text = urlencode({**given, **chosen})
        root = str(self.datasette.urls.path(f"/-/history{path}"))
        return f"{root}?{text}" if text else root

    def session(self, session_id: str, message_id: str | None = None) -> str:
        """Return the address of a session's page, at a message, with or without scripts."""
        at = f"#{quote(message_id, safe='')}" if message_id else ""
        return self.below(session_id, at=message_id) + at

    def below(self, session_id: str, path: str = "", /, **query: str | int | None) -> str:
        """Return an address that begins with the session's; path as it follows it."""
        return self.url(f"/session/{quote(session_id, safe='')}{path}", **query)

    def file(self, path: str) -> str:
        return self.url("/file", path=path)

    def project(self, project_id: str) -> str:
        return self.url(f"/project/{quote(project_id, safe='')}")

    def static(self, name: str) -> str:
        """Return the address of one of the plugin's files, another one once it changes."""
        path = self.datasette.urls.static_plugins(STATIC, name)
        return f"{path}?{_digest(name)}"

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Return what question finds in one snapshot of the index, within the time limit."""

        def in_snapshot(conn: sqlite3.Connection) -> T:
            with snapshot(conn):
                require_current(conn)
                return question(conn)

        limit_ms = self.index.config.time_limit_ms
        return await ask(self.datasette, self.index.database, limit_ms, in_snapshot)

    async def page(
        self, template: str, values: Mapping[str, Any], status: int = 200, **headers: str
    ) -> Response:
        """Return a page or a piece of one, rendered from a template."""
        context = {
            **values,
            "site": self,
            "shown": shown,
            "mark": mark,
            "iso": iso,
            "resume_command": resume_command,
            "sample": self.index.config.sample,
        }
        body = await self.datasette.render_template(template, context, request=self.request)
        return Response.html(body, status=status, headers={**PAGE_HEADERS, **headers})


def with_site(view: Callable[[Site], Awaitable[Response]]) -> View:
    """Make a route of a view: permission first, and errors as pages that say what to do."""

    # Not functools.wraps: Datasette would take the view's own parameters for the route's.
    async def route(datasette: Datasette, request: Request) -> Response:
        try:
            index = await open_index(datasette, request, request.args.get("database"))
        except HistoryError as error:
            # Without an index there is nothing to guard and nothing to show.
            config = Config.from_datasette(datasette)
            index = Index(datasette, request, config, "", named=False)
            return await _error_page(Site(index), error)
        site = Site(index)
        try:
            return await view(site)
        except HistoryError as error:
            return await _error_page(site, error)

    return route


def argument(request: Request, name: str) -> str:
    """Return an argument of the URL as the index would hold it, "" where it is missing."""
    return storable(request.args.get(name) or "")


def path_variable(request: Request, name: str) -> str:
    """Return a piece of the address, decoded; the router leaves it as it was sent."""
    return storable(unquote(request.url_vars[name]))


async def _error_page(site: Site, error: HistoryError) -> Response:
    return await site.page("history_error.html", {"problems": error.messages}, error.status)


@cache
def _digest(name: str) -> str:
    content = files("datasette_history").joinpath("static", name).read_bytes()
    return hashlib.sha256(content).hexdigest()[:12]
