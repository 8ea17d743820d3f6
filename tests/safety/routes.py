"""Addresses for every route that a Datasette has registered, found by reading its patterns."""

from __future__ import annotations

import re
from typing import Any

VALUES = {
    "database": ["history"],
    "db_name": ["history"],
    "table": ["documents", "sessions", "parts", "messages", "documents_fts_data"],
    "pks": ["1048577", "ses_1"],
    "query": ["sessions"],
    "path": ["app.css", "history.css", "../../history.db"],
    "rest": ["/documents", ""],
    "tool": ["search-messages", "search-sessions", "search-edits", "read"],
    "session_id": ["ses_1"],
    "message_id": ["msg_1"],
    "part": ["0"],
    "project_id": ["prj"],
    "slug": ["history"],
    "chart_slug": ["sessions-per-day"],
    "format": ["json", "csv", "blob", "txt", "md", "jsono"],
}
"""What named groups stand for; none of these holds a word that must not leak."""


def addresses(datasette: Any) -> set[str]:
    """Return paths such that every registered route is met by at least one.

    Raises AssertionError for a route whose pattern gives none: add its group to VALUES.
    """
    found: set[str] = set()
    for pattern, _view in datasette._routes():
        text = pattern if isinstance(pattern, str) else pattern.pattern
        paths = {path for path in _expanded(text) if re.match(text, path)}
        assert paths, f"no address is known for the route {text}"
        found |= paths
    return found


def _expanded(pattern: str) -> list[str]:
    """Return what a pattern can match: each value for each group, with and without optionals."""
    before, found, rest = _first_group(pattern)
    if found is None:
        return [re.sub(r"\\(.)", r"\1", pattern).removeprefix("^").removesuffix("$")]
    name, inner, optional = found
    if name is not None:
        values = [v for v in VALUES.get(name, ["1"]) if re.fullmatch(inner, v)]
        # Alternatives that are spelled out are the only values there are.
        values = values or re.findall(r"[\w-]+", inner)[:1]
        middles = [re.escape(value) for value in values]
    else:
        middles = [inner.removeprefix("?:")]
    middles += [""] * optional
    return [path for middle in middles for path in _expanded(before + middle + rest)]


def _first_group(pattern: str) -> tuple[str, tuple[str | None, str, bool] | None, str]:
    start = _next_open(pattern)
    if start is None:
        return pattern, None, ""
    depth, at = 0, start
    while True:
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "(":
            depth += 1
        elif pattern[at] == ")":
            depth -= 1
            if depth == 0:
                break
        at += 1
    inner, rest = pattern[start + 1 : at], pattern[at + 1 :]
    optional = rest.startswith("?")
    named = re.match(r"\?P<(\w+)>", inner)
    name = named[1] if named else None
    return (
        pattern[:start],
        (name, inner[named.end() :] if named else inner, optional),
        rest[1:] if optional else rest,
    )


def _next_open(pattern: str) -> int | None:
    escaped = False
    for at, character in enumerate(pattern):
        if character == "(" and not escaped:
            return at
        escaped = character == "\\" and not escaped
    return None
