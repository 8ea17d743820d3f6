"""The door of serve: host names, origins and headers, through a real ASGI request."""

from __future__ import annotations

import httpx
import pytest

from sync.cli.guard import LOOPBACK_HOSTS, Guard, Message, Receive, Scope, Send


async def behind(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"referrer-policy", b"same-origin")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"secret"})


async def request(
    method: str, host: str, headers: dict[str, str] | None = None, *more_hosts: str
) -> httpx.Response:
    guard = Guard(behind, LOOPBACK_HOSTS | {"history.lan"} | set(more_hosts))
    transport = httpx.ASGITransport(app=guard)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport) as client:
        return await client.request(
            method, "http://127.0.0.1/", headers={"host": host, **(headers or {})}
        )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8001", "LOCALHOST", "127.0.0.1:8001", "[::1]:8001", "history.lan"],
)
async def test_a_known_host_is_let_through(host: str) -> None:
    response = await request("GET", host)
    assert (response.status_code, response.text) == (200, "secret")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:8001",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost:port",
        "",
        "[::1",
        "127.0.0.2",
    ],
)
async def test_a_foreign_host_is_refused(host: str) -> None:
    response = await request("GET", host)
    assert response.status_code == 403
    assert "secret" not in response.text
    assert "--allow-host" in response.text


@pytest.mark.asyncio
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8001", 200),
        ("http://LOCALHOST:8001", 200),
        ("http://localhost:3000", 403),
        ("http://127.0.0.1:8001", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost.evil.example", 403),
    ],
)
async def test_a_page_of_another_site_is_refused(method: str, origin: str, status: int) -> None:
    response = await request(method, "localhost:8001", {"origin": origin})
    assert response.status_code == status


@pytest.mark.asyncio
async def test_every_answer_carries_the_security_headers_once() -> None:
    for host in ("localhost", "evil.example"):
        headers = (await request("GET", host)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    # What the application says of itself is left alone.
    assert (await request("GET", "localhost")).headers["referrer-policy"] == "same-origin"


@pytest.mark.asyncio
async def test_a_request_without_or_with_two_hosts_is_refused() -> None:
    for hosts in ([], [b"localhost", b"evil.example"]):
        sent: list[Message] = []

        async def send(message: Message, sent: list[Message] = sent) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        scope = {"type": "http", "headers": [(b"host", host) for host in hosts]}
        await Guard(behind, LOOPBACK_HOSTS)(scope, receive, send)
        assert sent[0]["status"] == 403


@pytest.mark.asyncio
async def test_a_shutdown_is_complete_only_when_the_application_has_ended() -> None:
    events: list[str] = []

    async def hasty(_scope: Scope, receive: Receive, send: Send) -> None:
        for step in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{step}"
            await send({"type": f"lifespan.{step}.complete"})
        events.append("sessions ended")

    told = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        return {"type": next(told)}

    async def send(message: Message) -> None:
        events.append(message["type"])

    await Guard(hasty, LOOPBACK_HOSTS)({"type": "lifespan"}, receive, send)
    assert events == ["lifespan.startup.complete", "sessions ended", "lifespan.shutdown.complete"]
