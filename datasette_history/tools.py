"""The four tools as data: one definition for HTTP, the command line and MCP.

``call`` checks the inputs, reads the index within one snapshot and returns an Answer, which
render.py spells as JSON or text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from datasette_history.dates import DateRange, parse_dates, zone
from datasette_history.edits import search_edits
from datasette_history.errors import IndexMismatch, InvalidInput, InvalidQuery, NotInIndex
from datasette_history.inputs import Parameter, check
from datasette_history.matching import Criteria, PathFilter
from datasette_history.parameters import (
    PROJECTS_CAP,
    READ,
    SEARCH_EDITS,
    SEARCH_MESSAGES,
    SEARCH_SESSIONS,
    SYNTAX,
)
from datasette_history.postings import RARE
from datasette_history.query import parse_query
from datasette_history.read import Shape, latest_session, read_around, read_page
from datasette_history.results import Answer, Result, Scope, SessionPage
from datasette_history.schema import state
from datasette_history.scope import resolve, session_directory
from datasette_history.search import search_messages, search_projects, search_sessions
from datasette_history.status import indexing


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a call cannot say itself, because it depends on where it comes from.

    now: the present, in the caller's time zone; naive for the machine's own.
    home: what ``~`` stands for. project, directory: scope where the inputs name none.
    default_session: whether read without a sessionID takes the directory's latest session.
    rare: see matching.Matcher.
    """

    now: datetime
    home: str | None = None
    project: str | None = None
    directory: str | None = None
    default_session: bool = False
    rare: int = RARE


