"""Files that only their owner can read: secrets, and lists beside the index."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sync.errors import IndexUnusable

MODE = 0o600

AGENT_TOKEN = "agent-token"
COOKIE_SECRET = "cookie-secret"
"""Names of the secrets that `serve` keeps beside the index."""

SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A link is not followed, and a named pipe in place of the file is not waited for."""


def secret_text(path: Path) -> str:
    """Return the secret in a file, making both the first time.

    The file holds the secret alone, without a line's end, as Datasette's ``$file`` reads it.
    Raises IndexUnusable where the file cannot be used: see private_text.
    """
    found = private_text(path)
    secret = (found or "").strip()
    if secret and secret == found:
        return secret
    # An empty file is one whose writer was killed; a line's end is some editor's.
    secret = secret or secrets.token_urlsafe(32)
    if found is None and not create_private(path, secret):
        return secret_text(path)
    if found is not None:
        write_private(path, secret)
    return secret


def private_text(path: Path) -> str | None:
    """Return what a file of ours holds, made private again if need be; None without a file.

    Raises IndexUnusable where it is a link, belongs to someone else or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | SAFELY)
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or not _is_ours(found):
                raise IndexUnusable(
                    f"{path} is not a file of this user alone; remove it and try again"
                )
            if stat.S_IMODE(found.st_mode) != MODE and hasattr(os, "fchmod"):
                os.fchmod(descriptor, MODE)
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IndexUnusable(
            f"{path} cannot be read: {error.strerror}; it must be a file, and no link"
        ) from error


def write_private(path: Path, text: str) -> None:
    """Put a file in place at once, readable by its owner alone.

    Raises IndexUnusable where that cannot be done; what was there then stays.
    """
    with _written_beside(path, text) as partial:
        partial.replace(path)


def create_private(path: Path, text: str = "") -> bool:
    """Put a file in place, written and closed; False where another process did so first."""
    with _written_beside(path, text) as partial:
        try:
            # Unlike a rename, a link never takes another file's place.
            path.hardlink_to(partial)
        except FileExistsError:
            return False
        except OSError:
            # Not every file system has links; without them the last one to begin wins.
            partial.replace(path)
    return True


@contextmanager
def _written_beside(path: Path, text: str) -> Iterator[Path]:
    """Write a text whole, under a name that nobody can know before."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFELY, MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        yield partial
    except OSError as error:
        raise IndexUnusable(f"{path} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _is_ours(found: os.stat_result) -> bool:
    """Tell whether no other user owns a file; the administrator reads everything anyway."""
    return not hasattr(os, "geteuid") or found.st_uid in (0, os.geteuid())
