"""The tools over MCP at ``/-/mcp``, on a real server, with the library's own client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from datasette.app import Datasette
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from datasette_history.tools import TOOLS
from datasette_history.web import FORBIDDEN
from tests.builders import copy, fill, session, user
from tests.history import build
from tests.servers import running

TOKEN = "secret-of-the-test"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A private Datasette with two indexes, of which the agent may see the first only."""
    folder = tmp_path_factory.mktemp("mcp")
    build(folder / "history.db")
    fill(folder / "other.db", copy(session("ses_other", "Secret"), user("msg_o", "Hidden login")))
    datasette = Datasette(
        [str(folder / "history.db"), str(folder / "other.db")],
        metadata={
            "databases": {"history": {"allow": {"id": "agent"}}, "other": {"allow": False}},
            "plugins": {
                "datasette-auth-tokens": {"tokens": [{"token": TOKEN, "actor": {"id": "agent"}}]}
            },
        },
    )
    asyncio.run(datasette.invoke_startup())
    with running(datasette.app()) as address:
        yield address


@asynccontextmanager
async def connected(
    address: str, *, token: str | None = TOKEN, mode: str = "auto"
) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{address}/-/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def error_of(client: Client, tool: str, **inputs: Any) -> dict[str, Any]:
    result = await client.call_tool(f"history-{tool}", inputs)
    assert result.is_error
    assert result.structured_content is not None
    [content] = result.content
    assert content.type == "text"
    assert content.text == "".join(
        f"Error: {message}\n" for message in result.structured_content["errors"]
    )
    return result.structured_content


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tools_are_listed_as_tools_json_has_them(address: str, mode: str) -> None:
    url = f"{address}/-/history/tools.json"
    headers = {"authorization": f"Bearer {TOKEN}"}
    described = (await asyncio.to_thread(httpx.get, url, headers=headers)).json()["tools"]
    async with connected(address, mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert [tool["name"] for tool in described] == list(TOOLS)
    for tool in described:
        told = listed[f"history-{tool['name']}"]
        assert told.input_schema == tool["inputSchema"]
        assert told.description == tool["description"]
        assert told.annotations is not None
        assert told.annotations.read_only_hint is True
        assert told.annotations.open_world_hint is False
    assert "execute_sql" in listed


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_is_answered_with_text_and_structure(address: str, mode: str) -> None:
    async with connected(address, mode=mode) as client:
        inputs = {"query": '"five seconds"', "timezone": "UTC"}
        result = await client.call_tool("history-search-messages", inputs)
    assert not result.is_error
    [content] = result.content
    assert content.type == "text"
    assert content.text == (
        "1 session, newest first\n\n"
        "ses_login 2026-12-01 01:10 'Fix the login timeout' /home/dev/app\n"
        "  'five seconds' in msg_l1 user, 2026-12-01 01:00: "
        "The login times out after five seconds, see session.ts\n\n"
        "Next: read sessionID=ses_login messageID=msg_l1\n"
    )
    page = f"{address}/-/history/session/ses_login"
    assert result.structured_content == {
        "ok": True,
        "sessions": [
            {
                "sessionID": "ses_login",
                "title": "Fix the login timeout",
                "projectID": "prj",
                "directory": "/home/dev/app",
                "updated": 1796087400000,
                "updatedISO": "2026-12-01T01:10:00.000Z",
                "url": page,
                "resume": "cd /home/dev/app && opencode -s ses_login",
                "hits": [
                    {
                        "word": "five seconds",
                        "messageID": "msg_l1",
                        "role": "user",
                        "timestamp": 1796086800000,
                        "timestampISO": "2026-12-01T01:00:00.000Z",
                        "excerpt": "The login times out after five seconds, see session.ts",
                        "url": f"{page}#msg_l1",
                    }
                ],
            }
        ],
        "hasMore": False,
        "scope": {"all": True},
    }


@pytest.mark.asyncio
@pytest.mark.parametrize("token", [None, "wrong"])
async def test_without_a_good_token_every_tool_refuses(address: str, token: str | None) -> None:
    inputs = {"search-messages": {"query": "login"}, "read": {"sessionID": "ses_login"}}
    async with connected(address, token=token) as client:
        for tool in TOOLS:
            body = await error_of(client, tool, **inputs.get(tool, {}))
            assert body == {"ok": False, "error": FORBIDDEN, "errors": [FORBIDDEN], "status": 403}


@pytest.mark.asyncio
async def test_each_index_has_its_own_permission(address: str) -> None:
    async with connected(address) as client:
        assert (await error_of(client, "search-sessions", database="other"))["status"] == 403
        assert (await error_of(client, "search-sessions", database="none"))["status"] == 404
        assert (await error_of(client, "search-sessions", database=5))["error"] == (
            "database must be a text: the name of an attached index"
        )
        result = await client.call_tool("history-search-sessions", {"database": "history"})
    assert result.structured_content is not None
    ids = [found["sessionID"] for found in result.structured_content["sessions"]]
    assert ids[:3] == ["ses_site", "ses_login", "ses_child"]
    assert "ses_other" not in ids


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("tool", "inputs", "message"),
    [
        ("search-messages", {}, "query is required by search-messages"),
        ("search-messages", {"query": "lo"}, "'lo' is shorter than 3 characters"),
        ("search-messages", {"query": ["login"]}, 'query must be a text, not ["login"]'),
        ("search-sessions", {"query": None}, "query must be a text, not null"),
        ("search-sessions", {"limit": "5"}, "limit must be a whole number, not '5'"),
        ("search-sessions", {"limt": 5}, "unknown input 'limt'; did you mean limit?"),
        ("read", {}, "sessionID is required by read"),
        ("read", {"sessionID": "ses_login", "before": 99}, "before must be from 0 to 50, not 99"),
    ],
)
async def test_bad_input_is_an_error_of_the_tool_in_the_tools_own_words(
    address: str, tool: str, inputs: dict[str, Any], message: str
) -> None:
    async with connected(address) as client:
        body = await error_of(client, tool, **inputs)
    assert body["error"].startswith(message)
    assert body["status"] == 400


@pytest.mark.asyncio
async def test_a_query_that_looks_like_json_is_searched_for_as_it_is(address: str) -> None:
    async with connected(address) as client:
        for query in ("null", "true", '["a","b"]', '{"a":1}'):
            result = await client.call_tool("history-search-messages", {"query": query})
            assert not result.is_error, query


def test_the_plugin_works_without_the_mcp_library() -> None:
    code = (
        "import sys; sys.modules['mcp'] = None; import datasette_history; "
        "assert 'datasette_history.mcp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
