"""What the search page finds: the results of one tab, and how many the others have."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from datasette_history.dates import DateRange
from datasette_history.edits import search_edits
from datasette_history.excerpts import find
from datasette_history.matching import ALWAYS, Criteria, Matcher
from datasette_history.pages.shown import moment
from datasette_history.pages.wanted import STEP, Wanted, undated
from datasette_history.postings import phrase
from datasette_history.results import (
    EditList,
    Hit,
    Indexing,
    MessageMatches,
    ProjectList,
    SessionHits,
    SessionInfo,
    SessionList,
)
from datasette_history.schema import SLOT_BITS
from datasette_history.search import search_messages, search_projects, search_sessions
from datasette_history.status import indexing

COUNTING_S: Final = 0.25
"""How long sessions are counted before "and more" is said instead."""

MAX_COUNTED: Final = 2_000
"""Messages that are counted."""

MESSAGE_STEP: Final = 20
"""Sessions with excerpts on a page of messages."""

NO_PATH: Final = {"basename": None, "paths": "[]", "path": None}

# CROSS JOIN keeps the full-text index in the outer loop.
_COUNT_MESSAGES = """
SELECT count(*) FROM (
  SELECT 1 FROM documents_fts f CROSS JOIN documents d ON d.id = f.rowid
  WHERE documents_fts MATCH :phrases AND d.seq >= 0
    AND (d.id >> :bits) IN (SELECT value FROM json_each(:nums))
    AND (:role IS NULL OR d.role = :role) AND d.timestamp >= :start AND d.timestamp < :end
  LIMIT :limit
)
"""

_COUNT_EDITS = """
SELECT count(*) FROM json_each(:nums) wanted
CROSS JOIN document_paths e
  ON e.document_id BETWEEN wanted.value << :bits AND ((wanted.value + 1) << :bits) - 1
WHERE e.timestamp >= :start AND e.timestamp < :end
  AND (:basename IS NULL OR e.basename = :basename AND CASE WHEN :absolute
    THEN e.path IN (SELECT value FROM json_each(:paths))
    ELSE e.path = :path OR substr(e.path, -length(:path) - 1) = '/' || :path END)
"""

_PROJECTS_OF = """
SELECT DISTINCT coalesce(project_id, '') FROM sessions
WHERE num IN (SELECT value FROM json_each(:nums))
"""

_EXTRAS = """
SELECT s.num, s.agent, s.model, coalesce(p.name, p.directory, s.project_id),
  (SELECT count(*) FROM documents d WHERE d.session_id = s.id AND d.seq >= 0)
