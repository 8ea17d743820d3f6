"""JSON, text, MCP over HTTP, MCP over stdio and the command line give the same answers.

The only difference is ``url``: without a server there is no page to link to.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from click.testing import CliRunner
from datasette.app import Datasette
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from datasette_history.tools import TOOLS
from sync.cli import cli
from sync.cli.tool_options import HUMP
from tests.history import APP, build
from tests.servers import running

COMMANDS = {
    "search-messages": "search",
    "search-sessions": "sessions",
    "search-edits": "edits",
    "read": "read",
}
ARGUMENTS = {tool: "sessionID" if tool == "read" else "query" for tool in COMMANDS}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "word": ("search-messages", {"query": "login"}),
    "two words, one excluded": ("search-messages", {"query": 'timeout "five seconds" -dark'}),
    "excluded first": ("search-messages", {"query": "-dark login"}),
    "role and date": (
        "search-messages",
        {"query": "login", "role": "user", "date": "2026-12-01", "timezone": "Asia/Tokyo"},
    ),
    "project": ("search-messages", {"query": "login", "project": "prj_site"}),
    "directory": ("search-messages", {"query": "login", "directory": f"{APP}/src"}),
    "unknown project": ("search-messages", {"query": "login", "project": "prj_none"}),
    "nothing found": ("search-messages", {"query": "elephants"}),
    "unicode": ("search-messages", {"query": "GRÜßE, 好的!"}),
    "tool output": ("search-messages", {"query": '"setTimeout(5000)"'}),
    "folded": ("search-messages", {"query": "login", "foldSubagents": True}),
    "capped": ("search-messages", {"query": "dependencies", "limit": 1000}),
    "recent sessions": ("search-sessions", {}),
    "sessions of a path": ("search-sessions", {"query": "path:src/session.ts", "limit": 1}),
    "projects": ("search-sessions", {"show": "projects"}),
    "edits": ("search-edits", {}),
    "edits of a month": ("search-edits", {"query": "login", "date": "2026-12", "timezone": "UTC"}),
    "first page": ("read", {"sessionID": "ses_login", "limit": 2}),
    "next page": ("read", {"sessionID": "ses_login", "cursor": "msg_l2", "limit": 2}),
    "around": ("read", {"sessionID": "ses_login", "messageID": "msg_l3", "before": 1, "after": 0}),
    "tool results": ("read", {"sessionID": "ses_login", "includeToolResults": True}),
    "cut": ("read", {"sessionID": "ses_theme", "maxCharsPerMessage": 100, "role": "assistant"}),
    "short word": ("search-messages", {"query": "lo"}),
    "two errors": ("search-messages", {"query": "login", "role": "robot", "limit": 0}),
    "bad date": ("search-edits", {"date": "someday"}),
    "no query": ("search-messages", {}),
    "unknown session": ("read", {"sessionID": "ses_none"}),
    "unknown message": ("read", {"sessionID": "ses_login", "messageID": "msg_none"}),
    "contradiction": ("read", {"sessionID": "ses_login", "messageID": "msg_l1", "limit": 3}),
}
WAYS = ("json", "post", "mcp over http", "mcp over stdio", "command line")


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as JSON and as text, and whether it is an error."""

    answer: dict[str, Any]
    text: str
    is_error: bool


