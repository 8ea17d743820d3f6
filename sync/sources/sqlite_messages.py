"""The messages of one session out of an OpenCode database, bodies only where they are needed."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sync.decode_v1 import message_v1
from sync.decode_v2 import message_v2
from sync.model import BadRecord, Message, Revert, Unchanged
from sync.older_copies import is_lost_by_import, with_older_parts
from sync.sources.layout import Layout
from sync.sources.order import (
    Header,
    Kind,
    after_parents,
    is_doubtful,
    merge,
    part_age,
    without,
)
from sync.sources.sqlite_sessions import text
from sync.tool_output import ToolOutputs
from sync.values import decode_json, filled, integer, mapping, time_ms

UNREADABLE = "!"
"""Ends the stamp of a message of which a part could not be read: it is read again each time,
so that the part stays reported for as long as it is there."""

_TABLES: Mapping[Kind, str] = {
    "v1": "message",
    "v2": "session_message",
    "input": "session_input",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A session's messages in order.

    activity_ms: the latest time of any row, 0 without one. newer_only: whether V2 has
    messages that V1 lacks, so that the conversation went on there.
    """

    headers: Sequence[Header]
    activity_ms: int
    newer_only: bool


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the messages of one session within the caller's read transaction.

    directory: the session's; the stamps depend on it, as relative paths do.
    bulk: moments of imports, which tell nothing of when a message changed.
    outputs: the files with the whole of outputs that were cut.
    imported_ms: when the session was taken from V1's tables into V2's; None where it was not.
    """

    conn: sqlite3.Connection
    layout: Layout
    session_id: str
    directory: str | None
    bulk: frozenset[int]
    outputs: ToolOutputs
    imported_ms: int | None = None

    def found(self) -> Found:
        """Return all messages in conversation order, without their bodies."""
        v1 = self._v1_headers() if self.layout.has("message") else []
        v2 = [] if v1 and self.layout.mirrors_v1 else list(self._v2_headers())
        known = {header.id for header in (*v1, *v2)}
        v2 += [header for header in self._inputs() if header.id not in known]
        activity = max((header.updated_ms for header in (*v1, *v2)), default=0)
        newer_only = bool(without(v2, v1))
        if self.imported_ms is not None:
            v1, v2 = self._outliving(v1, v2, self.imported_ms)
        if not is_doubtful(v1, v2):
            return Found(merge(v1, v2), activity, newer_only)
        parents, times = self._told_by_bodies()
        v1, v2 = (
            [replace(header, created_ms=times.get(header.id, header.created_ms)) for header in some]
            for some in (v1, v2)
        )
        return Found(after_parents(merge(v1, v2), parents), activity, newer_only)

    def messages(
        self, headers: Sequence[Header], known: Mapping[str, str]
    ) -> Iterator[Message | Unchanged | BadRecord]:
        """Yield the messages; of those with a known stamp only that they are unchanged."""
        for header in headers:
            if known.get(header.id) == header.stamp and not header.stamp.endswith(UNREADABLE):
                yield Unchanged(header.id)
                continue
            try:
                for item in self._read(header):
                    yield self.outputs.fill(item) if isinstance(item, Message) else item
            except (ValueError, sqlite3.DatabaseError) as error:
                yield BadRecord(
                    item=f"{_TABLES[header.kind]} {header.id}",
                    reason=str(error),
                    session_id=self.session_id,
                    message_id=header.id,
                )

    def _read(self, header: Header) -> Iterator[Message | BadRecord]:
        match header.kind:
            case "v1":
                yield from self._read_v1(header)
            case "v2" if header.older is not None:
                yield from self._read_both(header, header.older)
            case "v2":
                yield self._read_v2(header)
            case "input":
                yield self._read_input(header)

    # V1 beside V2, after the import

    def _outliving(
        self, v1: list[Header], v2: list[Header], imported_ms: int
    ) -> tuple[list[Header], list[Header]]:
        """Return V1's messages that V2 did not delete, and V2's with their older selves.

        A message that the import must have taken over, and that V2 no longer has, was deleted
        there: by a revert that was made final, most often. It stays away.
        """
        older = {header.id: header for header in v1}
        both = [
            replace(
                header, older=older[header.id], stamp=f"{header.stamp}+{older[header.id].stamp}"
            )
            if header.id in older
            else header
            for header in v2
        ]
        left = [
            replace(header, only_in="v1", stamp=f"{header.stamp}:only")
            for header in without(v1, v2)
            if header.created_ms > imported_ms or self._is_lost_by_import(header)
        ]
        return left, both

    def _is_lost_by_import(self, header: Header) -> bool:
        try:
            read = [item for item in self._read_v1(header) if isinstance(item, Message)]
        except (ValueError, sqlite3.DatabaseError):
            return False  # nobody can tell, and what it holds cannot be shown
        return all(is_lost_by_import(message) for message in read)

    def _read_both(self, header: Header, older: Header) -> Iterator[Message | BadRecord]:
        newer = self._read_v2(header)
        try:
            for item in self._read_v1(older):
                if isinstance(item, Message):
                    newer = with_older_parts(newer, item, "v1")
                else:
                    yield item
        except ValueError as error:
            yield BadRecord(
                item=f"message {older.id}", reason=str(error), session_id=self.session_id
            )
        yield newer

    # V1: message and part

    def _v1_headers(self) -> list[Header]:
        try:
            return list(self._headers_of_rows(with_parts=self.layout.has("part")))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            # A damaged page of parts: each message is tried, and tells what it lacks.
            return [
                replace(header, stamp=header.stamp + UNREADABLE)
                for header in self._headers_of_rows(with_parts=False)
            ]

    def _headers_of_rows(self, *, with_parts: bool) -> Iterator[Header]:
        column = self.layout.column
        created = column("message", "time_created", "m.")
        updated = column("message", "time_updated", "m.")
        parts, part_updated, join = "0", "NULL", ""
        if with_parts:
            parts, part_updated = "count(p.id)", column("part", "time_updated", "p.")
            join = "LEFT JOIN part p ON p.message_id = m.id"
        rows = self.conn.execute(
            f"""
            SELECT m.rowid, m.id, {created}, {updated}, {parts}, total({part_updated}),
              max({part_updated})
            FROM message m {join} WHERE m.session_id = ? GROUP BY m.rowid
            """,
            (self.session_id,),
        )
        for rowid, message_id, created, updated, count, total, latest in rows:
            yield self._header(
                message_id,
                "v1",
                rowid,
                created,
                [updated, latest],
                f"v1:{updated}:{count}:{total:.0f}",
            )

    def _read_v1(self, header: Header) -> Iterator[Message | BadRecord]:
        data = self._object("message", "data", header.id)
        parts: list[object] = []
        bad: list[BadRecord] = []
        reverted_from = None
        for part_id, raw in self._v1_parts(header.id):
            if part_id == header.reverted_from:
                reverted_from = len(parts)
            try:
                parts.append(_decode_object(raw))
            except ValueError as error:
                bad.append(
                    BadRecord(item=f"part {part_id}", reason=str(error), session_id=self.session_id)
                )
        message = message_v1(
            header.id,
            data,
            parts,
            stamp=header.stamp.removesuffix(UNREADABLE) + UNREADABLE if bad else header.stamp,
            row_ms=header.created_ms,
            directory=self.directory,
            reverted_from=reverted_from,
        )
        yield replace(message, only_in=header.only_in) if header.only_in else message
        yield from bad

    def _v1_parts(self, message_id: str) -> list[tuple[str, object]]:
        if not self.layout.has("part"):
            return []
        rows = [
            (part_age(message_id, part_id), rowid, part_id, raw)
            for rowid, part_id, raw in (
                (rowid, str(text(part_id)), raw)
                for rowid, part_id, raw in self.conn.execute(
                    "SELECT rowid, id, CAST(data AS BLOB) FROM part WHERE message_id = ?",
                    (message_id,),
                )
            )
        ]
        rows.sort(key=lambda row: row[:2])
        return [(part_id, raw) for _, _, part_id, raw in rows]

    # V2: session_message and session_input

    def _v2_headers(self) -> Iterator[Header]:
        if not self.layout.has("session_message"):
            return
        column = self.layout.column
        created = column("session_message", "time_created")
        updated = column("session_message", "time_updated")
        if "seq" in self.layout.tables["session_message"]:
            position, order = "seq", "seq, rowid"
        else:
            position, order = "0", f"{created}, rowid"
        rows = self.conn.execute(
            f"SELECT id, {created}, {updated}, {position} FROM session_message "
            f"WHERE session_id = ? ORDER BY {order}",
            (self.session_id,),
        )
        for number, (message_id, created, updated, seq) in enumerate(rows):
            place = (integer(seq) or 0) if position == "seq" else number
            yield self._header(message_id, "v2", place, created, [updated], f"v2:{updated}:{seq}")

    def _read_v2(self, header: Header) -> Message:
        (kind,) = self.conn.execute(
            "SELECT type FROM session_message WHERE id = ?", (header.id,)
        ).fetchone()
        return message_v2(
            header.id,
            filled(text(kind)) or "unknown",
            self._object("session_message", "data", header.id),
            stamp=header.stamp,
            row_ms=header.created_ms,
            directory=self.directory,
        )

    def _inputs(self) -> Iterator[Header]:
        """Prompts that were taken in and never run: this row is the only trace of them."""
        if not self.layout.has("session_input"):
            return
        created = self.layout.column("session_input", "time_created")
        position = self.layout.column("session_input", "admitted_seq")
        rows = self.conn.execute(
            f"SELECT id, {created}, {position} FROM session_input "
            "WHERE session_id = ? AND promoted_seq IS NULL",
            (self.session_id,),
        )
        for message_id, created, seq in rows:
            yield self._header(message_id, "input", integer(seq) or 0, created, [], "in")

    def _read_input(self, header: Header) -> Message:
        return message_v2(
            header.id,
            "user",
            self._object("session_input", "prompt", header.id),
            stamp=header.stamp,
            row_ms=header.created_ms,
            directory=self.directory,
        )

    # Both

    def _told_by_bodies(self) -> tuple[dict[str, str], dict[str, int]]:
        """Return each answer's question and each message's own time, decoding all messages."""
        parents: dict[str, str] = {}
        times: dict[str, int] = {}
        for table in ("session_message", "message"):
            if not self.layout.has(table):
                continue
            for message_id, raw in self.conn.execute(
                f"SELECT id, CAST(data AS BLOB) FROM {table} WHERE session_id = ?",
                (self.session_id,),
            ):
                try:
                    data = _decode_object(raw)
                except ValueError:
                    continue  # reported when the message itself is read
                name = str(text(message_id))
                if parent := filled(data.get("parentID")):
                    parents[name] = parent
                if created := time_ms(mapping(data.get("time")).get("created")):
                    times.setdefault(name, created)
        return parents, times

    def _header(
        self,
        message_id: object,
        kind: Kind,
        position: int,
        created: object,
        updated: Sequence[object],
        stamp: str,
    ) -> Header:
        created_ms = time_ms(created) or 0
        times = [
            time_ms(value) or 0
            for value in (created, *updated)
            if isinstance(value, int) and value not in self.bulk
        ]
        place = zlib.crc32((self.directory or "").encode("utf-8", "replace"))
        return Header(
            id=str(text(message_id)),
            kind=kind,
            position=position,
            created_ms=created_ms,
            updated_ms=max(times, default=0),
            stamp=f"{stamp}:{place:x}",
        )

    def _object(self, table: str, column: str, row_id: str) -> Mapping[str, object]:
        row = self.conn.execute(
            f"SELECT CAST({column} AS BLOB) FROM {table} WHERE id = ?", (row_id,)
        ).fetchone()
        return _decode_object(row[0] if row else None)


def with_revert(headers: Sequence[Header], revert: Revert | None) -> Sequence[Header]:
    """Return the headers, that of a message which is undone in part with the part it begins at."""
    if revert is None or revert.part_id is None:
        return headers
    return [
        replace(header, reverted_from=revert.part_id, stamp=f"{header.stamp}:r{revert.part_id}")
        if header.id == revert.message_id and header.kind == "v1"
        else header
        for header in headers
    ]


def _decode_object(raw: object) -> Mapping[str, object]:
    """Decode a column that holds a JSON object; raises ValueError for anything else."""
    if not isinstance(raw, bytes):
        raise ValueError("holds no text")
    value = decode_json(raw)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
