"""Asks an OpenCode service over HTTP: transport, errors and limits, but no dialect.

Every failure is a SourceUnavailable that says what to do. User names and passwords are in no
message: they travel in a header and never in a URL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from httpx_sse import EventSource, SSEError

from sync.errors import SourceUnavailable
from sync.values import decode_json, filled, mapping, size_text

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Bytes of one answer; a larger one is refused. Sessions come in pages or, from V1, whole."""

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""Bytes between two events; more ends the stream, and the watcher connects anew."""

ANSWER_S = 120.0
"""Seconds that one whole answer may take."""

SILENCE_S = 50.0
"""Seconds without a byte after which an event stream counts as broken: services send a sign
of life every 10 to 30 seconds."""

TIMEOUT = httpx.Timeout(30.0, connect=5.0)
PROBE_TIMEOUT = httpx.Timeout(5.0)
"""For the first question: a service that is starting may never answer it."""

EVENT_TIMEOUT = httpx.Timeout(SILENCE_S, connect=5.0)


class Refused(SourceUnavailable):
    """The service answered with a 4xx other than 401 and 403.

    tag: how its JSON names the error, None where it is no error of OpenCode's.
    """

    def __init__(self, message: str, tag: str | None) -> None:
        super().__init__(message)
        self.tag = tag


class NotFound(Refused):
    """The service answered 404."""


class ServiceFault(SourceUnavailable):
    """The service answered with a 5xx."""


class NotJson(SourceUnavailable):
    """The service answered with something else than JSON, as servers do for unknown paths."""


@dataclass(frozen=True, slots=True)
class Answer:
    """data: the decoded JSON body. cursor: the header x-next-cursor, where there is one."""

    data: object
    cursor: str | None = None


class ApiClient:
    """One service. name: what messages call it, a URL without credentials."""

    def __init__(
        self, http: httpx.Client, name: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.http = http
        self.name = name
        self.clock = clock

    def get(
        self, path: str, params: Mapping[str, str] | None = None, *, probe: bool = False
    ) -> Answer:
        """Ask once more where the first request times out, and return the decoded answer.

        probe: give up after seconds. Raises NotFound, ServiceFault, NotJson or another
        SourceUnavailable.
        """
        timeout = PROBE_TIMEOUT if probe else TIMEOUT
        with self._failures(path):
            try:
                return self._get(path, params, timeout)
            except httpx.TimeoutException:
                return self._get(path, params, timeout)

    def events(self, path: str, opened: Callable[[httpx.Response], None]) -> Iterator[str]:
        """Yield the data of each server-sent event until the stream ends or breaks.

        opened is handed the response, so that another thread can cut the connection. Comments
        are no events, but their bytes are signs of life. Raises SourceUnavailable.
        """
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        with (
            self._failures(path),
            self.http.stream("GET", path, headers=headers, timeout=EVENT_TIMEOUT) as response,
        ):
            opened(response)
            if response.status_code != httpx.codes.OK:
                raise self._refusal(path, response, b"")
            # The format is UTF-8 whatever the header says.
            response.encoding = "utf-8"
            bounded = _Bounded(response.stream)
            response.stream = bounded
            for event in EventSource(response).iter_sse():
                bounded.waiting = 0
                if event.data:
                    yield event.data

    def _get(self, path: str, params: Mapping[str, str] | None, timeout: httpx.Timeout) -> Answer:
        deadline = self.clock() + ANSWER_S
        body = bytearray()
        with self.http.stream("GET", path, params=params, timeout=timeout) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise SourceUnavailable(
                        f"{self.name} answered {path} with more than {size_text(MAX_ANSWER_BYTES)},"
                        " which is refused"
                    )
                if self.clock() > deadline:
                    raise SourceUnavailable(
                        f"{self.name} was still answering {path} after {ANSWER_S:.0f} s"
                    )
        if response.status_code != httpx.codes.OK:
            raise self._refusal(path, response, bytes(body))
        kind = _content_type(response)
        if kind != "application/json":
            raise NotJson(
                f"{self.name} answered {path} with {kind or 'something untyped'} instead of JSON: "
                "it is no OpenCode service, or one of an unknown version"
            )
        try:
            return Answer(decode_json(bytes(body)), response.headers.get("x-next-cursor"))
        except ValueError as error:
            raise SourceUnavailable(
                f"{self.name} answered {path} with broken JSON: {error}"
            ) from error

    def _refusal(self, path: str, response: httpx.Response, body: bytes) -> SourceUnavailable:
        status = response.status_code
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return SourceUnavailable(
                f"{self.name} refused the user name or password ({status}); set "
                "OPENCODE_SERVER_PASSWORD, and OPENCODE_SERVER_USERNAME where it is not opencode"
            )
        tag, reason = _error_in(body)
        message = f"{self.name} answered {path} with status {status}" + (
            f": {reason}" if reason else ""
        )
        if status == httpx.codes.NOT_FOUND:
            return NotFound(message, tag)
        return ServiceFault(message) if response.is_server_error else Refused(message, tag)

    @contextmanager
    def _failures(self, path: str) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise SourceUnavailable(f"{self.name} did not answer {path} in time") from error
        except httpx.ConnectError as error:
            raise SourceUnavailable(
                f"{self.name} cannot be reached ({error}); is the service running?"
            ) from error
        except SSEError as error:
            raise NotJson(f"{self.name} answered {path} without a stream of events") from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise SourceUnavailable(
                f"{self.name}: the connection broke at {path}: {str(error) or type(error).__name__}"
            ) from error


class _Bounded(httpx.SyncByteStream):
    """Counts the bytes that came since the consumer last set waiting to 0."""

    def __init__(self, stream: httpx.SyncByteStream | httpx.AsyncByteStream) -> None:
        assert isinstance(stream, httpx.SyncByteStream)
        self.stream = stream
        self.waiting = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.stream:
            self.waiting += len(chunk)
            if self.waiting > MAX_EVENT_BYTES:
                raise SourceUnavailable(
                    f"the service sent an event of more than {size_text(MAX_EVENT_BYTES)}"
                )
            yield chunk

    def close(self) -> None:
        self.stream.close()


def _content_type(response: httpx.Response) -> str:
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


def _error_in(body: bytes) -> tuple[str | None, str | None]:
    """Return how a service names an error and explains it, in either dialect."""
    try:
        error = mapping(decode_json(body))
    except ValueError:
        return None, None
    tag = filled(error.get("_tag")) or filled(error.get("name"))
    reason = filled(error.get("message")) or filled(mapping(error.get("data")).get("message"))
    return tag, reason[:200] if reason else tag