Answers = dict[str, dict[str, Given]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of no project, so that every way searches all of them, and the index there."""
    folder = tmp_path_factory.mktemp("same")
    build(folder / "history.db")
    return folder


@pytest.fixture(scope="module")
def answers(place: Path) -> Iterator[Answers]:
    datasette = Datasette([str(place / "history.db")])
    asyncio.run(datasette.invoke_startup())
    with running(datasette.app()) as address, pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield {
            "json": over_http(address, post=False),
            "post": over_http(address, post=True),
            "mcp over http": asyncio.run(over_mcp_http(address)),
            "mcp over stdio": asyncio.run(over_mcp_stdio(place)),
            "command line": on_command_line(place),
        }


def over_http(address: str, *, post: bool) -> dict[str, Given]:
    given = {}
    with httpx.Client(base_url=f"{address}/-/history") as client:
        for name, (tool, inputs) in CASES.items():
            if post:
                answer = client.post(f"/{tool}.json", json=inputs)
                text = client.post(f"/{tool}.txt", json=inputs)
            else:
                # httpx spells True as true, as a URL should.
                answer = client.get(f"/{tool}.json", params=inputs)
                text = client.get(f"/{tool}.txt", params=inputs)
            assert answer.status_code == text.status_code
            given[name] = Given(answer.json(), text.text, answer.is_error)
    return given


async def over_mcp_http(address: str) -> dict[str, Given]:
    async with httpx2.AsyncClient() as http:
        return await over_mcp(Client(streamable_http_client(f"{address}/-/mcp", http_client=http)))


async def over_mcp_stdio(place: Path) -> dict[str, Given]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "sync", "mcp", "--index", str(place / "history.db")],
        cwd=place,
        env=dict(os.environ),  # the library hands on little of it, and not the time zone
    )
    return await over_mcp(Client(stdio_client(server)))


async def over_mcp(client: Client) -> dict[str, Given]:
    given = {}
    async with client:
        for name, (tool, inputs) in CASES.items():
            result = await client.call_tool(f"history-{tool}", inputs)
            [content] = result.content
            assert content.type == "text"
            assert result.structured_content is not None
            given[name] = Given(result.structured_content, content.text, result.is_error)
    return given


def on_command_line(place: Path) -> dict[str, Given]:
    given = {}
    runner = CliRunner()
    for name, (tool, inputs) in CASES.items():
        words = command_line(tool, inputs, place / "history.db")
        answer = runner.invoke(cli, [*words[:1], "--json", *words[1:]])
        text = runner.invoke(cli, [*words[:1], "--text", *words[1:]])
        assert answer.exit_code == text.exit_code
        spoken = text.stderr if text.exit_code else text.stdout
        given[name] = Given(json.loads(answer.stdout), spoken, answer.exit_code != 0)
    return given


def command_line(tool: str, inputs: dict[str, Any], index: Path) -> list[str]:
    words = [COMMANDS[tool], "--index", str(index)]
    for name, value in inputs.items():
        if name != ARGUMENTS[tool]:
            words.append("--" + HUMP.sub("-", name).lower())
            words += [] if value is True else [str(value)]
    argument = inputs.get(ARGUMENTS[tool])
    return words if argument is None else [*words, argument]


def without_urls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_urls(inner) for key, inner in value.items() if key != "url"}
    return [without_urls(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("case", CASES)
def test_answer_is_the_same_as_over_http(answers: Answers, case: str, way: str) -> None:
    expected, found = answers["json"][case], answers[way][case]
    assert without_urls(found.answer) == without_urls(expected.answer)
    assert found.text == expected.text
    assert found.is_error is expected.is_error


@pytest.mark.parametrize("way", ["post", "mcp over http"])
@pytest.mark.parametrize("case", CASES)
def test_links_are_the_same_where_there_is_a_server(answers: Answers, case: str, way: str) -> None:
    assert answers[way][case].answer == answers["json"][case].answer


def test_cases_cover_every_tool_and_every_input() -> None:
    used: dict[str, set[str]] = {name: set() for name in TOOLS}
    for tool, inputs in CASES.values():
        used[tool] |= set(inputs)
    everywhere = {name for names in used.values() for name in names}
    assert set(used) == set(TOOLS)
    assert everywhere == {p.name for tool in TOOLS.values() for p in tool.parameters}


def test_cases_have_answers_and_errors(answers: Answers) -> None:
    failed = {name for name, given in answers["json"].items() if given.is_error}
    assert failed == {
        "short word",
        "two errors",
        "bad date",
        "no query",
        "unknown session",
        "unknown message",
        "contradiction",
    }


def test_a_text_names_the_next_call(answers: Answers) -> None:
    texts = {name: given.text for name, given in answers["json"].items() if not given.is_error}
    silent = {
        name
        for name, text in texts.items()
        if "Next: " not in text and "End of the session." not in text
    }
    assert silent == {"nothing found", "unknown project"}
    assert "Next: read sessionID=ses_login messageID=msg_l2\n" in texts["two words, one excluded"]
    assert "Next: read sessionID=ses_login cursor=msg_l2\n" in texts["first page"]
