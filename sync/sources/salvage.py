"""Copies every row that SQLite can still read out of a damaged database.

A page that cannot be read takes a run of rows with it, and hides from a plain scan all that
come behind. So a table is read from both ends; what lies between is tried by the row ids that
an index still names, in ranges that are halved until each lost row is known by itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from sync.model import BadRecord
from sync.sources.sqlite_sessions import text

MALFORMED = "database disk image is malformed"
"""SQLite's words for a page that holds what it cannot."""

MAX_GUESSED = 100_000
"""Row ids that are tried one by one, at the most, where no index tells which there were."""

SESSION_TABLES = ("session", "session_v2")

KEYS = ("id", "session_id", "message_id")


def _decoded(raw: bytes) -> str | bytes:
    """Keep texts apart from blobs, but for what is no text at all."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _quoted(name: str) -> str:
    """Return a name as SQL; those of another program's columns may be anything."""
    return '"' + name.replace('"', '""') + '"'


def is_damage(error: sqlite3.Error) -> bool:
    return str(error) == MALFORMED


def salvage(
    conn: sqlite3.Connection, tables: Mapping[str, Collection[str]], target: Path
) -> list[BadRecord]:
    """Write what can be read of some tables into a new database; return the lost rows.

    tables: names, each with its columns. Raises sqlite3.Error where target cannot be written.
    """
    lost: list[BadRecord] = []
    conn.text_factory = _decoded
    with closing(sqlite3.connect(target, isolation_level=None)) as out:
        out.execute("PRAGMA journal_mode = OFF")
        out.execute("PRAGMA synchronous = OFF")
        out.execute("BEGIN")
        for table, columns in tables.items():
            lost += _Table(conn, out, table, sorted(columns)).copy()
            for key in set(KEYS) & set(columns):
                out.execute(f'CREATE INDEX "{table}_{key}" ON "{table}" ("{key}")')
        out.execute("COMMIT")
    return lost


class _Table:
    def __init__(
        self, conn: sqlite3.Connection, out: sqlite3.Connection, name: str, columns: Sequence[str]
    ) -> None:
        self.conn = conn
        self.out = out
        self.name = name
        self.columns = ", ".join(map(_quoted, columns))
        self.marks = ", ".join("?" for _ in range(len(columns) + 1))

    def copy(self) -> list[BadRecord]:
        # Without types, so that values stay as they are.
        self.out.execute(f'CREATE TABLE "{self.name}" ({self.columns})')
        last = self._scan("ASC", None)
        if last is None:
            return []
        first = self._scan("DESC", last)
        if first is None:
            return []
        between = self._between(last, first)
        if between is None:
            item = f"{self.name}: rows behind number {last}"
            return [self._lost(item, None)]
        return list(self._halve(sorted(between), between))

    def _scan(self, order: str, above: int | None) -> int | None:
        """Copy rows until one cannot be read; return the last that could, None at the end.

        above: the rowid behind which to stop, None for none. What a damaged first page holds
        ends at the lowest rowid there is.
        """
        reached = -(2**63) if order == "ASC" else 2**63 - 1
        try:
            for row in self.conn.execute(
                f'SELECT rowid, {self.columns} FROM "{self.name}" '
                f"WHERE rowid > ? ORDER BY rowid {order}",
                (reached if above is None else above,),
            ):
                self._keep(row)
                reached = row[0]
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return reached
        return None

    def _between(self, last: int, first: int) -> dict[int, object] | None:
        """Return the ids of rows between two by number; None where nothing tells of them."""
        for index, key in self._indexes():
            try:
                rows = self.conn.execute(
                    f'SELECT rowid, {key} FROM "{self.name}" INDEXED BY {index}'
                ).fetchall()
            except sqlite3.DatabaseError:
                continue
            return {rowid: text(value) for rowid, value in rows if last < rowid < first}
        if first - last <= MAX_GUESSED:
            return dict.fromkeys(range(last + 1, first))
        return None

    def _indexes(self) -> Iterator[tuple[str, str]]:
        """Yield indexes from which rows can be told without the table, and the first column of
        each, quoted; those on ids first."""
        found = []
        for row in self.conn.execute(f'PRAGMA index_list("{self.name}")').fetchall():
            index, partial = _quoted(str(text(row[1]))), row[4]
            [*columns] = self.conn.execute(f"PRAGMA index_info({index})")
            if not partial and columns and columns[0][2] is not None:
                found.append((index, _quoted(str(text(columns[0][2])))))
        return iter(sorted(found, key=lambda pair: pair[1] != _quoted("id")))

    def _halve(self, rowids: Sequence[int], names: Mapping[int, object]) -> Iterator[BadRecord]:
        if not rowids:
            return
        # The end of a range is only known by the row behind it, which may be a damaged one.
        wanted = "rowid = ?1" if len(rowids) == 1 else "rowid BETWEEN ?1 AND ?2"
        try:
            rows = self.conn.execute(
                f'SELECT rowid, {self.columns} FROM "{self.name}" WHERE {wanted}',
                (rowids[0], rowids[-1])[: len(rowids)],
            ).fetchall()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            if len(rowids) == 1:
                name = names[rowids[0]]
                item = f"{self.name} {name or f'row {rowids[0]}'}"
                yield self._lost(item, name if isinstance(name, str) else None)
                return
            middle = len(rowids) // 2
            yield from self._halve(rowids[:middle], names)
            yield from self._halve(rowids[middle:], names)
            return
        for row in rows:
            self._keep(row)

    def _keep(self, row: Sequence[object]) -> None:
        self.out.execute(
            f'INSERT OR IGNORE INTO "{self.name}" (rowid, {self.columns}) VALUES ({self.marks})',
            row,
        )

    def _lost(self, item: str, name: str | None) -> BadRecord:
        is_session = self.name in SESSION_TABLES
        return BadRecord(
            item=item,
            reason=MALFORMED,
            session_id=name if is_session else None,
            hides_session=is_session,
        )
