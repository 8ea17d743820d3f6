"""What plain sqlite3 does with the same texts: the floor under every figure."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

TABLES = """
CREATE TABLE documents (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE VIRTUAL TABLE documents_fts USING fts5(
  text, content='documents', content_rowid='id', tokenize='trigram case_sensitive 0'
);
"""
TRIGGER = """
CREATE TRIGGER documents_insert AFTER INSERT ON documents BEGIN
  INSERT INTO documents_fts(rowid, text) VALUES (new.id, new.text);
END;
"""
BATCH_BYTES = 8_000_000


@dataclass(frozen=True, slots=True)
class Insertion:
    """text_mb: megabytes of UTF-8. cpu_s: processor seconds, reading the texts apart.

    file_mb: of the file, before it was optimized. merge_s: seconds of optimizing it then.
    """

    text_mb: float
    seconds: float
    cpu_s: float
    file_mb: float
    merge_s: float

    @property
    def rate(self) -> float:
        return self.text_mb / self.seconds


def insertion(index: Path, target: Path, *, trigger: bool = False) -> Insertion:
    """Insert an index's texts into a table with the same full-text index, settings untouched.

    trigger: through one, as the documentation of FTS5 shows; else by statements of its own.
    """
    for suffix in ("", "-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    with closing(sqlite3.connect(target, isolation_level=None)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        conn.executescript(TABLES + (TRIGGER if trigger else ""))
        taken, cpu, read = 0.0, 0.0, 0
        for batch in batches(index, BATCH_BYTES):
            read += sum(len(text.encode()) for _, text in batch)
            start, cpu_start = time.perf_counter(), time.process_time()
            conn.execute("BEGIN")
            conn.executemany("INSERT INTO documents VALUES (?, ?)", batch)
            if not trigger:
                conn.executemany("INSERT INTO documents_fts(rowid, text) VALUES (?, ?)", batch)
            conn.execute("COMMIT")
            taken += time.perf_counter() - start
            cpu += time.process_time() - cpu_start
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file_mb = target.stat().st_size / 1e6
        start = time.perf_counter()
        conn.execute("INSERT INTO documents_fts(documents_fts) VALUES ('optimize')")
        merge_s = time.perf_counter() - start
    return Insertion(read / 1e6, taken, cpu, file_mb, merge_s)


def one_message(target: Path, document_id: int, text: str) -> float:
    """Return the seconds that one message takes to be inserted and committed there."""
    with closing(sqlite3.connect(target, isolation_level=None)) as conn:
        conn.execute("PRAGMA synchronous = NORMAL")
        start = time.perf_counter()
        conn.execute("BEGIN")
        conn.execute("INSERT INTO documents VALUES (?, ?)", (document_id, text))
        conn.execute("INSERT INTO documents_fts(rowid, text) VALUES (?, ?)", (document_id, text))
        conn.execute("COMMIT")
        return time.perf_counter() - start


def match(conn: sqlite3.Connection, words: Sequence[str]) -> int:
    """Ask the bare full-text index for each word; return how many rows match."""
    sql = "SELECT rowid FROM documents_fts WHERE documents_fts MATCH ?"
    return sum(len(conn.execute(sql, (f'"{word}"',)).fetchall()) for word in words)


def like(conn: sqlite3.Connection, layout: str, words: Sequence[str]) -> int:
    """Search OpenCode's own database the way people do today; return how many sessions."""
    table = "part" if layout == "v1" else "session_message"
    one = f"SELECT session_id FROM {table} WHERE data LIKE ?"
    sql = " INTERSECT ".join([one] * len(words))
    return len(conn.execute(sql, [f"%{word}%" for word in words]).fetchall())


def batches(index: Path, size: int) -> Iterator[list[tuple[int, str]]]:
    """Yield an index's documents, about that many characters at a time, by ascending id."""
    with closing(sqlite3.connect(f"{index.as_uri()}?mode=ro", uri=True)) as conn:
        batch: list[tuple[int, str]] = []
        held = 0
        for row in conn.execute("SELECT id, text FROM documents ORDER BY id"):
            batch.append(row)
            held += len(row[1])
            if held >= size:
                yield batch
                batch, held = [], 0
        yield batch
