"""The door of ``serve``: whom a request is for, and which page sent it.

A page on another host can make a browser send requests to 127.0.0.1, and by rebinding its own
name can even read the answers. So every request must name a host that this server is known
by, and whatever is not a plain read must come from one of our own pages, or from no page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # Datasette's pages and dashboards have scripts of their own within the page, and Vega
    # compiles its charts; but nothing that a session holds may load from or send to elsewhere.
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        b"style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
)


class Guard:
    """ASGI application that lets through what may reach the application behind it.

    hosts: allowed names without ports, an IPv6 address in brackets.
    """

    def __init__(self, app: App, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        if scope["type"] != "http":
            # Nothing here speaks WebSocket; a server takes this for a refusal.
            return
        problem = self.problem(scope)
        if problem is not None:
            await _refuse(send, problem)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                present = {name.lower() for name, _ in headers}
                headers += [pair for pair in SECURITY_HEADERS if pair[0] not in present]
                message["headers"] = headers
            await send(message)

        await self.app(scope, receive, send_with_headers)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say that the shutdown is complete only once it is.

        Datasette says so at once, while the MCP server around it is still ending its sessions;
        the server would then cancel that, and print it as an error.
        """
        complete: list[Message] = []

        async def send_in_time(message: Message) -> None:
            if message["type"] == "lifespan.shutdown.complete":
                complete.append(message)
            else:
                await send(message)

        await self.app(scope, receive, send_in_time)
        for message in complete:
            await send(message)

    def problem(self, scope: Scope) -> str | None:
        """Return why a request is refused, None where it is not."""
        hosts = _headers(scope, b"host")
        if len(hosts) != 1 or host_name(f"//{hosts[0]}") not in self.hosts:
            return (
                "This server does not go by that host name. Start it with "
                "--allow-host NAME to let requests for NAME in."
            )
        for origin in _headers(scope, b"origin"):
            # Another port of this machine is another site too, although it shares our cookies.
            if urlsplit(origin).netloc.lower() != hosts[0].lower():
                return "Requests from pages of other sites are refused."
        if not all(value.isascii() for value in _headers(scope, b"authorization")):
            # Comparing such a token with a known one is an error, and would be logged as one.
            return "A token is made of ASCII characters."
        return None


def host_name(url: str) -> str | None:
    """Return the lower-case host of a URL without its port, IPv6 addresses in brackets."""
    try:
        parts = urlsplit(url)
        name, _port = parts.hostname, parts.port
    except ValueError:
        return None
    if name is None or parts.username is not None:
        return None
    return f"[{name}]" if ":" in name else name


def _headers(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == wanted]


async def _refuse(send: Send, problem: str) -> None:
    body = problem.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *SECURITY_HEADERS]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
