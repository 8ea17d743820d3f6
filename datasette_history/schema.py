"""The index's schema: all that the reading and the writing side share.

The index is a disposable cache. A file with our application id and another version is
rebuilt by the writer and refused by the reader; a file without it is never touched.
"""

from __future__ import annotations

import sqlite3
from importlib.resources import files
from typing import Final, Literal

APPLICATION_ID: Final = 0x6F634869
"""``PRAGMA application_id`` of every index ("ocHi")."""

SCHEMA_VERSION: Final = 1
"""``PRAGMA user_version``; raised whenever the tables or what is put into them change."""

SLOT_BITS: Final = 20
"""Bits of a document id that number the documents of one session, from 0."""

TITLE_MESSAGE_ID: Final = ""
TITLE_SEQ: Final = -1

IndexState = Literal["current", "empty", "outdated", "foreign"]


def ddl() -> str:
    """Return the statements that create the tables, indexes, triggers and views."""
    return files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")


def state(conn: sqlite3.Connection) -> IndexState:
    """Tell what kind of file a connection is open on.

    ``current``: an index of this version; ``outdated``: an index of another version;
    ``empty``: a database without any table; ``foreign``: somebody else's database.
    Raises sqlite3.DatabaseError where the file is no SQLite database.
    """
    application_id: int = conn.execute("PRAGMA application_id").fetchone()[0]
    version: int = conn.execute("PRAGMA user_version").fetchone()[0]
    if application_id == APPLICATION_ID:
        return "current" if version == SCHEMA_VERSION else "outdated"
    tables: int = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return "empty" if tables == 0 and application_id == 0 and version == 0 else "foreign"


def session_range(num: int) -> tuple[int, int]:
    """Return the first and last possible document id of the session with that number."""
    return num << SLOT_BITS, ((num + 1) << SLOT_BITS) - 1
