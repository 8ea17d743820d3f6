"""A running OpenCode service as a source: found by its registration file or by a URL.

Which API it speaks is asked once, and again after each failure: services come, go and are
upgraded while a watch runs.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from sync.errors import SourceUnavailable
from sync.hookspecs import Probe, SyncConfig, hookimpl
from sync.model import BadRecord, Event, Project, SessionCopy, SessionRef, SourceKind
from sync.sources.api_client import ApiClient, NotFound, NotJson, ServiceFault
from sync.sources.api_registration import Endpoint, from_file, from_url, is_running
from sync.sources.api_v1 import V1
from sync.sources.api_v2 import V2
from sync.sources.sse import read_event
from sync.values import filled, integer, mapping

log = logging.getLogger(__name__)

REGISTRATION = re.compile(r"service(-[A-Za-z0-9._-]*)?\.json")


class ApiSource:
    """One service.

    location: the registration file, which stays the same when the service moves to another
    port, or the URL. endpoint: says where the service is now; may raise SourceUnavailable.
    """

    kind: SourceKind = "api"
    authoritative = False
    remote = True

    def __init__(
        self,
        location: str,
        endpoint: Callable[[], Endpoint],
        connect: Callable[[Endpoint], httpx.Client] = Endpoint.client,
    ) -> None:
        self.location = location
        self._endpoint = endpoint
        self._connect = connect
        self._lock = threading.Lock()
        self._clients: dict[Endpoint, httpx.Client] = {}
        self._directories: dict[str, str] = {}
        self._dialect: V1 | V2 | None = None
        self._stream: httpx.Response | None = None
        self._closed = False

    def signature(self) -> str | None:
        """Return None: the API has nothing that tells cheaply whether anything has changed."""
        return None

    def projects(self) -> Iterator[Project | BadRecord]:
        with self._asking() as dialect:
            yield from dialect.projects()

    def sessions(self) -> Iterator[SessionRef | BadRecord]:
        with self._asking() as dialect:
            yield from dialect.sessions()

    def find(self, session_id: str) -> SessionRef | None:
        with self._asking() as dialect:
            return dialect.find(session_id)

    def read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        with self._asking() as dialect:
            return dialect.read(session_id, known)

    def events(self) -> Iterator[Event]:
        """Yield what happens until the stream ends, which a service does at its own pleasure.

        The first event says that the stream is up. Raises SourceUnavailable.
        """
        self._forget()
        with self._asking() as dialect:
            try:
                for data in dialect.client.events(dialect.event_path, self._opened):
                    try:
                        event = read_event(data)
                    except ValueError as error:
                        log.debug("%s sent an event that is no JSON: %s", self.location, error)
                        continue
                    if event is not None:
                        yield event
            finally:
                self._stream = None

    def close(self) -> None:
        """Cut an open stream of events; another thread that waits for one wakes up."""
        self._closed = True
        stream = self._stream
        if stream is not None:
            _cut(stream)
            return
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    @contextmanager
    def _asking(self) -> Iterator[V1 | V2]:
        with self._lock:
            if self._dialect is None:
                self._dialect = self._detect()
            dialect = self._dialect
        try:
            yield dialect
        except SourceUnavailable:
            self._forget()
            raise

    def _forget(self) -> None:
        with self._lock:
            self._dialect = None

    def _opened(self, response: httpx.Response) -> None:
        self._stream = response
        if self._closed:
            _cut(response)

    def _detect(self) -> V1 | V2:
        endpoint = self._endpoint()
        if not is_running(endpoint.pid):
            raise SourceUnavailable(
                f"{self.location} is left over: the service it names, process {endpoint.pid}, "
                "is not running"
            )
        client = ApiClient(self._client(endpoint), str(endpoint.url).rstrip("/"))
        try:
            info = mapping(client.get("/api/info", probe=True).data)
        except (NotFound, NotJson, ServiceFault) as error:
            return self._older(client, error)
        self._require_same(endpoint, client, info)
        return V2(client)

    def _client(self, endpoint: Endpoint) -> httpx.Client:
        client = self._clients.get(endpoint)
        if client is None:
            client = self._clients[endpoint] = self._connect(endpoint)
        return client

    def _older(self, client: ApiClient, error: SourceUnavailable) -> V1:
        """Return the dialect of OpenCode 1, or say what else a service without /api/info is."""
        try:
            health = mapping(client.get("/global/health", probe=True).data)
        except (NotFound, NotJson, ServiceFault):
            health = {}
        if filled(health.get("version")) is not None:
            dialect = V1(client, self._directories)
            dialect.features()
            return dialect
        if isinstance(error, NotFound):
            raise SourceUnavailable(
                f"{client.name} is an older OpenCode service, without /api/info; update it, or "
                "read its database"
            ) from error
        if isinstance(error, ServiceFault):
            raise SourceUnavailable(f"the service is broken: {error}; restart it") from error
        raise error

    def _require_same(
        self, endpoint: Endpoint, client: ApiClient, info: Mapping[str, object]
    ) -> None:
        pid, version = integer(info.get("pid")), filled(info.get("version"))
        if pid is None or version is None:
            raise SourceUnavailable(
                f"{client.name} answered /api/info without version and pid: it is no OpenCode "
                "service, or one of an unknown version"
            )
        if endpoint.pid not in (None, pid) or endpoint.version not in (None, version):
            raise SourceUnavailable(
                f"{self.location} is left over: it names process {endpoint.pid} of version "
                f"{endpoint.version}, but at {client.name} is process {pid} of version {version}"
            )


def _cut(response: httpx.Response) -> None:
    stream = response.extensions.get("network_stream")
    sock = stream.get_extra_info("socket") if stream is not None else None
    if sock is None:
        return
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        log.debug("the stream had ended: %s", error)


@hookimpl
def register_sources(config: SyncConfig) -> Sequence[Probe]:
    """Find services by the registration files in the state directories, and those of --url."""
    probes = [_registered(path) for folder in config.state_dirs for path in _files(folder)]
    probes += [_named(url) for url in config.urls]
    return probes


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("service*.json") if REGISTRATION.fullmatch(p.name))


def _registered(path: Path) -> Probe:
    location = str(path)
    try:
        endpoint = from_file(path, os.environ)
    except SourceUnavailable as error:
        return Probe(location=location, what=str(error))
    if not is_running(endpoint.pid):
        return Probe(
            location=location, what=f"left over: process {endpoint.pid} is not running any more"
        )
    return Probe(
        location=location,
        what=f"service at {endpoint.url}",
        source=ApiSource(location, lambda: from_file(path, os.environ)),
    )


def _named(url: str) -> Probe:
    try:
        endpoint = from_url(url, os.environ)
    except ValueError as error:
        return Probe(location="--url", what=str(error))
    location = str(endpoint.url).rstrip("/")
    return Probe(location=location, what="service", source=ApiSource(location, lambda: endpoint))
