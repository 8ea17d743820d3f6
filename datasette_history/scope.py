"""From what a caller says about projects to the sessions that are searched."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from datasette_history.errors import InvalidInput
from datasette_history.paths import comparable, expand_home, is_absolute, is_within
from datasette_history.results import Scope

ALL: Final = "all"

SHARED_PROJECT: Final = "global"
"""V1's project of every directory without git: one id for many unrelated places."""

_DIRECTORIES = """
SELECT directory, project_id FROM sessions
WHERE directory IS NOT NULL
GROUP BY directory, project_id
"""

_WORKTREES = """
SELECT p.directory, p.project_id FROM project_directories p
WHERE p.project_id <> 'global'
  AND EXISTS (SELECT 1 FROM sessions s WHERE s.project_id = p.project_id)
"""

_KNOWN = "SELECT EXISTS (SELECT 1 FROM sessions WHERE project_id = ?)"


def resolve(
    conn: sqlite3.Connection, *, project: str | None, directory: str | None, home: str | None
) -> Scope:
    """Return the scope of a project (ID, absolute path, ``~/path`` or ``all``) or directory.

    project goes before directory. A directory that belongs to no indexed project, and
    neither being given, mean every session. A project or path that is not indexed gives an
    empty scope, so that a mistyped one never searches somewhere else. Raises InvalidInput
    for a directory that is not absolute.
    """
    if project == ALL:
        return Scope()
    if project is not None:
        path = expand_home(project, home)
        if is_absolute(path):
            return _below(conn, comparable(path), project)
        known = conn.execute(_KNOWN, (project,)).fetchone()[0]
        return Scope(projects=(project,) if known else (), asked=project)
    if directory is None:
        return Scope()
    path = expand_home(directory, home)
    if not is_absolute(path):
        raise InvalidInput(
            f"directory {directory[:200]!r} is not an absolute path, so nobody can tell where "
            "it is; give the whole path"
        )
    return _around(conn, comparable(path), directory)


def session_directory(conn: sqlite3.Connection, directory: str) -> tuple[str, ...]:
    """Return the spellings, in the index, of the longest session directory that is an
    absolute path or above it; none where there is no such directory."""
    wanted = comparable(directory)
    found = [(comparable(own), own) for own, _ in _rows(conn, _DIRECTORIES)]
    above = [pair for pair in found if is_within(wanted, pair[0])]
    longest = max((same for same, _ in above), key=len, default=None)
    return tuple(sorted({own for same, own in above if same == longest}))


def _below(conn: sqlite3.Connection, path: str, asked: str) -> Scope:
    """The projects with a session, or a worktree's root, in path or below it, whole."""
    roots = [*_rows(conn, _DIRECTORIES), *_rows(conn, _WORKTREES)]
    return _scope([row for row in roots if is_within(comparable(row[0]), path)], asked)


def _around(conn: sqlite3.Connection, path: str, asked: str) -> Scope:
    """The project whose longest session directory, or worktree root, is path or above it."""
    sessions = list(_rows(conn, _DIRECTORIES))
    roots = [(comparable(own), own, project) for own, project in sessions]
    roots += [(comparable(own), own, project) for own, project in _rows(conn, _WORKTREES)]
    above = [root for root in roots if is_within(path, root[0])]
    if not above:
        return Scope()
    longest = max((same for same, _, _ in above), key=len)
    rows = [(own, project) for same, own, project in above if same == longest]
    if any(_is_shared(project) for _, project in rows):
        rows += [
            (own, project)
            for own, project in sessions
            if _is_shared(project) and is_within(comparable(own), longest)
        ]
    return _scope(rows, asked)


def _scope(rows: list[tuple[str, str | None]], asked: str) -> Scope:
    return Scope(
        projects=tuple(sorted({p for _, p in rows if p is not None and not _is_shared(p)})),
        directories=tuple(sorted({own for own, project in rows if _is_shared(project)})),
        asked=asked,
    )


def _is_shared(project_id: str | None) -> bool:
    return project_id is None or project_id == SHARED_PROJECT


def _rows(conn: sqlite3.Connection, sql: str) -> Iterator[tuple[str, str | None]]:
    yield from conn.execute(sql)
