"""The page of a project: where it lives, what went on in it, and what it cost."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from datasette import Response

from datasette_history.errors import NotInIndex
from datasette_history.pages.site import Site, path_variable, with_site
from datasette_history.results import SessionInfo
from datasette_history.sessions import load_sessions

WEEKS: Final = 53
"""Weeks of the chart, up to the last one with a message."""

RECENT: Final = 30
FILES: Final = 25

_PROJECT = "SELECT directory, name, vcs, created FROM projects WHERE id = ?"

_SESSIONS = """
SELECT count(*), count(parent_id), min(created), max(updated) FROM sessions WHERE project_id = ?
"""

_DIRECTORIES = """
SELECT directory, count(*), max(updated) FROM sessions
WHERE project_id = ? AND directory IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 100
"""

# Copies that a fork made were paid for, and happened, in the session they came from.
_USE = """
SELECT date(d.timestamp / 1000, 'unixepoch', 'localtime'), d.model, count(*), sum(d.cost),
  sum(coalesce(d.tokens_input, 0) + coalesce(d.tokens_output, 0) + coalesce(d.tokens_reasoning, 0)
    + coalesce(d.tokens_cache_read, 0) + coalesce(d.tokens_cache_write, 0))
FROM sessions s CROSS JOIN documents d ON d.session_id = s.id
WHERE s.project_id = ? AND d.seq >= 0 AND d.copied = 0
  AND d.role IN ('user', 'assistant', 'shell', 'compaction')
GROUP BY 1, 2
"""

_RECENT = """
SELECT num FROM sessions WHERE project_id = ? AND parent_id IS NULL
ORDER BY updated DESC, id DESC LIMIT ?
"""

_FILES = """
SELECT e.path, count(*), max(e.timestamp)
FROM sessions s CROSS JOIN document_paths e
  ON e.document_id BETWEEN s.num << 20 AND ((s.num + 1) << 20) - 1
WHERE s.project_id = ? GROUP BY 1 ORDER BY 2 DESC, 3 DESC, 1 LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Week:
    """Messages of one week; monday is its first day."""

    monday: date
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What one model was used for. cost in US dollars, None where none is known."""

    model: str
    messages: int
    tokens: int
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project as its page shows it; costs in US dollars, None where unknown."""

    id: str
    directory: str | None
    name: str | None
    vcs: str | None
    sessions: int
    subagents: int
    first_ms: int | None
    last_ms: int | None
    directories: Sequence[tuple[str, int, int]]
    weeks: Sequence[Week]
    models: Sequence[ModelUse]
    recent: Sequence[SessionInfo]
    files: Sequence[tuple[str, int, int]]

    @property
    def messages(self) -> int:
        return sum(use.messages for use in self.models)

    @property
    def tokens(self) -> int:
        return sum(use.tokens for use in self.models)

    @property
    def busiest(self) -> int:
        """Return the messages of the week that has most, at least 1."""
        return max([1, *(week.messages for week in self.weeks)])

    @property
    def cost(self) -> float | None:
        return _sum(use.cost for use in self.models)


@with_site
async def project_page(site: Site) -> Response:
    """Answer ``/-/history/project/ID``."""
    project_id = path_variable(site.request, "project_id")
    project = await site.ask(lambda conn: load_project(conn, project_id))
    return await site.page("history_project.html", {"project": project})


def load_project(conn: sqlite3.Connection, project_id: str) -> Project:
    """Return what is known of a project; raise NotInIndex where nothing is."""
    row = conn.execute(_PROJECT, (project_id,)).fetchone()
    sessions, subagents, first, last = conn.execute(_SESSIONS, (project_id,)).fetchone()
    if row is None and not sessions:
        raise NotInIndex(f"project {project_id!r} is not in the index")
    directory, name, vcs, _ = row or (None, None, None, None)
    days, models = _use(conn, project_id)
    nums = [num for (num,) in conn.execute(_RECENT, (project_id, RECENT))]
    found = load_sessions(conn, nums)
    return Project(
        id=project_id,
        directory=directory,
        name=name,
        vcs=vcs,
        sessions=sessions,
        subagents=subagents,
        first_ms=first,
        last_ms=last,
        directories=conn.execute(_DIRECTORIES, (project_id,)).fetchall(),
        weeks=_weeks(days),
        models=models,
        recent=[found[num] for num in nums],
        files=conn.execute(_FILES, (project_id, FILES)).fetchall(),
    )


def _use(conn: sqlite3.Connection, project_id: str) -> tuple[dict[date, int], list[ModelUse]]:
    """Return the messages of each day, and the use of each model, dearest first."""
    days: defaultdict[date, int] = defaultdict(int)
    models: dict[str, ModelUse] = {}
    for day, model, messages, cost, tokens in conn.execute(_USE, (project_id,)):
        # A time beyond the year 9999 has no date.
        if day is not None and len(day) == 10:
            days[date.fromisoformat(day)] += messages
        name = model or ""
        before = models.get(name) or ModelUse(model=name, messages=0, tokens=0, cost=None)
        models[name] = ModelUse(
            model=name,
            messages=before.messages + messages,
            tokens=before.tokens + tokens,
            cost=_sum((before.cost, cost)),
        )
    ranked = sorted(models.values(), key=lambda use: (-(use.cost or 0), -use.tokens, use.model))
    return days, ranked


def _weeks(days: dict[date, int]) -> list[Week]:
    """Return the weeks up to the last one with a message, those without any included."""
    messages: defaultdict[date, int] = defaultdict(int)
    for day, count in days.items():
        messages[day - timedelta(days=day.weekday())] += count
    if not messages:
        return []
    last = max(messages)
    first = max(min(messages), last - timedelta(weeks=WEEKS - 1))
    return [
        Week(monday, messages.get(monday, 0))
        for monday in (
            first + timedelta(weeks=number) for number in range((last - first).days // 7 + 1)
        )
    ]


def _sum(costs: Iterable[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
