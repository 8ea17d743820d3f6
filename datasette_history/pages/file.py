"""The page of a file: every edit of it, with what was asked for and what changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from datasette import Response

from datasette_history.edits import search_edits
from datasette_history.errors import InvalidInput, NotInIndex
from datasette_history.inputs import MAX_TEXT
from datasette_history.matching import Criteria, PathFilter
from datasette_history.pages.calls import Call, build_call
from datasette_history.pages.conversation import Message, load_messages
from datasette_history.pages.diffs import Diff
from datasette_history.pages.shown import full_path
from datasette_history.pages.site import Site, argument, with_site
from datasette_history.paths import comparable, is_absolute
from datasette_history.results import Edit
from datasette_history.web import context

STEP: Final = 50
MAX_SHOWN: Final = 500

_DOCUMENT = "SELECT id FROM documents WHERE session_id = ? AND message_id = ?"


@dataclass(frozen=True, slots=True)
class Change:
    """An edit with its diffs; none where only a command or snapshot tells of it."""

    edit: Edit
    diffs: Sequence[Diff]


@with_site
async def file_page(site: Site) -> Response:
    """Answer ``/-/history/file?path=``; a relative path is the end of one or several."""
    path = argument(site.request, "path").strip()
    if not path or len(path) > MAX_TEXT:
        raise InvalidInput(
            f"path must name a file, in up to {MAX_TEXT} characters: /-/history/file?path=/src/a.ts"
        )
    limit = _limit(argument(site.request, "limit"))

    def question(conn: sqlite3.Connection) -> tuple[list[Change], bool]:
        return load_changes(conn, path, limit, home=context().home)

    changes, more = await site.ask(question)
    if not changes:
        raise NotInIndex(f"no edit of {path!r} is indexed")
    paths = sorted({change.edit.path for change in changes})
    values = {"path": path, "paths": paths, "changes": changes, "more": more, "limit": limit}
    return await site.page("history_file.html", values)


def load_changes(
    conn: sqlite3.Connection, path: str, limit: int, *, home: str | None
) -> tuple[list[Change], bool]:
    """Return up to limit edits of a file, newest first, and whether there are more."""
    found = search_edits(conn, Criteria(path=PathFilter.of(path, home)), limit)
    return [Change(edit, _diffs(conn, edit)) for edit in found.edits], found.has_more


def _diffs(conn: sqlite3.Connection, edit: Edit) -> list[Diff]:
    row = conn.execute(_DOCUMENT, (edit.session.id, edit.message_id)).fetchone()
    (message,) = load_messages(conn, [row[0]])
    wanted = _same(edit.path)
    return [
        diff
        for call in _calls(message)
        if not call.failed
        for diff in call.diffs
        if _same(full_path(diff.path, edit.session.directory)) == wanted
    ]


def _calls(message: Message) -> Iterable[Call]:
    numbers = dict.fromkeys(part.call for part in message.parts if part.call is not None)
    for number in numbers:
        yield build_call([part for part in message.parts if part.call == number])


def _same(path: str) -> str:
    return comparable(path) if is_absolute(path) else path


def _limit(text: str) -> int:
    if not text:
        return STEP
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_SHOWN:
        raise InvalidInput(f"limit cannot be {text[:60]!r}; use a number from 1 to {MAX_SHOWN}")
    return int(text)
