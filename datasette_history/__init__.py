"""What the plugin adds to Datasette; the work is elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from datasette import hookimpl

from datasette_history.config import check
from datasette_history.database import attached_indexes, is_index
from datasette_history.pages.routes import ROUTES
from datasette_history.queries import for_hook, register
from datasette_history.views import run_tool, search_page, status, tools_json
from datasette_history.web import TOOL_PATH, needs_no_csrf_token

if TYPE_CHECKING:
    from datasette.app import Datasette


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def register_routes() -> list[tuple[str, Callable[..., Any]]]:
    return [
        (r"^/-/history$", search_page),
        (f"^{TOOL_PATH.pattern}", run_tool),
        (r"^/-/history/tools\.json$", tools_json),
        (r"^/-/history/status\.json$", status),
        *ROUTES,
    ]


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def startup(datasette: Datasette) -> Callable[[], Awaitable[None]]:
    check(datasette)

    async def register_queries() -> None:
        for name in await attached_indexes(datasette):
            await register(datasette, name)

    return register_queries


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def canned_queries(datasette: Datasette, database: str) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def queries() -> dict[str, Any]:
        return for_hook() if await is_index(datasette, database) else {}

    return queries


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def skip_csrf(scope: dict[str, Any]) -> bool:
    return needs_no_csrf_token(scope)
