"""Opens another program's SQLite file without ever writing or locking it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sync.errors import SourceUnavailable

BUSY_TIMEOUT_S = 5
COPY_ATTEMPTS = 3

SETTLED_S = 2.0
"""Seconds after which a commit that has reached the -wal is visible, however busy the machine."""


class ReadOnlyDatabase:
    """A database file that other processes may be writing. Call close() when done.

    Where it stands the file is opened by SQLite alone: closing any other handle of it would
    drop the locks that this process holds on it, and its writers would no longer know of us.

    In a folder where SQLite cannot keep its shared memory file, a private copy of the
    database and its -wal is read instead, in a folder of mode 0700 that close() removes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._copied = ""

    @property
    def wal(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def signature(self) -> str:
        """Return what changes with every commit: identity, size and time of file and -wal.

        Raises SourceUnavailable where the file cannot be looked at.
        """
        try:
            main = self.path.stat()
        except OSError as error:
            raise SourceUnavailable(f"{self.path}: {_reason(error)}") from error
        return f"{_stat_text(main)} {_stat_text(_stat_or_none(self.wal))}"

    def is_settled(self, clock: Callable[[], float] = time.time) -> bool:
        """Whether all that the -wal has grown by can be read; clock: Unix time in seconds.

        It grows before the commit that it grew for counts, so at first a look at its size and
        time says nothing about what a reader sees.
        """
        wal = _stat_or_none(self.wal)
        return wal is None or not wal.st_size or wal.st_mtime < clock() - SETTLED_S

    def identity(self) -> str:
        """Return what changes when another file has taken this one's place."""
        if self._copy is not None:
            return self.signature()
        return " ".join(self.signature().split(":")[:2])

    def connect(self) -> sqlite3.Connection:
        """Open a connection that can only read; texts come as bytes.

        Raises SourceUnavailable where the file is missing, no database, or cannot be opened.
        """
        signature = self.signature()
        if self._copy is None and not self._must_copy():
            try:
                return self._open(self.path)
            except sqlite3.DatabaseError as error:
                # Only a file that cannot be opened where it is, is worth a copy.
                if not isinstance(error, sqlite3.OperationalError) or "locked" in str(error):
                    raise SourceUnavailable(f"{self.path}: {error}") from error
        try:
            return self._open(self._copied_file(signature))
        except sqlite3.Error as error:
            raise SourceUnavailable(f"{self.path}: {error}") from error

    def close(self) -> None:
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def _must_copy(self) -> bool:
        return self.wal.exists() and not os.access(self.path.parent, os.W_OK)

    def _open(self, path: Path) -> sqlite3.Connection:
        conn = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            conn.execute("PRAGMA query_only = 1")
            conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError:
            conn.close()
            raise
        conn.text_factory = bytes
        return conn

    def _copied_file(self, signature: str) -> Path:
        if self._copy is None:
            self._copy = tempfile.TemporaryDirectory(prefix="opencode-history-")
            self._copied = ""
        target = Path(self._copy.name) / "opencode.db"
        attempts = COPY_ATTEMPTS
        while self._copied != signature:
            if not attempts:
                raise SourceUnavailable(f"{self.path}: changes faster than it can be copied")
            attempts -= 1
            self._copy_files(target)
            # A copy is whole only if nothing was written meanwhile.
            before, signature = signature, self.signature()
            self._copied = signature if before == signature else ""
        return target

    def _copy_files(self, target: Path) -> None:
        wal = target.with_name(target.name + "-wal")
        for old in (target, wal, target.with_name(target.name + "-shm")):
            old.unlink(missing_ok=True)
        try:
            shutil.copyfile(self.path, target)
            if self.wal.exists():
                shutil.copyfile(self.wal, wal)
        except OSError as error:
            raise SourceUnavailable(f"{self.path} cannot be copied: {_reason(error)}") from error


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _stat_text(stat: os.stat_result | None) -> str:
    if stat is None:
        return "-"
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
