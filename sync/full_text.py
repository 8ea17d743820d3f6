"""Writes the full-text index beside the documents.

FTS5 collects what is written and stores it as one segment when it is full, but also whenever a
savepoint opens, a statement of many rows begins, or a lower row id follows a higher one. So
the writes of a transaction are gathered here and made in one go, one row a statement, by
ascending id: few large segments instead of thousands of small ones.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

PENDING_CHARS = 8_000_000
"""Code points of texts whose indexing may wait; bounds what one flush takes."""

MERGE_PAGES = 500
"""What one step of a merge writes at most: some 50 ms of work."""

MANY = 32
"""Documents from which on one statement for all is worth the segment that its beginning ends."""


class FullText:
    """Pending changes of documents_fts. The caller's transaction must end with flush or drop."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self._removed: dict[int, str] = {}
        self._added: set[int] = set()
        self._chars = 0
        self.while_writing: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while SQLite works for long and leaves the interpreter to other threads."""

    def add(self, document_id: int, length: int) -> None:
        """Index a document, whose text of that many code points is in documents already."""
        self._added.add(document_id)
        self._grow(length)

    def remove(self, document_id: int, text: str) -> None:
        """Forget a document; text is what was indexed, which FTS5 must be told."""
        # What was only pending was never indexed.
        if document_id in self._added:
            self._added.discard(document_id)
        else:
            self._removed[document_id] = text
            self._grow(len(text))

    def flush(self) -> None:
        """Write all that is pending into the open transaction."""
        if self._removed or len(self._added) < MANY:
            self._write_one_by_one()
        else:
            with self.while_writing():
                self.conn.execute(
                    "INSERT INTO documents_fts(rowid, text) SELECT d.id, d.text "
                    "FROM json_each(?) wanted CROSS JOIN documents d ON d.id = wanted.value",
                    (json.dumps(sorted(self._added)),),
                )
        self.drop()

    def drop(self) -> None:
        """Give up what is pending: the transaction it belonged to was rolled back."""
        self._removed.clear()
        self._added.clear()
        self._chars = 0

    def remove_range(self, first: int, last: int) -> None:
        """Forget all documents of a range of ids, before they are deleted."""
        self.flush()
        self.conn.execute(
            "INSERT INTO documents_fts(documents_fts, rowid, text) "
            "SELECT 'delete', id, text FROM documents WHERE id BETWEEN ? AND ? ORDER BY id",
            (first, last),
        )

    def segments(self) -> int:
        """Return of how many segments the index consists: what every search pays for."""
        row = self.conn.execute("SELECT count(DISTINCT segid) FROM documents_fts_idx").fetchone()
        return int(row[0])

    def merge(self, stop: Callable[[], bool]) -> None:
        """Merge all segments into one, in small transactions that let others in between.

        stop: asked after each step; what is merged by then stays. Not for inside of a transaction.
        """
        # A negative number makes segments of all levels candidates for the steps that follow.
        more = self._merge_step(-MERGE_PAGES)
        while more and not stop():
            more = self._merge_step(MERGE_PAGES)
        if not more:
            # From here on there are small changes, which should leave few small segments.
            for name, value in (("automerge", 4), ("crisismerge", 16)):
                self.conn.execute(
                    "INSERT INTO documents_fts(documents_fts, rank) VALUES (?, ?)", (name, value)
                )

    def _merge_step(self, pages: int) -> bool:
        before = self.conn.total_changes
        self.conn.execute(
            "INSERT INTO documents_fts(documents_fts, rank) VALUES ('merge', ?)", (pages,)
        )
        # FTS5's documented sign of a step that found nothing to do.
        return self.conn.total_changes - before >= 2

    def _write_one_by_one(self) -> None:
        for document_id in sorted(self._removed.keys() | self._added):
            if document_id in self._removed:
                self.conn.execute(
                    "INSERT INTO documents_fts(documents_fts, rowid, text) VALUES ('delete', ?, ?)",
                    (document_id, self._removed[document_id]),
                )
            if document_id in self._added:
                row = self.conn.execute(
                    "SELECT id, text FROM documents WHERE id = ?", (document_id,)
                )
                self.conn.execute(
                    "INSERT INTO documents_fts(rowid, text) VALUES (?, ?)", row.fetchone()
                )

    def _grow(self, chars: int) -> None:
        self._chars += chars
        if self._chars > PENDING_CHARS:
            self.flush()
