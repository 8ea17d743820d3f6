"""Writes the full-text index beside the documents.

FTS5 collects what is written and stores it as one segment when it is full, but also whenever a
savepoint opens, a statement of many rows begins, or a lower row id follows a higher one. So
the writes of a transaction are gathered here and made in one go, one row a statement, by
ascending id: few large segments instead of thousands of small ones.
"""

from __future__ import annotations

import sqlite3

PENDING_CHARS = 8_000_000
"""Texts held back before they are written; bounds the memory that one long session takes."""


class FullText:
    """Pending changes of documents_fts. The caller's transaction must end with flush or drop."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self._removed: dict[int, str] = {}
        self._added: dict[int, str] = {}
        self._chars = 0

    def add(self, document_id: int, text: str) -> None:
        self._added[document_id] = text
        self._grow(text)

    def remove(self, document_id: int, text: str) -> None:
        """Forget a document; text is what was indexed, which FTS5 must be told."""
        # What was only pending was never indexed.
        if self._added.pop(document_id, None) is None:
            self._removed[document_id] = text
            self._grow(text)

    def flush(self) -> None:
        """Write all that is pending into the open transaction."""
        for document_id in sorted(self._removed.keys() | self._added.keys()):
            if document_id in self._removed:
                self.conn.execute(
                    "INSERT INTO documents_fts(documents_fts, rowid, text) VALUES ('delete', ?, ?)",
                    (document_id, self._removed[document_id]),
                )
            if document_id in self._added:
                self.conn.execute(
                    "INSERT INTO documents_fts(rowid, text) VALUES (?, ?)",
                    (document_id, self._added[document_id]),
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

    def _grow(self, text: str) -> None:
        self._chars += len(text)
        if self._chars > PENDING_CHARS:
            self.flush()
