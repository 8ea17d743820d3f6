"""Writes one session's documents, touching only those that differ from the index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from datasette_history.schema import SLOT_BITS, TITLE_MESSAGE_ID, TITLE_SEQ, session_range
from sync.additions import ADDED
from sync.extract import Document, message_document, title_document
from sync.full_text import FullText
from sync.model import BadRecord, Message, Revert, Session, Todo, Tokens, Unchanged
from sync.values import clean

TODO_KEY = re.compile(r"todos\[(?P<position>\d+)\]\.(?P<key>content|status|priority)")
"""How extraction names the inputs of a todowrite call."""

Outcome = Literal["written", "stale", "gone", "removed"]


@dataclass(slots=True)
class Written:
    """What one replacement did: messages by what became of them, and the text indexed anew.

    outcome: "stale" where a newer copy or a deletion is known, "gone" where the source no
        longer has the session, "removed" where no other has it either.
    problems: records that could not be read.
    text_length: code points of the documents inserted or changed. times: the moments, in Unix
        milliseconds, of the messages that came, went or changed, before and after.
    """

    outcome: Outcome = "written"
    inserted: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    text_length: int = 0
    problems: list[BadRecord] = field(default_factory=list)
    times: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Known:
    document_id: int
    seq: int
    stamp: str
    project_id: str | None
    timestamp: int
    reverted: int


class SessionWriter:
    """Writes one session's documents by comparing them with those that are there."""

    def __init__(self, conn: sqlite3.Connection, fts: FullText, session: Session, num: int) -> None:
        self.conn = conn
        self.fts = fts
        self.session = session
        self.project_id = cleaned(session.project_id)
        self.known: Mapping[str, _Known] = {
            message_id: _Known(*rest)
            for message_id, *rest in conn.execute(
                "SELECT message_id, id, seq, stamp, project_id, timestamp, reverted "
                "FROM documents WHERE session_id = ?",
                (session.id,),
            )
        }
        self.first_slot, self.last_slot = session_range(num)
        used = [known.document_id for known in self.known.values()]
        self.next_slot = max(used) + 1 if used else self.first_slot
        self.written = Written()

    def write_title(self) -> None:
        self._write(title_document(self.session), TITLE_SEQ, reverted=0)

    def write_messages(
        self,
        messages: Iterable[Message | Unchanged | BadRecord],
        additions: Sequence[Message] | None = (),
    ) -> None:
        """Write the messages in their order and remove those that are no longer there.

        additions: messages of other copies, to be placed by their times; None where they are
        not known, and then those that are there stay.
        """
        seen = {TITLE_MESSAGE_ID}
        reverts = _Reverts(self.session.revert)
        seq = 0
        for item in messages:
            if isinstance(item, BadRecord):
                self.written.problems.append(item)
                if item.message_id is not None:
                    seen.add(clean(item.message_id))
                continue
            message_id = clean(item.id)
            if not message_id:
                self.written.problems.append(_nameless(self.session.id))
            if message_id in seen:
                continue
            seen.add(message_id)
            reverted = reverts.is_reverted(item, self.known.get(message_id))
            if isinstance(item, Unchanged):
                self._place(self.known[message_id], seq, reverted)
            else:
                self._write(
                    message_document(self._with_kept_outputs(item), self.session.directory),
                    seq,
                    reverted,
                )
            seq += 1
        added = self._add(additions, seen, seq)
        for message_id in self.known.keys() - seen - added:
            self._remove(self.known[message_id])
        if added:
            self._place_by_time(added)

    def _add(self, additions: Sequence[Message] | None, seen: set[str], seq: int) -> set[str]:
        """Write what other copies have more behind the rest; return the ids of all of it."""
        added = set()
        if additions is None:
            added = {i for i, known in self.known.items() if known.stamp.startswith(ADDED)} - seen
        for message in additions or ():
            message_id = clean(message.id)
            if message.only_in is not None and message_id and message_id not in seen | added:
                self._write(message_document(message, self.session.directory), seq, reverted=0)
                added.add(message_id)
        return added

    def _place_by_time(self, added: set[str]) -> None:
        rows = self.conn.execute(
            "SELECT message_id, id, timestamp, seq FROM documents "
            "WHERE session_id = ? AND message_id <> ? ORDER BY seq, timestamp, id",
            (self.session.id, TITLE_MESSAGE_ID),
        ).fetchall()
        waiting = sorted((row for row in rows if row[0] in added), key=lambda row: row[2])
        order = []
        latest = 0
        for row in rows:
            if row[0] in added:
                continue
            latest = max(latest, row[2])
            while waiting and waiting[0][2] < latest:
                order.append(waiting.pop(0))
            order.append(row)
        order += waiting
        self.conn.executemany(
            "UPDATE documents SET seq = ? WHERE id = ?",
            ((seq, row[1]) for seq, row in enumerate(order) if row[3] != seq),
        )

    def write_todos(self) -> None:
        """Write the list that the source keeps, else the one that the agent wrote last."""
        listed = self.session.todos
        todos = self._todos_of_last_call() if listed is None else listed
        rows = [
            (self.session.id, position, clean(t.content), cleaned(t.status), cleaned(t.priority))
            for position, t in enumerate(todos)
        ]
        old = self.conn.execute(
            "SELECT session_id, position, content, status, priority FROM todos "
            "WHERE session_id = ? ORDER BY position",
            (self.session.id,),
        ).fetchall()
        if rows != old:
            self.conn.execute("DELETE FROM todos WHERE session_id = ?", (self.session.id,))
            self.conn.executemany("INSERT INTO todos VALUES (?, ?, ?, ?, ?)", rows)

    def _todos_of_last_call(self) -> Sequence[Todo]:
        items: dict[str, dict[str, str]] = {}
        for name, value in self.conn.execute(
            """
            WITH last AS (
              SELECT p.document_id, p.call FROM parts p JOIN documents d ON d.id = p.document_id
              WHERE p.document_id BETWEEN :first AND :last AND p.kind = 'tool'
                AND p.name = 'todowrite' AND p.status = 'completed'
              ORDER BY d.seq DESC, p.seq DESC LIMIT 1
            )
            SELECT i.name, substr(d.text, i.start + 1, i.length)
            FROM last
            JOIN parts i USING (document_id, call)
            JOIN documents d ON d.id = i.document_id
            WHERE i.kind = 'input' ORDER BY i.seq
            """,
            {"first": self.first_slot, "last": self.last_slot},
        ):
            match = TODO_KEY.fullmatch(name or "")
            if match:
                items.setdefault(match["position"], {})[match["key"]] = value
        return [
            Todo(content=item["content"], status=item.get("status"), priority=item.get("priority"))
            for item in items.values()
            if "content" in item
        ]

    def _with_kept_outputs(self, message: Message) -> Message:
        """Return a message with the whole outputs that only the index still has."""
        known = self.known.get(message.id)
        cut = [part.cut_to for part in message.parts if part.cut_to and part.name is None]
        if known is None or not cut:
            return message
        kept: dict[str, str] = dict(
            self.conn.execute(
                "SELECT p.name, substr(d.text, p.start + 1, p.length) "
                "FROM parts p JOIN documents d ON d.id = p.document_id "
                "WHERE p.document_id = ? AND p.kind = 'output' AND p.name IS NOT NULL",
                (known.document_id,),
            ).fetchall()
        )
        parts = [
            replace(part, text=kept[part.cut_to], name=part.cut_to)
            if part.name is None and part.cut_to in kept
            else part
            for part in message.parts
        ]
        return replace(message, parts=tuple(parts))

    def _write(self, document: Document, seq: int, reverted: int) -> None:
        known = self.known.get(document.message_id)
        if known is None:
            self._insert(document, seq, reverted)
        elif document.message_id != TITLE_MESSAGE_ID and document.stamp == known.stamp:
            self._place(known, seq, reverted)
        else:
            self._change(known, document, seq, reverted)

    def _insert(self, document: Document, seq: int, reverted: int) -> None:
        if self.next_slot > self.last_slot:
            raise OverflowError(
                f"session {self.session.id} has more than {1 << SLOT_BITS} messages"
            )
        document_id = self.next_slot
        self.next_slot += 1
        values = self._columns(document, seq, reverted)
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        self.conn.execute(
            f"INSERT INTO documents (id, {names}) VALUES (:id, {marks})",
            {"id": document_id, **values},
        )
        self.fts.add(document_id, len(document.text))
        self._insert_pieces(document_id, document)
        if document.message_id != TITLE_MESSAGE_ID:
            self.written.inserted += 1
            self.written.times.add(document.timestamp)
        self.written.text_length += len(document.text)

    def _change(self, known: _Known, document: Document, seq: int, reverted: int) -> None:
        values = self._columns(document, seq, reverted)
        old_text: str = self.conn.execute(
            "SELECT text FROM documents WHERE id = ?", (known.document_id,)
        ).fetchone()[0]
        if old_text != document.text:
            self.fts.remove(known.document_id, old_text)
        changes = ", ".join(f"{name} = :{name}" for name in values)
        self.conn.execute(
            f"UPDATE documents SET {changes} WHERE id = :id",
            {"id": known.document_id, **values},
        )
        if old_text != document.text:
            self.fts.add(known.document_id, len(document.text))
            self.written.text_length += len(document.text)
        self._delete_pieces(known.document_id)
        self._insert_pieces(known.document_id, document)
        if document.message_id != TITLE_MESSAGE_ID:
            self.written.changed += 1
            self.written.times |= {known.timestamp, document.timestamp}

    def _place(self, known: _Known, seq: int, reverted: int) -> None:
        """Give an unchanged message its place: others may have come or gone before it."""
        self.written.unchanged += 1
        if (known.seq, known.reverted, known.project_id) != (seq, reverted, self.project_id):
            self.conn.execute(
                "UPDATE documents SET seq = ?, reverted = ?, project_id = ? WHERE id = ?",
                (seq, reverted, self.project_id, known.document_id),
            )
        if known.project_id != self.project_id:
            self.conn.execute(
                "UPDATE document_paths SET project_id = ? WHERE document_id = ?",
                (self.project_id, known.document_id),
            )

    def _remove(self, known: _Known) -> None:
        row = self.conn.execute("SELECT text FROM documents WHERE id = ?", (known.document_id,))
        self.fts.remove(known.document_id, row.fetchone()[0])
        self._delete_pieces(known.document_id)
        self.conn.execute("DELETE FROM documents WHERE id = ?", (known.document_id,))
        self.written.removed += 1
        self.written.times.add(known.timestamp)

    def _columns(self, document: Document, seq: int, reverted: int) -> dict[str, Any]:
        return {
            "session_id": self.session.id,
            "message_id": document.message_id,
            "project_id": self.project_id,
            "timestamp": document.timestamp,
            "seq": seq,
            "role": clean(document.role),
            "agent": cleaned(document.agent),
            "provider": cleaned(document.provider),
            "model": cleaned(document.model),
            "cost": document.cost,
            **token_columns(document.tokens),
            "finish": cleaned(document.finish),
            "reverted": reverted,
            "only_in": document.only_in,
            "own_length": document.own_length,
            "stamp": document.stamp,
            "text": document.text,
        }

    def _insert_pieces(self, document_id: int, document: Document) -> None:
        self.conn.executemany(
            "INSERT INTO parts (document_id, seq, kind, call, name, title, status, started, ended, "
            "start, length, only_in, reverted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    document_id, number, span.part.kind, span.part.call, cleaned(span.part.name),
                    cleaned(span.part.title), cleaned(span.part.status), span.part.started_ms,
                    span.part.ended_ms, span.start, span.length, span.part.only_in,
                    span.part.reverted,
                )
                for number, span in enumerate(document.spans)
            ),
        )  # fmt: skip
        self.conn.executemany(
            "INSERT INTO document_paths "
            "(document_id, project_id, timestamp, path, basename, tool, reverted) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (document_id, self.project_id, document.timestamp, edited.path, edited.basename,
                 cleaned(edited.tool), edited.reverted)
                for edited in document.paths
            ),
        )  # fmt: skip

    def _delete_pieces(self, document_id: int) -> None:
        self.conn.execute("DELETE FROM parts WHERE document_id = ?", (document_id,))
        self.conn.execute("DELETE FROM document_paths WHERE document_id = ?", (document_id,))