FROM sessions s LEFT JOIN projects p ON p.id = s.project_id
WHERE s.num IN (SELECT value FROM json_each(:nums))
"""


@dataclass(frozen=True, slots=True)
class Count:
    """How many; more: there are more than were counted."""

    value: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}{'+' if self.more else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """What a result says of its session besides. project: a name or path to show."""

    agent: str | None
    model: str | None
    project: str | None
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Sessions of one day; label is empty where results are not grouped."""

    label: str
    sessions: Sequence[SessionInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one search found.

    tab: whose results these are. counts: by tab; none for messages without a word.
    unknown_project: what was named as a project and holds no session, None otherwise.
    total: sessions in the whole index. extras: by session number.
    """

    tab: str
    words: tuple[str, ...]
    counts: Mapping[str, Count]
    messages: MessageMatches | None = None
    sessions: SessionList | None = None
    days: Sequence[Day] = ()
    projects: ProjectList | None = None
    edits: EditList | None = None
    extras: Mapping[int, Extra]
    indexing: Indexing | None
    unknown_project: str | None
    total: int

    @property
    def has_more(self) -> bool:
        result = self.messages or self.sessions or self.projects or self.edits
        return result is not None and result.has_more


def search(
    conn: sqlite3.Connection, wanted: Wanted, machine_now: datetime, home: str | None
) -> Found:
    """Return what was found; raise InvalidInput where the inputs make no sense.

    machine_now: the present; home: what ``~`` in a path stands for.
    """
    now = wanted.now(machine_now)
    criteria = wanted.criteria(conn, now, home)
    default = "messages" if criteria.words else "sessions"
    tab = wanted.tab if wanted.tab and (criteria.words or wanted.tab != "messages") else default
    messages = sessions = projects = edits = None
    infos: list[SessionInfo] = []
    if tab == "messages":
        limit = wanted.limit if wanted.limit > STEP else MESSAGE_STEP
        messages = _without_repetition(search_messages(conn, criteria, limit))
        infos = [one.session for one in messages.sessions]
    elif tab == "sessions":
        sessions = search_sessions(conn, criteria, wanted.limit)
        infos = list(sessions.sessions)
    elif tab == "projects":
        projects = search_projects(conn, criteria, wanted.limit)
    else:
        edits = search_edits(conn, undated(criteria), wanted.limit, dates=criteria.dates)
        infos = [edit.session for edit in edits.edits]
    return Found(
        tab=tab,
        words=criteria.words,
        counts=_counts(conn, criteria),
        messages=messages,
        sessions=sessions,
        days=_days(infos, now) if sessions else (),
        projects=projects,
        edits=edits,
        extras=_extras(conn, infos),
        indexing=indexing(conn, now_ms=round(machine_now.timestamp() * 1000)),
        unknown_project=criteria.scope.asked if criteria.scope.is_empty else None,
        total=conn.execute("SELECT count(*) FROM sessions").fetchone()[0],
    )


def _without_repetition(found: MessageMatches) -> MessageMatches:
    """Return the hits without those that an excerpt of the same message shows already."""

    def is_news(place: int, hits: Sequence[Hit]) -> bool:
        hit = hits[place]
        return not any(
            before.message_id == hit.message_id and find(before.excerpt, hit.word) >= 0
            for before in hits[:place]
        )

    return MessageMatches(
        tuple(
            SessionHits(
                one.session,
                tuple(hit for place, hit in enumerate(one.hits) if is_news(place, one.hits)),
            )
            for one in found.sessions
        ),
        found.has_more,
    )


def _counts(conn: sqlite3.Connection, criteria: Criteria) -> dict[str, Count]:
    dates = criteria.dates or ALWAYS
    nums, more = _matching(conn, criteria)
    wanted = {"nums": json.dumps(nums), "bits": SLOT_BITS}
    counts = {
        "sessions": Count(len(nums), more),
        "projects": Count(len(conn.execute(_PROJECTS_OF, wanted).fetchall()), more),
        "edits": _count_edits(conn, criteria, dates, nums, more),
    }
    if criteria.words:
        found: int = conn.execute(
            _COUNT_MESSAGES,
            {
                **wanted,
                "phrases": " OR ".join(f"({phrase(word)})" for word in criteria.words),
                "role": criteria.role,
                "start": dates.start_ms,
                "end": dates.end_ms,
                "limit": MAX_COUNTED + 1,
            },
        ).fetchone()[0]
        over = found > MAX_COUNTED
        counts["messages"] = Count(min(found, MAX_COUNTED), more or over)
    return counts


def _count_edits(
    conn: sqlite3.Connection, criteria: Criteria, dates: DateRange, nums: list[int], more: bool
) -> Count:
    if criteria.dates:
        nums, more = _matching(conn, undated(criteria))
    found = conn.execute(
        _COUNT_EDITS,
        {
            "nums": json.dumps(nums),
            "bits": SLOT_BITS,
            "start": dates.start_ms,
            "end": dates.end_ms,
            "absolute": criteria.path is not None and criteria.path.absolute,
            **(criteria.path.parameters() if criteria.path else NO_PATH),
        },
    ).fetchone()[0]
    return Count(found, more)


def _matching(conn: sqlite3.Connection, criteria: Criteria) -> tuple[list[int], bool]:
    """Return the matching sessions, newest first, as many as there is time for."""
    deadline = time.monotonic() + COUNTING_S
    nums = []
    for num in Matcher(conn, criteria).newest_first():
        nums.append(num)
        if time.monotonic() > deadline:
            return nums, True
    return nums, False


def _extras(conn: sqlite3.Connection, sessions: Iterable[SessionInfo]) -> dict[int, Extra]:
    nums = json.dumps(sorted({session.num for session in sessions}))
    return {
        num: Extra(agent=agent, model=model, project=project, messages=messages)
        for num, agent, model, project, messages in conn.execute(_EXTRAS, {"nums": nums})
    }


def _days(sessions: Iterable[SessionInfo], now: datetime) -> list[Day]:
    def label(session: SessionInfo) -> str:
        when = moment(session.updated_ms, now.tzinfo)
        if when is None:
            return "At an unknown time"
        day = when.date()
        names = {now.date(): "Today", now.date() - timedelta(days=1): "Yesterday"}
        return f"{names.get(day, f'{when:%A}')}, {day.isoformat()}"

    return [Day(label=day, sessions=list(group)) for day, group in groupby(sessions, label)]
