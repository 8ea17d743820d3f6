"""The index file itself: made private, recognised, created and rebuilt.

SQLite gives -wal and -shm the mode of the main file, so making that one 0600 before the
first byte is written covers all three.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from datasette_history import schema
from sync.errors import IndexUnusable
from sync.network_disk import network_file_system
from sync.private_files import create_private

log = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 60
START_TIMEOUT_S = 30
"""How long to keep trying while other processes create or rebuild the same file."""

OWN_FOLDER = "history-search"
"""The folder that is made for the index where nobody names another; it is nobody else's."""

MERGE_SEGMENTS = 64
"""Segments that a level of the FTS index may collect before SQLite merges them in one go."""


def open_index(path: Path) -> sqlite3.Connection:
    """Open the index for writing, creating or rebuilding it where needed.

    Raises IndexUnusable where the file belongs to something else or cannot be used; such a
    file is left as it is.
    """
    _make_private(path)
    if kind := network_file_system(path):
        log.warning(
            "%s is on a network file system (%s): use it from one machine only, since its locks "
            "and its privacy are not kept there; --index names a place on a local disk",
            path,
            kind,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return _connect(path)
        except sqlite3.OperationalError as error:
            # Switching to WAL and creating tables can report "locked" without waiting.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise IndexUnusable(f"{path} cannot be opened for writing: {error}") from error
            time.sleep(random.uniform(0.01, 0.1))
        except sqlite3.DatabaseError as error:
            raise IndexUnusable(
                f"{path} is not a readable SQLite file ({error}); move it away, or name "
                "another file with --index"
            ) from error


def delete_index(path: Path) -> None:
    """Delete an index with its -wal and -shm; a file that is not an index is refused.

    Of a link, what it leads to goes. Raises IndexUnusable where nothing can be deleted.
    """
    try:
        path = path.resolve()
        if path.exists():
            _require_ours(path)
        for suffix in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise IndexUnusable(f"{path} cannot be deleted: {error.strerror}") from error


@contextmanager
def transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """Run a block in BEGIN IMMEDIATE, so that what it checks still holds when it writes."""
    _begin(conn)
    try:
        yield
    except BaseException:
        # A full disk makes SQLite roll back by itself.
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise
    conn.execute("COMMIT")


def _begin(conn: sqlite3.Connection) -> None:
    """Begin to write, asking often: SQLite's own waiting sleeps through the short moments
    that a backfill leaves to others between its transactions."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    conn.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                conn.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.005))
    finally:
        conn.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")


def _make_private(path: Path) -> None:
    try:
        for folder in reversed([p for p in path.parents if not p.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        if path.is_dir():
            raise IndexUnusable(f"{path} is a directory; name a file with --index")
        # A file that is there is never opened but by SQLite: closing any other handle of it
        # would drop the locks of this process's connections, and others would write at once.
        if not path.exists():
            create_private(path)
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if path.parent.name == OWN_FOLDER:
            path.parent.chmod(0o700)
    except OSError as error:
        raise IndexUnusable(
            f"{path} cannot be written: {error.strerror}; name another file with --index"
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    if _is_foreign(path):
        raise IndexUnusable(
            f"{path} is an SQLite database, but not an index of conversation history; "
            "it was not touched. Name another file with --index"
        )
    conn = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        _prepare(conn, path)
    except BaseException:
        conn.close()
        raise
    return conn


def _is_foreign(path: Path) -> bool:
    """Tell whether a file is somebody else's database, without changing it.

    A connection that may write would take over what a killed program left in a -wal or a
    journal, merely by looking. Where only such a one can look, the answer is no.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as conn:
            return schema.state(conn) == "foreign"
    except sqlite3.OperationalError as error:
        must_be_rolled_back = "readonly" in str(error) and path.stat().st_size > 0
        journal = path.with_name(path.name + "-journal")
        return must_be_rolled_back and journal.exists() and not _has_our_header(path)


def _prepare(conn: sqlite3.Connection, path: Path) -> None:
    if schema.state(conn) == "foreign":
        raise IndexUnusable(f"{path} has become somebody else's database")
    _close_to_others(path)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = NORMAL")
    conn.execute("PRAGMA cache_size = -65536")
    if schema.state(conn) != "current":
        with transaction(conn):
            _create(conn)


def _close_to_others(path: Path) -> None:
    """Make files private that were not; the -wal of a file that was readable once still is."""
    for suffix in ("", "-wal", "-shm"):
        try:
            path.with_name(path.name + suffix).chmod(0o600)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise IndexUnusable(f"{path} cannot be made private: {error.strerror}") from error


def _create(conn: sqlite3.Connection) -> None:
    """Make the tables, unless another process did so while this one waited for the lock."""
    found = schema.state(conn)
    if found == "current":
        return
    if found == "outdated":
        log.info("the index has another version; it is rebuilt")
        _drop_everything(conn)
    for statement in _statements(schema.ddl()):
        conn.execute(statement)
    conn.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    conn.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION}")


def _drop_everything(conn: sqlite3.Connection) -> None:
    # A virtual table takes the tables behind it along, so it goes first.
    for kind, name in conn.execute(
        """
        SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger', 'table')
        ORDER BY type = 'table', sql NOT LIKE 'CREATE VIRTUAL%'
        """
    ).fetchall():
        if not name.startswith("sqlite_"):
            conn.execute(f'DROP {kind} IF EXISTS "{name}"')


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _require_ours(path: Path) -> None:
    """Refuse a file that is not an index; a damaged index is recognised by its header."""
    try:
        conn = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            ours = schema.state(conn) != "foreign"
        finally:
            conn.close()
    except sqlite3.DatabaseError:
        ours = _has_our_header(path)
    if not ours:
        raise IndexUnusable(f"{path} is not an index of conversation history; it was not touched")


def _has_our_header(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(100)[68:72] == schema.APPLICATION_ID.to_bytes(4, "big")