def _nameless(session_id: str) -> BadRecord:
    return BadRecord(
        item=f"a message of session {session_id}", reason="its id is empty", session_id=session_id
    )


class _Reverts:
    """Tells, message by message in order, which ones a revert undid."""

    def __init__(self, revert: Revert | None) -> None:
        self.revert = revert
        self.reached = False

    def is_reverted(self, message: Message | Unchanged, known: _Known | None) -> int:
        if self.revert is None:
            return 0
        if message.id != self.revert.message_id:
            return int(self.reached)
        self.reached = True
        if self.revert.part_id is None:
            return 1
        # With a part named, the message up to that part still stands.
        if isinstance(message, Unchanged):
            return known.reverted if known is not None else 0
        return int(bool(message.parts) and all(part.reverted for part in message.parts))


def token_columns(tokens: Tokens | None) -> dict[str, int | None]:
    names = (
        "tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read",
        "tokens_cache_write",
    )  # fmt: skip
    if tokens is None:
        return dict.fromkeys(names)
    counts = (
        tokens.input, tokens.output, tokens.reasoning, tokens.cache_read, tokens.cache_write,
    )  # fmt: skip
    return dict(zip(names, counts, strict=True))


def cleaned(text: str | None) -> str | None:
    return None if text is None else clean(text)
