"""``opencode-history mcp``: the tools for a client that starts this command."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from datasette_history.errors import HistoryError
from datasette_history.mcp_tools import (
    INSTRUCTIONS,
    TOOLS_BY_MCP_NAME,
    definition,
    error_result,
    result,
)
from sync.cli.ask import ask, no_url
from sync.cli.options import index_option
from sync.cli.stdio import IsUnwanted, Json, StdioServer
from sync.cli.tool_options import time_limit_option


@click.command()
@index_option
@time_limit_option
def mcp(index_path: Path, time_limit_ms: int) -> None:
    """Serve the tools to an MCP client on standard input and output

    For clients that start a command, such as OpenCode and Claude Code. The working directory
    says which project is searched by default. A sync may run meanwhile, or come later.

    Example:

    \b
        claude mcp add opencode-history -- opencode-history mcp
    """

    def call(name: str, arguments: Mapping[str, Any], is_unwanted: IsUnwanted) -> Json:
        try:
            answer = ask(
                index_path,
                TOOLS_BY_MCP_NAME[name].name,
                arguments,
                as_text=False,
                time_limit_ms=time_limit_ms,
                is_unwanted=is_unwanted,
            )
        except HistoryError as error:
            return error_result(error.messages, error.status)
        except sqlite3.OperationalError:
            if is_unwanted():
                return {}
            raise
        return result(answer, no_url)

    server = StdioServer(
        sys.stdout.buffer,
        info={
            "name": "opencode-history",
            "title": "OpenCode history",
            "version": version("datasette-history"),
        },
        instructions=INSTRUCTIONS,
        tools=[
            definition(name, tool.input_schema(default_session=True))
            for name, tool in TOOLS_BY_MCP_NAME.items()
        ],
        call=call,
    )
    # Whatever prints by mistake must not get between the messages.
    with (
        contextlib.redirect_stdout(sys.stderr),
        contextlib.suppress(BrokenPipeError),  # the client is gone, which is how this ends
    ):
        server.serve(sys.stdin.buffer)
