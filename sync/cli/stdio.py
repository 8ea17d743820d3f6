"""An MCP server on standard input and output: JSON-RPC, one message a line.

The MCP library takes three quarters of a second to import, which every client would wait for
at every start; what a server of tools needs of the protocol is little. A client that speaks
a later protocol without a handshake is told so in the way that makes it shake hands.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, Final

Json = dict[str, Any]
Id = int | str

IsUnwanted = Callable[[], bool]
ToolCall = Callable[[str, Mapping[str, Any], IsUnwanted], Json]
"""From a tool's name and arguments to its result; may stop early once it is unwanted."""

PROTOCOL_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that begin with a handshake, oldest first."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MAX_LINE: Final = 1_000_000
"""Bytes of the longest message."""

WORKERS: Final = 4
"""Calls that run at once; more wait."""

log = logging.getLogger(__name__)


class RpcError(Exception):
    """A request that is answered with an error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class StdioServer:
    """Serves one client.

    info: the server's name, title and version. tools: what tools/list answers.
    call: only called with names of tools, from several threads at once.
    """

    def __init__(
        self,
        output: BinaryIO,
        *,
        info: Json,
        instructions: str,
        tools: Sequence[Json],
        call: ToolCall,
    ) -> None:
        self._output = output
        self._info = info
        self._instructions = instructions
        self._tools = list(tools)
        self._names = {tool["name"] for tool in tools}
        self._call = call
        self._writing = threading.Lock()
        self._cancelled: dict[Id, threading.Event] = {}
        self._methods: dict[str, Callable[[Json], Json]] = {
            "initialize": self._initialize,
            "ping": lambda _params: {},
            "tools/list": self._list_tools,
        }

    def serve(self, lines: BinaryIO) -> None:
        """Answer messages until the client hangs up, and then finish what it asked for."""
        with ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="mcp") as workers:
            try:
                while line := lines.readline(MAX_LINE + 1):
                    self._take(line, lines, workers)
            except BaseException:
                for event in list(self._cancelled.values()):
                    event.set()
                workers.shutdown(wait=False, cancel_futures=True)
                raise

    def _take(self, line: bytes, lines: BinaryIO, workers: ThreadPoolExecutor) -> None:
        """Answer a message, or hand it to a worker where that takes time."""
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = lines.readline(MAX_LINE)
            self._send(_error(None, PARSE_ERROR, f"a message has more than {MAX_LINE} bytes"))
            return
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._send(_error(None, PARSE_ERROR, "the message is not JSON"))
            return
        if isinstance(message, list) and message:
            # Version 2025-03-26 has batches; the others have not, and do not send any.
            for one in message:
                self._expect(one)
            self._work(workers, None, lambda: self._batch(message))
        elif self._expect(message):
            self._work(workers, message["id"], lambda: self._answer(message))
        elif answer := self._answer(message):
            self._send(answer)

    def _expect(self, message: Any) -> bool:
        """Tell whether a message is a call of a tool, and let it be cancelled from now on."""
        if not _is_request(message) or message["method"] != "tools/call":
            return False
        self._cancelled[message["id"]] = threading.Event()
        return True

    def _work(
        self, workers: ThreadPoolExecutor, request_id: Id | None, job: Callable[[], Any]
    ) -> None:
        def done(future: Future[Any]) -> None:
            if future.cancelled():
                return
            if (error := future.exception()) is not None:
                log.error("a call failed", exc_info=error)
                self._send(_error(request_id, INTERNAL_ERROR, f"internal error: {error!r}"))
            elif answer := future.result():
                self._send(answer)

        workers.submit(job).add_done_callback(done)

    def _batch(self, messages: Sequence[Any]) -> list[Json]:
        return [answer for message in messages if (answer := self._answer(message))]

    def _answer(self, message: Any) -> Json | None:
        """Return the answer to a message; None for one that gets none."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _error(_id_of(message), INVALID_REQUEST, "not a JSON-RPC 2.0 message")
        if "method" not in message and ("result" in message or "error" in message):
            return None  # the answer to a question that was never asked
        if not isinstance(message.get("method"), str):
            return _error(_id_of(message), INVALID_REQUEST, "method must be a string")
        if "id" not in message:
            self._notified(message)
            return None
        request_id = _id_of(message)
        if request_id is None:
            return _error(None, INVALID_REQUEST, "id must be a string or an integer")
        try:
            result = self._result(request_id, message)
        except RpcError as error:
            return _error(request_id, error.code, str(error))
        return None if result is None else {"jsonrpc": "2.0", "id": request_id, "result": result}

    def _notified(self, message: Json) -> None:
        if message["method"] == "notifications/cancelled":
            params = message.get("params")
            request_id = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(request_id, int | str) and request_id in self._cancelled:
                self._cancelled[request_id].set()

    def _result(self, request_id: Id, message: Json) -> Json | None:
        params = message.get("params", {})
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params must be an object")
        method = message["method"]
        if method == "tools/call":
            return self._call_tool(request_id, params)
        if method not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {method!r}")
        return self._methods[method](params)

    def _initialize(self, params: Json) -> Json:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise RpcError(INVALID_PARAMS, "initialize needs a protocolVersion")
        return {
            "protocolVersion": wanted if wanted in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[-1],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": self._info,
            "instructions": self._instructions,
        }

    def _list_tools(self, params: Json) -> Json:
        if params.get("cursor") is not None:
            raise RpcError(INVALID_PARAMS, "the tools are one page; call without a cursor")
        return {"tools": self._tools}

    def _call_tool(self, request_id: Id, params: Json) -> Json | None:
        """Return a tool's result, None where the call was cancelled."""
        cancelled = self._cancelled.setdefault(request_id, threading.Event())
        try:
            name, arguments = params.get("name"), params.get("arguments")
            if not isinstance(name, str) or name not in self._names:
                raise RpcError(
                    INVALID_PARAMS, f"unknown tool {name!r}; there are {', '.join(self._names)}"
                )
            if arguments is not None and not isinstance(arguments, dict):
                raise RpcError(INVALID_PARAMS, "arguments must be an object")
            result = None
            if not cancelled.is_set():
                result = self._call(name, arguments or {}, cancelled.is_set)
            return None if cancelled.is_set() else result
        finally:
            # A client that uses an id twice has put another event in its place.
            if self._cancelled.get(request_id) is cancelled:
                del self._cancelled[request_id]

    def _send(self, message: Json | list[Json]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            self._output.write(line)
            self._output.flush()


def _is_request(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and isinstance(message.get("method"), str)
        and message.get("jsonrpc") == "2.0"
        and _id_of(message) is not None
    )


def _id_of(message: Any) -> Id | None:
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def _error(request_id: Id | None, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
