"""The filters of the search page and what each offers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from datasette_history.pages.shown import base_name, one_line

PRESETS: Final = (
    ("today", "Today"),
    ("yesterday", "Yesterday"),
    ("last 7 days", "Last 7 days"),
    ("last 30 days", "Last 30 days"),
    ("last 3 months", "Last 3 months"),
    ("last 12 months", "Last 12 months"),
)

# The project's own name, else the folder of its repository, else where its sessions ran.
_PROJECTS = """
SELECT s.project_id, p.name, coalesce(p.directory, min(s.directory), s.project_id), count(*)
FROM sessions s LEFT JOIN projects p ON p.id = s.project_id
WHERE s.project_id IS NOT NULL GROUP BY s.project_id ORDER BY max(s.updated) DESC LIMIT 200
"""

_AGENTS = "SELECT agent FROM sessions WHERE agent <> '' GROUP BY 1 ORDER BY count(*) DESC LIMIT 100"
_MODELS = "SELECT model FROM sessions WHERE model <> '' GROUP BY 1 ORDER BY count(*) DESC LIMIT 100"


@dataclass(frozen=True, slots=True)
class Control:
    """One filter. options: value and label; the first is the one that filters nothing."""

    name: str
    label: str
    options: Sequence[tuple[str, str]]
    chosen: str


def load_controls(conn: sqlite3.Connection, given: Mapping[str, str]) -> dict[str, Control]:
    """Return the filters by name. A value that is not on offer stays chosen all the same."""
    projects = [
        (project_id, f"{one_line(name or base_name(directory), 40)} ({count:,})")
        for project_id, name, directory, count in conn.execute(_PROJECTS)
    ]
    return {
        name: _control(name, label, options, given.get(name, ""))
        for name, label, options in (
            ("project", "Project", [("", "All projects"), *projects]),
            ("date", "When", [("", "Any time"), *PRESETS]),
            ("role", "Said by", [("", "Anybody"), ("user", "User"), ("assistant", "Assistant")]),
            ("agent", "Agent", [("", "Any"), *_texts(conn, _AGENTS)]),
            ("model", "Model", [("", "Any"), *_texts(conn, _MODELS)]),
            ("archived", "Archived", [("", "Shown"), ("hide", "Hidden"), ("only", "Only these")]),
            (
                "subagents",
                "Subagents",
                [
                    ("", "In searches"),
                    ("all", "Always"),
                    ("hide", "Hidden"),
                    ("only", "Only these"),
                ],
            ),
        )
    }


def _control(name: str, label: str, options: list[tuple[str, str]], chosen: str) -> Control:
    if chosen not in {value for value, _ in options}:
        options = [*options, (chosen, one_line(chosen, 40))]
    return Control(name, label, options, chosen)


def _texts(conn: sqlite3.Connection, sql: str) -> Iterable[tuple[str, str]]:
    return [(text, one_line(text, 40)) for (text,) in conn.execute(sql)]
