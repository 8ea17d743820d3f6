"""The searches for sessions: with the messages that match, without them, or by project."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice
from typing import Final

from datasette_history.excerpts import excerpt
from datasette_history.matching import Criteria, Matcher
from datasette_history.postings import RARE
from datasette_history.results import (
    Hit,
    MessageMatches,
    ProjectList,
    ProjectMatches,
    SessionHits,
    SessionList,
)
from datasette_history.schema import TITLE_MESSAGE_ID
from datasette_history.sessions import load_sessions

MAX_DIRECTORIES: Final = 20
"""Directories listed for one project."""

_PLACES = """
SELECT project_id, directory FROM sessions
WHERE num IN (SELECT value FROM json_each(:nums))
"""


def search_messages(
    conn: sqlite3.Connection, criteria: Criteria, limit: int, *, rare: int = RARE
) -> MessageMatches:
    """Return up to limit matching sessions, newest first, each with a hit for every word.

    A word's hit is the first message that holds it, and the title only where none does.
    """
    matcher = Matcher(conn, criteria, rare=rare)
    nums = list(islice(matcher.newest_first(), limit + 1))
    infos = load_sessions(conn, nums[:limit])
    return MessageMatches(
        tuple(SessionHits(infos[num], _hits(matcher, num, criteria.words)) for num in nums[:limit]),
        has_more=len(nums) > limit,
    )


def search_sessions(
    conn: sqlite3.Connection, criteria: Criteria, limit: int, *, rare: int = RARE
) -> SessionList:
    """Return up to limit matching sessions, newest first; without words, all match."""
    nums = list(islice(Matcher(conn, criteria, rare=rare).newest_first(), limit + 1))
    infos = load_sessions(conn, nums[:limit])
    return SessionList(tuple(infos[num] for num in nums[:limit]), has_more=len(nums) > limit)


def search_projects(
    conn: sqlite3.Connection, criteria: Criteria, limit: int, *, rare: int = RARE
) -> ProjectList:
    """Return up to limit projects with matching sessions, those with most of them first."""
    nums = list(Matcher(conn, criteria, rare=rare).all())
    places: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    sessions: Counter[str | None] = Counter()
    for project_id, directory in conn.execute(_PLACES, {"nums": json.dumps(nums)}):
        sessions[project_id] += 1
        places[project_id].update([directory] if directory else ())
    ranked = sorted(sessions, key=lambda project: (-sessions[project], project or ""))
    return ProjectList(
        tuple(_project(one, places[one], sessions[one]) for one in ranked[:limit]),
        has_more=len(ranked) > limit,
    )


def _project(project_id: str | None, places: Counter[str], sessions: int) -> ProjectMatches:
    directories = sorted(places, key=lambda directory: (-places[directory], directory))
    return ProjectMatches(
        project_id=project_id,
        directories=tuple(directories[:MAX_DIRECTORIES]),
        directories_omitted=max(len(directories) - MAX_DIRECTORIES, 0),
        sessions=sessions,
    )


def _hits(matcher: Matcher, num: int, words: Iterable[str]) -> tuple[Hit, ...]:
    hits = []
    for word in words:
        first = matcher.first_match(num, word)
        hits.append(
            Hit(
                word=word,
                message_id=None if first.message_id == TITLE_MESSAGE_ID else first.message_id,
                role=first.role,
                timestamp_ms=first.timestamp_ms,
                excerpt=excerpt(first.text, word),
                copied=first.copied,
                reverted=first.reverted,
            )
        )
    return tuple(hits)
