"""``opencode-history mcp``: the protocol, and the command with the library's own client."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from datasette_history.tools import TOOLS
from sync.cli.stdio import MAX_LINE, IsUnwanted, StdioServer
from sync.index import Index
from tests.builders import T0, copy, fill, session, user
from tests.history import build

TIMEOUT_S = 30


def call(name: str, arguments: Any, _is_unwanted: IsUnwanted) -> dict[str, Any]:
    if "crash" in arguments:
        raise RuntimeError("boom")
    return {"content": [], "isError": False, "structuredContent": {name: arguments}}


def exchange(*messages: Any, tool_call: Any = call) -> list[Any]:
    """Return what a server with the tool ``echo`` answers to messages (bytes as they are)."""
    lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
    output = io.BytesIO()
    server = StdioServer(
        output,
        info={"name": "test", "version": "1"},
        instructions="Use them.",
        tools=[{"name": "echo", "inputSchema": {"type": "object"}}],
        call=tool_call,
    )
    server.serve(io.BytesIO(b"\n".join(lines) + b"\n"))
    return [json.loads(line) for line in output.getvalue().splitlines()]


def request(method: str, params: Any = None, request_id: Any = 1) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def error(code: int, message: str, request_id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
def test_a_version_that_both_know_is_agreed_on(asked: str, agreed: str) -> None:
    [answer] = exchange(request("initialize", {"protocolVersion": asked, "capabilities": {}}))
    assert answer == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "protocolVersion": agreed,
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "test", "version": "1"},
            "instructions": "Use them.",
        },
    }


def test_requests_are_answered_and_notifications_are_not() -> None:
    assert exchange(
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("ping", request_id="a"),
        {"jsonrpc": "2.0", "method": "notifications/unheard/of", "params": {}},
        request("tools/list", {}, request_id=2),
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        b"",
    ) == [
        {"jsonrpc": "2.0", "id": "a", "result": {}},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        },
    ]


def test_a_call_reaches_the_tool_with_its_arguments() -> None:
    given = {"text": "Grüße \u2028 \ud800", "n": 1}
    [answer] = exchange(request("tools/call", {"name": "echo", "arguments": given}))
    assert answer["result"]["structuredContent"] == {"echo": given}
    [answer] = exchange(request("tools/call", {"name": "echo"}))
    assert answer["result"]["structuredContent"] == {"echo": {}}


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        pytest.param(b"{", error(-32700, "the message is not JSON", None), id="half"),
        pytest.param(b"\xff\xfe", error(-32700, "the message is not JSON", None), id="no utf-8"),
        pytest.param(
            b"[" * 100_000, error(-32700, "the message is not JSON", None), id="too deep"
        ),
        pytest.param(
            b'"' + b"x" * (MAX_LINE + 5) + b'"',
            error(-32700, f"a message has more than {MAX_LINE} bytes", None),
            id="too long",
        ),
        pytest.param([], error(-32600, "not a JSON-RPC 2.0 message", None), id="empty batch"),
        pytest.param(7, error(-32600, "not a JSON-RPC 2.0 message", None), id="number"),
        pytest.param({"id": 1, "method": "ping"}, error(-32600, "not a JSON-RPC 2.0 message"),
                     id="no version"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "method": 5},
                     error(-32600, "method must be a string"), id="method"),
        pytest.param({"jsonrpc": "2.0", "id": 1}, error(-32600, "method must be a string"),
                     id="no method"),
        pytest.param(request("ping", request_id=None),
                     error(-32600, "id must be a string or an integer", None), id="null id"),
        pytest.param(request("ping", request_id=True),
                     error(-32600, "id must be a string or an integer", None), id="boolean id"),
        pytest.param(request("server/discover"),
                     error(-32601, "there is no method 'server/discover'"), id="unknown method"),
        pytest.param(request("ping", [1]), error(-32602, "params must be an object"), id="params"),
        pytest.param(request("initialize", {}),
                     error(-32602, "initialize needs a protocolVersion"), id="initialize"),
        pytest.param(request("tools/list", {"cursor": "x"}),
                     error(-32602, "the tools are one page; call without a cursor"), id="cursor"),
        pytest.param(request("tools/call", {"name": "nope"}),
                     error(-32602, "unknown tool 'nope'; there are echo"), id="unknown tool"),
        pytest.param(request("tools/call", {"name": "echo", "arguments": []}),
                     error(-32602, "arguments must be an object"), id="arguments"),
        pytest.param(request("tools/call", {"name": "echo", "arguments": {"crash": 1}}),
                     error(-32603, "internal error: RuntimeError('boom')"), id="crash"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_an_error_and_the_next_request_is(
    message: Any, answer: dict[str, Any]
) -> None:
    pong = {"jsonrpc": "2.0", "id": "after", "result": {}}
    answers = exchange(message, request("ping", request_id="after"))
    assert sorted(answers, key=str) == sorted([answer, pong], key=str)


def test_a_batch_is_answered_as_one() -> None:
    [answers] = exchange(
        [
            request("ping", request_id=1),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            request("tools/call", {"name": "echo", "arguments": {"a": 1}}, request_id=2),
            "nonsense",
        ]
    )
    assert [answer.get("id") for answer in answers] == [1, 2, None]
    assert answers[1]["result"]["structuredContent"] == {"echo": {"a": 1}}


def test_a_cancelled_call_stops_and_is_not_answered() -> None:
    stopped = threading.Event()

    def until_cancelled(_name: str, _arguments: Any, is_unwanted: IsUnwanted) -> dict[str, Any]:
        while not is_unwanted():
            stopped.wait(0.001)
        stopped.set()
        return {"content": []}

    answers = exchange(
        request("tools/call", {"name": "echo"}, request_id="slow"),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "other"}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        request("ping", request_id=2),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}},
        tool_call=until_cancelled,
    )
    assert stopped.is_set()
    assert answers == [{"jsonrpc": "2.0", "id": 2, "result": {}}]


def test_a_slow_call_does_not_hold_up_a_ping() -> None:
    pinged = threading.Event()

    class Output(io.BytesIO):
        def write(self, data: Any) -> int:
            if json.loads(data)["id"] == "ping":
                pinged.set()
            return super().write(data)

    def until_pinged(_name: str, _arguments: Any, _is_unwanted: IsUnwanted) -> dict[str, Any]:
        assert pinged.wait(TIMEOUT_S)
        return {"content": []}

    output = Output()
    server = StdioServer(
        output, info={}, instructions="", tools=[{"name": "echo"}], call=until_pinged
    )
    lines = [request("tools/call", {"name": "echo"}, "slow"), request("ping", request_id="ping")]
    server.serve(io.BytesIO("\n".join(map(json.dumps, lines)).encode()))
    ids = [json.loads(line)["id"] for line in output.getvalue().splitlines()]
    assert ids == ["ping", "slow"]


def parameters(index: Path, directory: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "sync", "mcp", "--index", str(index)], cwd=directory
    )


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    (folder / "src").mkdir(parents=True)
    return folder


async def text_of(client: Client, tool: str, **inputs: Any) -> tuple[bool, str]:
    result = await client.call_tool(f"history-{tool}", inputs)
    [content] = result.content
    assert content.type == "text"
    return result.is_error, content.text


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_librarys_client_lists_and_calls_the_tools(
    tmp_path: Path, app: Path, mode: str
) -> None:
    index = build(tmp_path / "history.db", app=str(app))
    async with Client(stdio_client(parameters(index, app)), mode=mode) as client:
        listed = await client.list_tools()
        found = {tool.name: tool for tool in listed.tools}
        assert list(found) == [f"history-{name}" for name in TOOLS]
        for name, tool in TOOLS.items():
            told = found[f"history-{name}"]
            assert told.input_schema == tool.input_schema(default_session=True)
            assert told.description == tool.description
            assert told.annotations is not None
            assert told.annotations.read_only_hint is True
            assert told.annotations.destructive_hint is False
        is_error, text = await text_of(client, "search-messages", query="five seconds")
        assert not is_error
        assert "'five' in msg_l1 user" in text
        with pytest.raises(MCPError, match="unknown tool 'history-write'"):
            await client.call_tool("history-write", {})


@pytest.mark.asyncio
async def test_the_working_directory_says_which_project_and_session_is_meant(
    tmp_path: Path, app: Path
) -> None:
    index = build(tmp_path / "history.db", app=str(app))
    async with Client(stdio_client(parameters(index, app / "src"))) as client:
        _, text = await text_of(client, "search-messages", query="login")
        assert "ses_login" in text
        assert "ses_site" not in text
        _, text = await text_of(client, "search-messages", query="login", project="all")
        assert "ses_site" in text
        _, text = await text_of(client, "read", limit=1)
        assert text.startswith("ses_login ")
        assert "Next: read sessionID=ses_login cursor=msg_l1" in text
    async with Client(stdio_client(parameters(index, tmp_path))) as client:
        is_error, text = await text_of(client, "read")
        assert is_error
        assert text == (
            f"Error: no session of the directory {tmp_path} is indexed; name a sessionID "
            "from search-sessions\n"
        )


@pytest.mark.asyncio
async def test_an_index_that_comes_later_is_used_as_soon_as_it_is_there(
    tmp_path: Path, app: Path
) -> None:
    index = tmp_path / "history.db"
    missing = (
        f"Error: there is no index at {index} yet; run `opencode-history sync` to make it, "
        "or name another with --index\n"
    )
    async with Client(stdio_client(parameters(index, app))) as client:
        assert await text_of(client, "search-sessions") == (True, missing)
        index.touch()
        assert await text_of(client, "search-sessions") == (True, missing)
        build(index, app=str(app))
        is_error, text = await text_of(client, "search-sessions", limit=1)
        assert not is_error
        assert "ses_login" in text
        for suffix in ("", "-wal", "-shm"):
            index.with_name(index.name + suffix).unlink(missing_ok=True)
        assert await text_of(client, "search-sessions") == (True, missing)
        fill(index, copy(session("ses_new", directory=str(app)), user("msg_n", "Anew")))
        assert "ses_new" in (await text_of(client, "search-sessions"))[1]


@pytest.mark.asyncio
async def test_tools_answer_while_a_sync_holds_the_index(tmp_path: Path, app: Path) -> None:
    index = build(tmp_path / "history.db", app=str(app))
    async with Client(stdio_client(parameters(index, app))) as client:
        with Index.open(index) as writer, writer.transaction():
            writer.begin_sync(pid=os.getpid(), now_ms=T0)
            is_error, text = await asyncio.wait_for(
                text_of(client, "search-messages", query="five seconds"), TIMEOUT_S
            )
    assert not is_error
    assert "msg_l1" in text


@contextmanager
def started(index: Path, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "sync", "mcp", "--index", str(index)],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_server_ends_with_its_input_and_finishes_what_was_asked(
    tmp_path: Path, app: Path
) -> None:
    index = build(tmp_path / "history.db", app=str(app))
    asked = request("tools/call", {"name": "history-search-sessions", "arguments": {"limit": 1}})
    with started(index, app) as process:
        output, errors = process.communicate(json.dumps(asked).encode(), timeout=TIMEOUT_S)
    [answer] = [json.loads(line) for line in output.splitlines()]
    assert answer["result"]["structuredContent"]["sessions"][0]["sessionID"] == "ses_login"
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="not applicable: signals on Windows differ")
def test_the_server_ends_quietly_when_it_is_interrupted(tmp_path: Path, app: Path) -> None:
    with started(tmp_path / "history.db", app) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request("ping")).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert b"Traceback" not in errors


def test_the_library_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from sync.cli.mcp import mcp; "
        "print(sorted({'mcp', 'uvicorn', 'datasette.app'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert done.stdout == "[]\n"
