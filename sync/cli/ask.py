"""Asking the tools about an index file, from the working directory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from datasette_history.config import DEFAULT_TIME_LIMIT_MS
from datasette_history.database import time_limit
from datasette_history.errors import IndexMismatch
from datasette_history.results import Answer
from datasette_history.schema import state
from datasette_history.tools import Context, call, require_current, snapshot

BUSY_TIMEOUT_S = 5
REMEDY = "allow more with --time-limit"

T = TypeVar("T")


class NoIndex(IndexMismatch):
    """There is no index yet."""


def ask(
    path: Path,
    tool: str,
    inputs: Mapping[str, Any],
    *,
    as_text: bool,
    time_limit_ms: int = DEFAULT_TIME_LIMIT_MS,
    is_unwanted: Callable[[], bool] = lambda: False,
) -> Answer:
    """Run a tool on the index at path; the working directory is what inputs leave open.

    as_text: inputs are texts, as on a command line. Raises HistoryError; NoIndex where
    there is no index yet; sqlite3.OperationalError where the answer became unwanted.
    """
    context = local_context()
    return question(
        path,
        lambda conn: call(conn, tool, inputs, context, as_text=as_text),
        time_limit_ms=time_limit_ms,
        is_unwanted=is_unwanted,
    )


def question(
    path: Path,
    asked: Callable[[sqlite3.Connection], T],
    *,
    time_limit_ms: int = DEFAULT_TIME_LIMIT_MS,
    is_unwanted: Callable[[], bool] = lambda: False,
) -> T:
    """Return asked(connection), run in one snapshot of the index; raises as ask does."""
    try:
        with (
            closing(_connect(path)) as conn,
            time_limit(conn, time_limit_ms, REMEDY, is_unwanted=is_unwanted),
            snapshot(conn),
        ):
            if state(conn) == "empty":
                raise _no_index(path)
            require_current(conn)
            return asked(conn)
    except sqlite3.DatabaseError as error:
        if is_unwanted():
            raise
        raise IndexMismatch(
            f"the index {path} cannot be read ({error}); try again, and if that does not help "
            "run `opencode-history rebuild`"
        ) from error


def no_url(_session_id: str, _message_id: str | None) -> None:
    """Return no address: without a server there are no pages."""


def _connect(path: Path) -> sqlite3.Connection:
    try:
        if not path.is_file():
            raise _no_index(path)
    except OSError as error:
        raise IndexMismatch(f"the index {path} cannot be read: {error.strerror}") from error
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
    )


def _no_index(path: Path) -> NoIndex:
    return NoIndex(
        f"there is no index at {path} yet; run `opencode-history sync` to make it, "
        "or name another with --index"
    )


def local_context() -> Context:
    """Return the context of a call from here: the working directory, its latest session."""
    # Naive means the machine's own zone, with its rules; an aware one has a fixed offset.
    now = datetime.now()  # noqa: DTZ005
    try:
        directory = str(Path.cwd())
    except FileNotFoundError:
        # Someone removed it; then nothing is known of where the question comes from.
        directory = None
    return Context(now=now, home=str(Path.home()), directory=directory, default_session=True)
