"""Where a service is and how to log in: from its registration file, or from a URL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from sync.errors import SourceUnavailable
from sync.values import decode_json, filled, integer, mapping

USERNAME = "opencode"
USERNAME_VARIABLE = "OPENCODE_SERVER_USERNAME"
PASSWORD_VARIABLE = "OPENCODE_SERVER_PASSWORD"

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

MAX_REGISTRATION_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One service. url: without user name and password. pid, version: as registered."""

    url: httpx.URL
    username: str = USERNAME
    password: str | None = field(default=None, repr=False)
    pid: int | None = None
    version: str | None = None

    def client(self) -> httpx.Client:
        """Return a client that verifies TLS and sends the password to this service only."""
        auth = None if self.password is None else httpx.BasicAuth(self.username, self.password)
        # A proxy for the web has no business with services of this machine.
        return httpx.Client(base_url=self.url, auth=auth, trust_env=self.url.host not in LOOPBACK)


def from_url(text: str, environ: Mapping[str, str]) -> Endpoint:
    """Read a --url. Raises ValueError, without the text, which may hold a password."""
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError("not a URL; expected one like http://127.0.0.1:4096") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("not an http or https URL with a host, like http://127.0.0.1:4096")
    return Endpoint(
        url=url.copy_with(username=None, password=None, query=None, fragment=None),
        username=url.username or environ.get(USERNAME_VARIABLE) or USERNAME,
        password=url.password or environ.get(PASSWORD_VARIABLE) or None,
    )


def from_file(path: Path, environ: Mapping[str, str]) -> Endpoint:
    """Read a registration file. Raises SourceUnavailable where it is gone or unreadable."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_REGISTRATION_BYTES)
        data = mapping(decode_json(text))
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{path} is gone: the service has ended") from error
    except OSError as error:
        raise SourceUnavailable(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SourceUnavailable(f"{path} is no registration of a service: {error}") from error
    url = filled(data.get("url"))
    if url is None:
        raise SourceUnavailable(f"{path} is no registration of a service: it names no URL")
    try:
        found = from_url(url, environ)
    except ValueError as error:
        raise SourceUnavailable(f"{path} is no registration of a service: {error}") from error
    return Endpoint(
        url=found.url,
        username=USERNAME,
        password=filled(data.get("password")) or found.password,
        pid=integer(data.get("pid")),
        version=filled(data.get("version")),
    )


def is_running(pid: int | None) -> bool:
    """Tell whether a process may be there; True where this system cannot say."""
    # On Windows os.kill would end the process instead of asking for it.
    if pid is None or pid <= 0 or os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
