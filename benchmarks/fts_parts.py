"""Full-text segments built side by side in worker processes, copied into one index.

A worker inserts a batch into a contentless FTS5 table of its own, in memory; the rows of its
shadow tables are the same as those of the index's table but for the number of the segment, so
they are copied, and the two records that list segments and count rows are rewritten. All that
is said here of FTS5's records is in fts5_index.c ("FORMAT OF DATA STORED IN %_DATA TABLE").

The connection that copies must never use the virtual table: FTS5 keeps the list of segments in
memory and looks for the changes of other connections only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

AVERAGES_ID: Final = 1
STRUCTURE_ID: Final = 10
SEGMENT_SHIFT: Final = 37
"""Bits below the segment's number in the id of a row of %_data."""
MAX_SEGMENTS: Final = 2000
HASH_BYTES: Final = 64 * 2**20
"""More than a batch needs, so that it becomes one segment."""

Text = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Segment:
    number: int
    first_page: int
    last_page: int


@dataclass(frozen=True, slots=True)
class Level:
    merging: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The record that lists all segments, oldest last."""

    cookie: bytes
    write_counter: int
    levels: tuple[Level, ...]

    @classmethod
    def decode(cls, blob: bytes) -> Structure:
        """Raises ValueError where the record is of another format than 3.40's."""
        if blob[4:8] == b"\xff\x00\x00\x01":
            raise ValueError("the list of segments has the second format")
        numbers = varints(blob, 4)
        count, _, write_counter = next(numbers), next(numbers), next(numbers)
        levels = []
        for _ in range(count):
            merging, held = next(numbers), next(numbers)
            segments = tuple(
                Segment(next(numbers), next(numbers), next(numbers)) for _ in range(held)
            )
            levels.append(Level(merging, segments))
        return cls(blob[:4], write_counter, tuple(levels))

    def encode(self) -> bytes:
        numbers = [len(self.levels), sum(len(level.segments) for level in self.levels)]
        numbers.append(self.write_counter)
        for level in self.levels:
            numbers += [level.merging, len(level.segments)]
            for segment in level.segments:
                numbers += [segment.number, segment.first_page, segment.last_page]
        return self.cookie + b"".join(map(varint, numbers))

    def numbers(self) -> set[int]:
        return {segment.number for level in self.levels for segment in level.segments}


@dataclass(frozen=True, slots=True)
class Part:
    """What a worker made of a batch: rows of the shadow tables."""

    structure: Structure
    averages: tuple[int, int]
    data: list[tuple[int, bytes]]
    idx: list[tuple[int, bytes, int]]
    docsize: list[tuple[int, bytes]]


def build(batch: Sequence[Text]) -> Part:
    """Index a batch of ids and texts, in ascending order of id, apart from any file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        conn.execute(
            "CREATE VIRTUAL TABLE f USING fts5(text, content='', "
            "tokenize='trigram case_sensitive 0')"
        )
        for name, value in (("automerge", 0), ("hashsize", HASH_BYTES)):
            conn.execute("INSERT INTO f(f, rank) VALUES (?, ?)", (name, value))
        conn.execute("BEGIN")
        conn.executemany("INSERT INTO f(rowid, text) VALUES (?, ?)", batch)
        conn.execute("COMMIT")
        return Part(
            Structure.decode(_record(conn, "f_data", STRUCTURE_ID)),
            _averages(_record(conn, "f_data", AVERAGES_ID)),
            conn.execute("SELECT id, block FROM f_data WHERE id > ?", (STRUCTURE_ID,)).fetchall(),
            conn.execute("SELECT segid, term, pgno FROM f_idx").fetchall(),
            conn.execute("SELECT id, sz FROM f_docsize").fetchall(),
        )


def serve(connection: Connection) -> None:
    """Build parts of the batches that come, until None comes."""
    while (batch := connection.recv()) is not None:
        connection.send(build(batch))


def copy(conn: sqlite3.Connection, part: Part) -> None:
    """Copy a part into documents_fts, within the caller's transaction."""
    structure = Structure.decode(_record(conn, "documents_fts_data", STRUCTURE_ID))
    free = (n for n in range(1, MAX_SEGMENTS) if n not in structure.numbers())
    number = {old: next(free) for old in sorted(part.structure.numbers())}
    added = tuple(
        Segment(number[segment.number], segment.first_page, segment.last_page)
        for level in reversed(part.structure.levels)
        for segment in level.segments
    )
    conn.executemany(
        "INSERT INTO documents_fts_data VALUES (?, ?)",
        ((_moved(row_id, number), block) for row_id, block in part.data),
    )
    conn.executemany(
        "INSERT INTO documents_fts_idx VALUES (?, ?, ?)",
        ((number[segment], term, page) for segment, term, page in part.idx),
    )
    conn.executemany("INSERT INTO documents_fts_docsize VALUES (?, ?)", part.docsize)
    first, *rest = structure.levels or (Level(0, ()),)
    levels = (Level(first.merging, first.segments + added), *rest)
    whole = Structure(structure.cookie, structure.write_counter, levels)
    _replace(conn, STRUCTURE_ID, whole.encode())
    rows, tokens = _averages(_record(conn, "documents_fts_data", AVERAGES_ID))
    added_rows, added_tokens = part.averages
    _replace(conn, AVERAGES_ID, varint(rows + added_rows) + varint(tokens + added_tokens))


def varints(blob: bytes, start: int) -> Iterator[int]:
    """Yield SQLite's variable-length integers: seven bits a byte, the ninth byte whole."""
    value = taken = 0
    for byte in blob[start:]:
        taken += 1
        if taken == 9:
            yield value << 8 | byte
        elif byte & 0x80:
            value = value << 7 | byte & 0x7F
            continue
        else:
            yield value << 7 | byte
        value = taken = 0


def varint(number: int) -> bytes:
    """Return a number below 2^56 in SQLite's variable length."""
    out = [number & 0x7F]
    while number := number >> 7:
        out.append(number & 0x7F | 0x80)
    return bytes(reversed(out))


def _moved(row_id: int, number: dict[int, int]) -> int:
    segment = row_id >> SEGMENT_SHIFT
    return row_id + (number[segment] - segment << SEGMENT_SHIFT)


def _record(conn: sqlite3.Connection, table: str, row_id: int) -> bytes:
    return bytes(conn.execute(f"SELECT block FROM {table} WHERE id = ?", (row_id,)).fetchone()[0])


def _replace(conn: sqlite3.Connection, row_id: int, block: bytes) -> None:
    conn.execute("UPDATE documents_fts_data SET block = ? WHERE id = ?", (block, row_id))


def _averages(blob: bytes) -> tuple[int, int]:
    """Return the number of rows and of tokens; an empty record stands for an empty table."""
    numbers = list(varints(blob, 0)) or [0, 0]
    return numbers[0], numbers[1]
