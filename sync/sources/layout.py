"""What an OpenCode database holds, told by its tables and columns alone.

Versions differ in columns, upgraded files keep the old tables beside the new ones, and no
version number says what is where.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from sync.errors import UnknownLayout

Columns = frozenset[str]

# Rows of these tables are history. Tables with credentials or events are never looked at.
_NEEDED: Mapping[str, Columns] = {
    "session_v2": frozenset({"id"}),
    "session": frozenset({"id"}),
    "message": frozenset({"id", "session_id", "data"}),
    "part": frozenset({"id", "message_id", "data"}),
    "session_message": frozenset({"id", "session_id", "type", "data"}),
    "session_input": frozenset({"id", "session_id", "prompt", "promoted_seq"}),
    "todo": frozenset({"session_id", "content"}),
    "project": frozenset({"id"}),
    "project_directory": frozenset({"project_id", "directory"}),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables that can be read, each with its columns.

    session_tables: the newest generation first.
    """

    tables: Mapping[str, Columns] = field(default_factory=dict)

    def has(self, table: str) -> bool:
        return table in self.tables

    def column(self, table: str, name: str, prefix: str = "") -> str:
        """Return SQL for a column, NULL where this version lacks it."""
        return f"{prefix}{name}" if name in self.tables[table] else "NULL"

    @property
    def session_tables(self) -> tuple[str, ...]:
        return tuple(name for name in ("session_v2", "session") if name in self.tables)

    @property
    def has_v1_messages(self) -> bool:
        return self.has("message")

    @property
    def mirrors_v1(self) -> bool:
        """Whether session_message repeats what message and part say (1.14, without seq)."""
        return (
            self.has("message")
            and self.has("session_message")
            and "seq" not in self.tables["session_message"]
        )


def detect(tables: Mapping[str, Columns]) -> Layout:
    """Tell the layout from a database's tables and their columns.

    Raises UnknownLayout, saying what was found, where there are no sessions to read.
    """
    layout = Layout(
        {
            name: tables[name]
            for name, needed in _NEEDED.items()
            if needed <= tables.get(name, set())
        }
    )
    if not layout.session_tables:
        found = ", ".join(sorted(tables)) or "no tables at all"
        raise UnknownLayout(f"not a database of OpenCode sessions: it holds {found}")
    return layout


def tables_of(conn: sqlite3.Connection) -> dict[str, Columns]:
    """Return the tables of a database with their columns."""
    rows = conn.execute(
        """
        SELECT CAST(m.name AS BLOB), CAST(c.name AS BLOB)
        FROM sqlite_master m JOIN pragma_table_info(m.name) c
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
        """
    )
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(table.decode("utf-8", "replace"), set()).add(
            column.decode("utf-8", "replace")
        )
    return {table: frozenset(columns) for table, columns in found.items()}
