"""The inputs of the four tools, with the words that describe them to people and models."""

from __future__ import annotations

from typing import Final

from datasette_history.dates import FORMS
from datasette_history.inputs import Parameter
from datasette_history.query import MAX_WORDS, MIN_WORD

SYNTAX: Final = (
    'Query: words and "quoted phrases" must all occur in the session, in any message or the '
    f"title; case does not matter; at least {MIN_WORD} characters each, at most {MAX_WORDS} of "
    'them. -word or -"a phrase" drops sessions that contain it. path:src/auth.ts keeps sessions '
    "that edited that file. project:ID, project:/path or project:all chooses what is searched. "
    "No OR, no parentheses, no wildcards."
)

PROJECTS_CAP: Final = 100
"""Projects that show=projects returns at most."""


def _limit(default: int, cap: int) -> Parameter:
    return Parameter(
        name="limit",
        kind="integer",
        description=f"How many results at most; {default} if missing, more than {cap} is {cap}.",
        minimum=1,
        cap=cap,
        default=default,
    )


_QUERY: Final = Parameter(name="query", kind="string", description=SYNTAX, may_be_empty=True)
_ROLE: Final = Parameter(
    name="role",
    kind="string",
    description="Whose messages the words can match; titles always count. Both if missing.",
    choices=("user", "assistant"),
)
_SCOPE: Final = (
    Parameter(
        name="project",
        kind="string",
        description="What is searched, unless the query says it: a project's ID, a path "
        "(the projects with a session there or below, whole), or all.",
    ),
    Parameter(
        name="directory",
        kind="string",
        description="Your working directory: its project is searched where no project is named.",
    ),
)
_TIMEZONE: Final = Parameter(
    name="timezone",
    kind="string",
    description="IANA name of the time zone that the date's days belong to, such as Europe/Berlin.",
)
_FOLD: Final = Parameter(
    name="foldSubagents",
    kind="boolean",
    description="List the root session, once, for all of its subagents that match; false if "
    "missing.",
    default=False,
)


def _date(effect: str) -> Parameter:
    return Parameter(name="date", kind="string", description=f"{effect}: {FORMS}.")


_MESSAGE_DATE: Final = _date("Only messages of these days can match")

SEARCH_MESSAGES: Final = (
    Parameter(name="query", kind="string", description=SYNTAX, required=True),
    _ROLE,
    _MESSAGE_DATE,
    _limit(50, 50),
    *_SCOPE,
    _TIMEZONE,
    _FOLD,
)

SEARCH_SESSIONS: Final = (
    _QUERY,
    _ROLE,
    _MESSAGE_DATE,
    _limit(20, 50),
    *_SCOPE,
    _TIMEZONE,
    _FOLD,
    Parameter(
        name="show",
        kind="string",
        description="sessions, or projects: the projects that match, with their "
        f"directories and numbers of sessions, largest first, up to {PROJECTS_CAP}.",
        choices=("sessions", "projects"),
        default="sessions",
    ),
)

SEARCH_EDITS: Final = (
    _QUERY,
    _ROLE,
    _date("Only edits of these days"),
    _limit(50, 50),
    *_SCOPE,
    _TIMEZONE,
)

READ: Final = (
    Parameter(name="sessionID", kind="string", description="Session to read."),
    Parameter(
        name="messageID",
        kind="string",
        description="Message to read around; not together with cursor or limit.",
    ),
    Parameter(
        name="before",
        kind="integer",
        minimum=0,
        maximum=50,
        default=5,
        description="Messages before messageID.",
    ),
    Parameter(
        name="after",
        kind="integer",
        minimum=0,
        maximum=50,
        default=5,
        description="Messages after messageID.",
    ),
    Parameter(
        name="cursor",
        kind="string",
        description="Go on after this message: the nextCursor of the last answer.",
    ),
    _limit(20, 100),
    Parameter(
        name="role",
        kind="string",
        choices=("user", "assistant"),
        description="Only messages of this role.",
    ),
    Parameter(
        name="maxCharsPerMessage",
        kind="integer",
        minimum=100,
        maximum=20_000,
        default=2000,
        description="Where to cut each message's content, in UTF-16 code units.",
    ),
    Parameter(
        name="includeToolResults",
        kind="boolean",
        default=False,
        description="Show what tools returned.",
    ),
)
