"""Which of the attached databases is asked, and asking it off the event loop, for so long."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from datasette import Forbidden

from datasette_history.config import Config
from datasette_history.errors import IndexMismatch, NotInIndex, TimeLimitExceeded
from datasette_history.permissions import Actor, can_view
from datasette_history.schema import APPLICATION_ID

if TYPE_CHECKING:
    from datasette.app import Datasette

T = TypeVar("T")

STEPS_PER_LOOK = 1_000
"""SQLite's steps between two looks at the clock; a few microseconds' worth."""


async def attached_indexes(datasette: Datasette) -> list[str]:
    """Return the names of the attached databases that are indexes, of whatever version."""
    return [name for name in datasette.databases if await is_index(datasette, name)]


async def viewable_index(
    datasette: Datasette, actor: Actor, config: Config, wanted: str | None
) -> str:
    """Return the name of the index to ask, which the actor may see.

    wanted: its name; without one, the configured index, else the first that the actor may
    see. Raises Forbidden, NotInIndex for a name that is not an index, IndexMismatch where
    no index is attached.
    """
    name = wanted or config.database
    if name is not None:
        return await _named(datasette, actor, name)
    indexes = await attached_indexes(datasette)
    for index in indexes:
        if await can_view(datasette, actor, index):
            return index
    if indexes:
        raise Forbidden("view-database")
    raise IndexMismatch(
        "no index of OpenCode history is attached; run `opencode-history sync`, then "
        "`opencode-history serve`, or `datasette` with the file that sync names"
    )


async def ask(
    datasette: Datasette, database: str, time_limit_ms: int, question: Callable[..., T]
) -> T:
    """Return question(connection), run on one of Datasette's threads.

    Raises TimeLimitExceeded where it takes longer, IndexMismatch where the file cannot be
    read, and whatever question raises.
    """

    def in_thread(conn: sqlite3.Connection) -> T:
        try:
            with time_limit(conn, time_limit_ms, "raise the setting time_limit_ms"):
                return question(conn)
        except sqlite3.DatabaseError as error:
            raise IndexMismatch(
                f"the index cannot be read ({error}); try again, and if that does not help "
                "run `opencode-history rebuild`"
            ) from error

    answer: T = await datasette.databases[database].execute_fn(in_thread)
    return answer


async def _named(datasette: Datasette, actor: Actor, name: str) -> str:
    unknown = NotInIndex(f"database {name!r} is not an attached index of OpenCode history")
    if name not in datasette.databases:
        raise unknown
    if not await can_view(datasette, actor, name):
        raise Forbidden("view-database")
    if not await is_index(datasette, name):
        raise unknown
    return name


async def is_index(datasette: Datasette, name: str) -> bool:
    """Tell whether an attached database is an index, of whatever version."""

    def in_thread(conn: sqlite3.Connection) -> bool:
        return bool(conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)

    try:
        return bool(await datasette.databases[name].execute_fn(in_thread))
    except sqlite3.DatabaseError:
        # Whatever cannot be read is no index; Datasette's own pages say what is wrong with it.
        return False


@contextmanager
def time_limit(
    conn: sqlite3.Connection,
    limit_ms: int,
    remedy: str,
    *,
    is_unwanted: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Interrupt whatever the connection does once the time is over, or it is unwanted.

    remedy: how to allow more time. Raises TimeLimitExceeded, or sqlite3.OperationalError
    where it is unwanted.
    """
    deadline = time.monotonic() + limit_ms / 1000

    def is_over() -> bool:
        return time.monotonic() >= deadline

    conn.set_progress_handler(lambda: is_over() or is_unwanted(), STEPS_PER_LOOK)
    try:
        yield
    except sqlite3.OperationalError as error:
        if is_over():
            raise TimeLimitExceeded(
                f"the question took longer than {limit_ms} ms and was stopped; use rarer words, "
                f"a project or a date, or {remedy}"
            ) from error
        raise
    finally:
        conn.set_progress_handler(None, 0)