Inputs = Mapping[str, Any]
Handler = Callable[[sqlite3.Connection, Inputs, Context], tuple[Result, Scope | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """name as in URLs and on MCP after ``history-``; summary is one line, description all."""

    name: str
    summary: str
    description: str
    parameters: tuple[Parameter, ...]
    handler: Handler

    def input_schema(self, *, default_session: bool = False) -> dict[str, Any]:
        """Return the JSON Schema of the inputs.

        default_session: read may come without a sessionID.
        """
        required = [p.name for p in self.parameters if p.required]
        if self.name == "read" and not default_session:
            required.append("sessionID")
        return {
            "type": "object",
            "properties": {p.name: p.schema() for p in self.parameters},
            "required": required,
            "additionalProperties": False,
        }


def call(
    conn: sqlite3.Connection,
    name: str,
    inputs: Mapping[str, object],
    context: Context,
    *,
    as_text: bool = False,
) -> Answer:
    """Run a tool on an open index. as_text: inputs are texts, as in a URL.

    Raises InvalidInput, NotInIndex or IndexMismatch; sqlite3.OperationalError where the
    caller interrupts the connection.
    """
    tool = TOOLS[name]
    values = check(name, tool.parameters, inputs, as_text=as_text)
    values, capped_from = _capped(tool, values)
    with snapshot(conn):
        require_current(conn)
        result, scope = tool.handler(conn, values, context)
        return Answer(
            tool=name,
            result=result,
            scope=scope,
            capped_from=capped_from,
            indexing=indexing(conn, now_ms=round(context.now.timestamp() * 1000)),
            timezone=_now(values, context).tzinfo,
        )


@contextmanager
def snapshot(conn: sqlite3.Connection) -> Iterator[None]:
    """Let every statement inside see the index as it is now, whatever is written meanwhile."""
    if conn.in_transaction:
        yield
        return
    conn.execute("BEGIN")
    try:
        yield
    finally:
        conn.rollback()


def require_current(conn: sqlite3.Connection) -> None:
    """Raise IndexMismatch unless the connection is open on an index of this version."""
    found = state(conn)
    if found == "outdated":
        raise IndexMismatch(
            "the index was made by another version of datasette-history; "
            "run `opencode-history rebuild`"
        )
    if found != "current":
        raise IndexMismatch(
            "the database is not an index of OpenCode history; run `opencode-history sync` "
            "and open the file that it names"
        )


def _capped(tool: Tool, values: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the values with the limit capped, and the limit asked for where it was."""
    asked = values.get("limit")
    projects = values.get("show") == "projects"
    cap = PROJECTS_CAP if projects else next(p.cap for p in tool.parameters if p.name == "limit")
    if asked is None:
        return (values | {"limit": cap} if projects else values), None
    if cap is None or asked <= cap:
        return values, None
    return values | {"limit": cap}, asked


def _search_messages(
    conn: sqlite3.Connection, values: Inputs, context: Context
) -> tuple[Result, Scope | None]:
    criteria = _criteria(conn, values, context)
    if not criteria.words:
        raise InvalidQuery(
            "search-messages needs a word or phrase to look for; "
            "search-sessions lists sessions without one"
        )
    found = search_messages(
        conn,
        criteria,
        values.get("limit", 50),
        fold_subagents=values.get("foldSubagents", False),
        rare=context.rare,
    )
    return found, criteria.scope


def _search_sessions(
    conn: sqlite3.Connection, values: Inputs, context: Context
) -> tuple[Result, Scope | None]:
    criteria = _criteria(conn, values, context)
    limit = values.get("limit", 20)
    if values.get("show") == "projects":
        return search_projects(conn, criteria, limit, rare=context.rare), criteria.scope
    fold = values.get("foldSubagents", False)
    found = search_sessions(conn, criteria, limit, fold_subagents=fold, rare=context.rare)
    return found, criteria.scope


def _search_edits(
    conn: sqlite3.Connection, values: Inputs, context: Context
) -> tuple[Result, Scope | None]:
    dates = _dates(values, context)
    criteria = _criteria(conn, {k: v for k, v in values.items() if k != "date"}, context)
    limit = values.get("limit", 50)
    edits = search_edits(conn, criteria, limit, dates=dates, rare=context.rare)
    return edits, criteria.scope


def _read(
    conn: sqlite3.Connection, values: Inputs, context: Context
) -> tuple[SessionPage, Scope | None]:
    shape = Shape(
        role=values.get("role"),
        max_chars=values.get("maxCharsPerMessage", 2000),
        tool_results=values.get("includeToolResults", False),
    )
    _refuse_together(values, "messageID", ("cursor", "limit"))
    if "messageID" not in values:
        for name in ("before", "after"):
            if name in values:
                raise InvalidInput(
                    f"{name} counts from a messageID; name one, or use limit and cursor"
                )
    session_id = values.get("sessionID") or _latest(conn, context)
    if "messageID" in values:
        page = read_around(
            conn, session_id, values["messageID"],
            before=values.get("before", 5), after=values.get("after", 5), shape=shape,
        )  # fmt: skip
    else:
        page = read_page(
            conn, session_id,
            cursor=values.get("cursor"), limit=values.get("limit", 20), shape=shape,
        )  # fmt: skip
    return page, None


def _refuse_together(values: Inputs, name: str, others: tuple[str, ...]) -> None:
    for other in others:
        if name in values and other in values:
            raise InvalidInput(f"{name} and {other} cannot be used together; leave one out")


def _latest(conn: sqlite3.Connection, context: Context) -> str:
    if not context.default_session or context.directory is None:
        raise InvalidInput("sessionID is required by read; search-sessions lists the ids")
    found = latest_session(conn, session_directory(conn, context.directory))
    if found is None:
        raise NotInIndex(
            f"no session of the directory {context.directory} is indexed; name a sessionID "
            "from search-sessions"
        )
    return found


def _criteria(conn: sqlite3.Connection, values: Inputs, context: Context) -> Criteria:
    query = parse_query(values.get("query", ""))
    asked = query.project or values.get("project")
    directory = values.get("directory")
    if asked is None and directory is None:
        asked, directory = context.project, context.directory
    return Criteria(
        scope=resolve(conn, project=asked, directory=directory, home=context.home),
        words=query.words,
        excluded=query.excluded,
        path=PathFilter.of(query.path, context.home) if query.path else None,
        role=values.get("role"),
        dates=_dates(values, context),
    )


def _dates(values: Inputs, context: Context) -> DateRange | None:
    now = _now(values, context)
    return parse_dates(values["date"], now=now) if "date" in values else None


def _now(values: Inputs, context: Context) -> datetime:
    """Return the present in the time zone whose days are meant."""
    if "timezone" in values:
        return context.now.astimezone(zone(values["timezone"]))
    return context.now


_ALL: Final = (
    Tool(
        name="search-messages",
        summary="Find past sessions by what was said or done in them, with excerpts",
        description="Find past OpenCode sessions by what was said or done in them: messages, "
        "reasoning, tool inputs and outputs, edited paths, titles. Returns sessions, newest "
        "first, with an excerpt and a message id for every word; read shows what is around it. "
        + SYNTAX,
        parameters=SEARCH_MESSAGES,
        handler=_search_messages,
    ),
    Tool(
        name="search-sessions",
        summary="List past sessions, recent ones or those that match, without their content",
        description="List past OpenCode sessions, newest first, without their content: recent "
        "ones, or those that match a query. show=projects lists projects instead. " + SYNTAX,
        parameters=SEARCH_SESSIONS,
        handler=_search_sessions,
    ),
    Tool(
        name="search-edits",
        summary="Find which files were edited when, and what the user had asked for",
        description="Find edited files in past OpenCode sessions, newest first, each with the "
        "user's prompt before it and whether it is the path's first indexed edit. path: limits "
        "the edits to one file, other words choose the sessions. " + SYNTAX,
        parameters=SEARCH_EDITS,
        handler=_search_edits,
    ),
    Tool(
        name="read",
        summary="Read messages of one session: around a message, or page by page",
        description="Read the user's and the assistant's messages of one session in their order: "
        "around a messageID that a search returned, or page by page with limit and cursor. Tool "
        "calls show as [tool: NAME]; their inputs and reasoning are never shown.",
        parameters=READ,
        handler=_read,
    ),
)

TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _ALL}
