"""Cells of Datasette's own tables: readable times and costs, links to the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

from datasette_history.config import Config
from datasette_history.pages.shown import money, one_line, size, visible
from datasette_history.render import iso
from datasette_history.schema import APPLICATION_ID

if TYPE_CHECKING:
    from datasette.app import Datasette

SHOWN: Final = 300
"""Code points of a long text that a cell shows."""

TIMES: Final[Mapping[str, frozenset[str]]] = {
    "sources": frozenset({"last_sync"}),
    "projects": frozenset({"created", "updated"}),
    "sessions": frozenset({"created", "updated", "archived", "fetched_at", "deleted_at"}),
    "session_copies": frozenset({"activity"}),
    "documents": frozenset({"timestamp"}),
    "parts": frozenset({"started", "ended"}),
    "document_paths": frozenset({"timestamp"}),
    "tombstones": frozenset({"deleted_at"}),
    "problems": frozenset({"found_at"}),
    "syncs": frozenset({"started", "heartbeat", "finished"}),
}
"""Columns that hold times in milliseconds, by table."""

SESSIONS: Final = frozenset({"session_id", "parent_id", "forked_from"})
TEXTS: Final = frozenset({"text", "input", "output", "error"})

_APPLICATION_ID_AT: Final = 68  # in the header of every SQLite file


@dataclass(frozen=True, slots=True)
class _Cell:
    """value: what the cell holds; label: what a foreign key stands for, if that is known."""

    row: Any
    value: Any
    label: str | None
    column: str
    table: str | None
    link: Callable[..., str]

    def other(self, column: str) -> Any:
        """Return what another cell of the row holds, None where there is no such column."""
        return _value(self.row[column])[0] if column in self.row.keys() else None  # noqa: SIM118


def render(
    datasette: Datasette, database: str, table: str | None, row: Any, column: str, value: Any
) -> Markup | None:
    """Return how a cell is shown; None leaves it to Datasette, as in other databases."""
    plain, label = _value(value)
    if plain is None or plain == "" or not holds_index(datasette, database):
        return None

    def link(path: str, message_id: str | None = None, /, **query: str) -> str:
        if _is_one_of_several(datasette, database):
            query["database"] = database
        if message_id:
            query["at"] = message_id
        address = datasette.urls.path(f"/-/history/{path}")
        at = f"#{quote(message_id, safe='')}" if message_id else ""
        return f"{address}{f'?{urlencode(query)}' if query else ''}{at}"

    cell = _Cell(row, plain, label, column, table, link)
    for kind in (_time, _cost, _title, _session, _message, _path, _project, _text):
        if (shown := kind(cell)) is not None:
            return shown
    return None


def _time(cell: _Cell) -> Markup | None:
    if cell.column not in TIMES.get(cell.table or "", ()) or not isinstance(cell.value, int):
        return None
    text = iso(cell.value) if cell.value > 0 else None
    if text is None:
        return None
    shown = f"{text[:10]} {text[11:19]}"
    return Markup('<time datetime="{}" title="{} ms, UTC">{}</time>').format(
        text, cell.value, shown
    )


def _cost(cell: _Cell) -> Markup | None:
    if not cell.column.endswith("cost") or not isinstance(cell.value, int | float):
        return None
    return Markup('<span title="{} US dollars">{}</span>').format(cell.value, money(cell.value))


def _title(cell: _Cell) -> Markup | None:
    """A title leads where its row's own link, Datasette's, does not: to the session."""
    if cell.column not in ("title", "session_title") or not isinstance(cell.value, str):
        return None
    name = "id" if cell.table in ("sessions", "session_costs") else "session_id"
    session_id = cell.other(name) if cell.table != "tool_calls" else None
    if not isinstance(session_id, str):
        return None
    href = cell.link(f"session/{quote(session_id, safe='')}")
    return Markup('<a href="{}"><bdi>{}</bdi></a>').format(href, one_line(cell.value, 120))


def _session(cell: _Cell) -> Markup | None:
    own = cell.column == "id" and cell.table in ("sessions", "session_costs")
    if not (own or cell.column in SESSIONS) or not isinstance(cell.value, str):
        return None
    href = cell.link(f"session/{quote(cell.value, safe='')}")
    text = one_line(cell.label or "", 80) or cell.value
    return Markup('<a href="{}" title="{}">{}</a>').format(href, cell.value, text)


def _message(cell: _Cell) -> Markup | None:
    session_id = cell.other("session_id")
    if cell.column != "message_id" or not isinstance(session_id, str):
        return None
    href = cell.link(f"session/{quote(session_id, safe='')}", str(cell.value))
    return Markup('<a href="{}">{}</a>').format(href, visible(str(cell.value)))


def _path(cell: _Cell) -> Markup | None:
    if cell.column != "path" or not isinstance(cell.value, str):
        return None
    href = cell.link("file", path=cell.value)
    return Markup('<a href="{}"><bdi>{}</bdi></a>').format(href, visible(cell.value))


def _project(cell: _Cell) -> Markup | None:
    if cell.table == "projects" and cell.column in ("directory", "name"):
        project_id = cell.other("id")
    else:
        project_id = cell.value if cell.column == "project_id" else None
    if not isinstance(project_id, str):
        return None
    href = cell.link(f"project/{quote(project_id, safe='')}")
    if cell.column != "project_id":
        return Markup('<a href="{}"><bdi>{}</bdi></a>').format(href, visible(str(cell.value)))
    text = visible(cell.label) if cell.label else one_line(cell.value, 12)
    return Markup('<a href="{}" title="{}">{}</a>').format(href, cell.value, text)


def _text(cell: _Cell) -> Markup | None:
    """The beginning of a long text, with a link to the message that has all of it."""
    if cell.column not in TEXTS or not isinstance(cell.value, str) or len(cell.value) <= SHOWN:
        return None
    beginning = visible(cell.value[:SHOWN])
    session_id, message_id = cell.other("session_id"), cell.other("message_id")
    if not isinstance(session_id, str):
        return None
    href = cell.link(f"session/{quote(session_id, safe='')}", message_id or None)
    return Markup('{}… <a href="{}">all {}</a>').format(beginning, href, size(len(cell.value)))


def _value(value: Any) -> tuple[Any, str | None]:
    """Return a cell's own value, and the label that Datasette found for a foreign key."""
    if isinstance(value, dict):
        return value.get("value"), value.get("label")
    return value, None


def _is_one_of_several(datasette: Datasette, database: str) -> bool:
    if Config.from_datasette(datasette).database == database:
        return False
    return sum(not name.startswith("_") for name in datasette.databases) > 1


def holds_index(datasette: Datasette, database: str) -> bool:
    """Tell whether a database is an index, without asking SQLite: this is done for each cell."""
    attached = datasette.databases.get(database)
    if attached is None or attached.path is None:
        return False
    try:
        return _has_our_id(str(attached.path))
    except (OSError, _NotOurs):
        return False


class _NotOurs(Exception):
    """Raised, since only returned values are remembered: the file may become an index."""


@lru_cache(maxsize=64)
def _has_our_id(path: str) -> bool:
    with Path(path).open("rb") as file:
        file.seek(_APPLICATION_ID_AT)
        if int.from_bytes(file.read(4), "big") != APPLICATION_ID:
            raise _NotOurs
    return True
