"""What the plugin adds to Datasette; the work is elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from datasette import hookimpl

from datasette_history.config import check
from datasette_history.database import is_index
from datasette_history.local_days import add_functions
from datasette_history.openapi import openapi_json
from datasette_history.pages import around, cells
from datasette_history.pages.routes import ROUTES
from datasette_history.queries import for_hook, register_all
from datasette_history.views import run_tool, status, tools_json
from datasette_history.web import TOOL_PATH, needs_no_csrf_token

if TYPE_CHECKING:
    from datasette.app import Datasette


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def register_routes() -> list[tuple[str, Callable[..., Any]]]:
    return [
        (f"^{TOOL_PATH.pattern}", run_tool),
        (r"^/-/history/tools\.json$", tools_json),
        (r"^/-/history/status\.json$", status),
        (r"^/-/history/openapi\.json$", openapi_json),
        *ROUTES,
    ]


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def startup(datasette: Datasette) -> Callable[[], Awaitable[None]]:
    check(datasette)
    return partial(register_all, datasette)


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def canned_queries(datasette: Datasette, database: str) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def queries() -> dict[str, Any]:
        return for_hook() if await is_index(datasette, database) else {}

    return queries


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def prepare_connection(conn: sqlite3.Connection) -> None:
    add_functions(conn)


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def render_cell(
    row: Any, value: Any, column: str, table: str | None, database: str, datasette: Datasette
) -> Any:
    return cells.render(datasette, database, table, row, column, value)


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def menu_links(datasette: Datasette, actor: dict[str, Any] | None) -> Any:
    return partial(around.menu, datasette, actor)


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def extra_template_vars(datasette: Datasette) -> dict[str, bool]:
    return around.template_variables(datasette)


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def extra_css_urls(datasette: Datasette, database: str | None) -> list[str]:
    return around.styles(datasette, database)


@hookimpl  # type: ignore[untyped-decorator]  # Datasette has no types
def skip_csrf(scope: dict[str, Any]) -> bool:
    return needs_no_csrf_token(scope)


@hookimpl(optionalhook=True)  # type: ignore[untyped-decorator]  # Datasette has no types
def register_mcp_tools(datasette: Datasette, mcp: Any) -> None:
    # datasette-mcp calls this: only then is its MCP library known to be there.
    from datasette_history.mcp import add_tools  # noqa: PLC0415

    add_tools(datasette, mcp)
