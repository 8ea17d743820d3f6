"""The searches for sessions: with the messages that match, without them, or by project."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from datasette_history.excerpts import excerpt
from datasette_history.grouping import Behind, Groups
from datasette_history.matching import Criteria, Matcher
from datasette_history.postings import RARE
from datasette_history.results import (
    Hit,
    MessageMatches,
    ProjectList,
    ProjectMatches,
    SessionHits,
    SessionInfo,
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
    conn: sqlite3.Connection,
    criteria: Criteria,
    limit: int,
    *,
    fold_subagents: bool = False,
    rare: int = RARE,
) -> MessageMatches:
    """Return up to limit matching sessions, newest first, each with a hit for every word.

    A word's hit is the first message that holds it, and the title only where none does. Forks
    that match only by what they copied stand behind their origin; so do subagents behind their
    root with fold_subagents, which then lends them its place and they it their hits.
    """
    matcher = Matcher(conn, criteria, rare=rare)
    groups = Groups(conn, matcher, criteria, fold_subagents=fold_subagents)
    nums = list(islice(groups.heads(), limit + 1))
    behind = {num: groups.behind(num) for num in nums[:limit]}
    infos = load_sessions(conn, {*behind, *(one.shown for one in behind.values())})
    found = []
    for num, one in behind.items():
        hits = _hits(matcher, one.shown, criteria.words)
        if one.shown != num:
            hits = tuple(replace(hit, session_id=infos[one.shown].id) for hit in hits)
        found.append(SessionHits(_listed(infos, num, one), hits))
    return MessageMatches(tuple(found), has_more=len(nums) > limit)


def search_sessions(
    conn: sqlite3.Connection,
    criteria: Criteria,
    limit: int,
    *,
    fold_subagents: bool = False,
    rare: int = RARE,
) -> SessionList:
    """Return up to limit matching sessions, newest first; without words, all match.

    Forks and subagents stand behind others as in search_messages.
    """
    matcher = Matcher(conn, criteria, rare=rare)
    groups = Groups(conn, matcher, criteria, fold_subagents=fold_subagents)
    nums = list(islice(groups.heads(), limit + 1))
    infos = load_sessions(conn, nums[:limit])
    listed = (_listed(infos, num, groups.behind(num)) for num in nums[:limit])
    return SessionList(tuple(listed), has_more=len(nums) > limit)


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


def _listed(infos: Mapping[int, SessionInfo], num: int, behind: Behind) -> SessionInfo:
    return replace(infos[num], forks=behind.forks, subagents=behind.subagents)


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
