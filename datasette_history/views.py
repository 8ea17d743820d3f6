"""The routes: permission, inputs, question, answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from datasette import Response

from datasette_history.database import ask
from datasette_history.errors import InvalidInput
from datasette_history.machines import ask_everywhere, is_everywhere, merged_json, merged_text
from datasette_history.render import as_json, status_json
from datasette_history.results import Answer
from datasette_history.status import read_status
from datasette_history.text import as_text
from datasette_history.tools import TOOLS, call, require_current, snapshot
from datasette_history.web import (
    Call,
    Index,
    answers_errors,
    context,
    error_response,
    json_response,
    open_index,
    read_call,
    text_response,
)

if TYPE_CHECKING:
    import sqlite3

    from datasette.app import Datasette
    from datasette.utils.asgi import Request

DATABASE_SCHEMA: Final = {
    "type": "string",
    "description": "Name of the attached index to ask, where there are several.",
}


@answers_errors
async def run_tool(datasette: Datasette, request: Request) -> Response:
    """Answer ``/-/history/TOOL.json`` and ``.txt``, GET or POST; nothing is ever changed."""
    if request.method not in ("GET", "HEAD", "POST"):
        return error_response(("use GET or POST",), 405, text=False)
    tool, is_text = request.url_vars["tool"], request.url_vars["format"] == "txt"
    wanted = await asked(datasette, request)
    if is_everywhere(datasette, wanted):
        found = await ask_everywhere(datasette, request, tool, wanted, answer_call)
        if is_text:
            return text_response(merged_text(found))
        return json_response(merged_json(tool, wanted, found))
    index = await open_index(datasette, request, wanted.database)
    answer = await answer_call(index, tool, wanted)
    if is_text:
        return text_response(as_text(answer))
    return json_response(as_json(answer, index.url_for))


@answers_errors
async def tools_json(datasette: Datasette, request: Request) -> Response:
    """Answer ``/-/history/tools.json``: the tools with JSON Schemas of their inputs."""
    await opened(datasette, request)
    tools = [
        {
            "name": tool.name,
            "summary": tool.summary,
            "description": tool.description,
            "url": datasette.absolute_url(
                request, datasette.urls.path(f"/-/history/{tool.name}.json")
            ),
            "inputSchema": with_database(tool.input_schema()),
        }
        for tool in TOOLS.values()
    ]
    return json_response({"ok": True, "tools": tools})


@answers_errors
async def status(datasette: Datasette, request: Request) -> Response:
    """Answer ``/-/history/status.json``."""
    index, _ = await opened(datasette, request)
    now_ms = round(context().now.timestamp() * 1000)

    def question(conn: sqlite3.Connection) -> Any:
        with snapshot(conn):
            require_current(conn)
            return read_status(conn, now_ms=now_ms)

    found = await ask(datasette, index.database, index.config.time_limit_ms, question)
    return json_response({"database": index.database, **status_json(found)})


async def opened(datasette: Datasette, request: Request) -> tuple[Index, Call]:
    """Return the index, which the actor may see, and the inputs."""
    wanted = await asked(datasette, request)
    return await open_index(datasette, request, wanted.database), wanted


async def asked(datasette: Datasette, request: Request) -> Call:
    """Return the inputs.

    Of a request that makes no sense, someone without permission learns nothing but that.
    """
    try:
        return await read_call(request)
    except InvalidInput:
        await open_index(datasette, request, None)
        raise


async def answer_call(index: Index, tool: str, wanted: Call) -> Answer:
    """Run a tool on the index, off the event loop and within the time limit."""

    def question(conn: sqlite3.Connection) -> Answer:
        return call(conn, tool, wanted.inputs, context(), as_text=wanted.as_text)

    return await ask(index.datasette, index.database, index.config.time_limit_ms, question)


def with_database(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's input schema with the input that only Datasette has."""
    return {**schema, "properties": {**schema["properties"], "database": DATABASE_SCHEMA}}
