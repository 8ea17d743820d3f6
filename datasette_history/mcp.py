"""The four tools over MCP at ``/-/mcp``, which datasette-mcp serves.

Only imported where datasette-mcp, and with it the MCP library, is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datasette import Forbidden
from datasette.utils.asgi import Request
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, ToolAnnotations

from datasette_history.errors import HistoryError
from datasette_history.mcp_tools import TOOLS_BY_MCP_NAME, definition, error_result, result
from datasette_history.render import Json
from datasette_history.views import answer_call, with_database
from datasette_history.web import FORBIDDEN, json_call, open_index

if TYPE_CHECKING:
    from datasette.app import Datasette


def add_tools(datasette: Datasette, server: MCPServer[Any]) -> None:
    """Register the tools on a server."""
    for name, tool in TOOLS_BY_MCP_NAME.items():
        _add(datasette, server, definition(name, with_database(tool.input_schema())))


def _add(datasette: Datasette, server: MCPServer[Any], known: Json) -> None:
    name = known["name"]

    async def run(ctx: Context) -> CallToolResult:
        return CallToolResult.model_validate(await _call(datasette, name, ctx))

    server.add_tool(
        run,
        name=name,
        title=known["title"],
        description=known["description"],
        annotations=ToolAnnotations.model_validate(known["annotations"]),
    )
    # The library makes schemas of signatures only, and would check inputs by its own rules
    # and in its own words. Ours is shown instead, and _call gets the inputs as they came.
    registered = server._tool_manager.get_tool(name)
    if registered is None:
        raise RuntimeError(f"the MCP server did not keep the tool {name}")
    registered.parameters = known["inputSchema"]


async def _call(datasette: Datasette, name: str, ctx: Context[Any, Any]) -> Json:
    """Run a tool as the actor of the HTTP request that brought the call."""
    asked: Any = ctx.request_context
    request = Request(asked.request.scope, None)
    try:
        wanted = json_call((asked.params or {}).get("arguments") or {})
        index = await open_index(datasette, request, wanted.database)
        answer = await answer_call(index, TOOLS_BY_MCP_NAME[name].name, wanted)
    except HistoryError as error:
        return error_result(error.messages, error.status)
    except Forbidden:
        return error_result((FORBIDDEN,), 403)
    return result(answer, index.url_for)
