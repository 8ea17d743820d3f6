"""Syncing real stores into real indexes, and comparing what two indexes hold."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sync.backfill import run_backfill
from sync.index import Index
from sync.model import Source
from sync.sources.json_store import JsonSource
from sync.sources.sqlite import SqliteSource

_ticks = itertools.count(1_800_000_000)


def sources_of(data_dir: Path) -> list[Source]:
    """The stores of one data directory."""
    found: list[Source] = [SqliteSource(path) for path in sorted(data_dir.glob("opencode*.db"))]
    if (data_dir / "storage").is_dir():
        found.append(JsonSource(data_dir / "storage"))
    return found


def sync(index: Path, *sources: Source, keep: bool = False) -> Path:
    """Bring the index at path up to date; every sync is a second later than the last."""
    now = next(_ticks)
    with Index.open(index) as opened:
        report = run_backfill(opened, sources, keep=keep, clock=lambda: float(now))
    assert report.failures == []
    for source in sources:
        source.close()
    return index


def sync_dir(index: Path, data_dir: Path) -> Path:
    return sync(index, *sources_of(data_dir))


@contextmanager
def opened(index: Path) -> Iterator[sqlite3.Connection]:
    conn = sqlite3.connect(index)
    try:
        yield conn
    finally:
        conn.close()


def rows(index: Path, sql: str, *parameters: object) -> list[Any]:
    with opened(index) as conn:
        found = conn.execute(sql, parameters).fetchall()
    return [row[0] if len(row) == 1 else row for row in found]


_CONTENT: Sequence[str] = (
    "SELECT id, project_id, parent_id, title, directory, created, updated, cost, forked_from, "
    "fork_told, stranded, deleted_at FROM sessions ORDER BY id",
    "SELECT session_id, message_id, seq, role, timestamp, cost, tokens_output, copied, "
    "copied_from, reverted, only_in, own_length, stamp, text "
    "FROM documents ORDER BY session_id, seq",
    "SELECT d.session_id, d.message_id, p.seq, p.kind, p.call, p.name, p.start, p.length, "
    "p.only_in, p.reverted FROM parts p JOIN documents d ON d.id = p.document_id ORDER BY 1, 2, 3",
    "SELECT d.session_id, d.message_id, e.path, e.tool, e.project_id, e.reverted "
    "FROM document_paths e JOIN documents d ON d.id = e.document_id ORDER BY 1, 2, 3",
)


def content(index: Path) -> list[list[Any]]:
    """All that an index holds but for what depends on when and in which order it was written."""
    return [rows(index, sql) for sql in _CONTENT]


def assert_equals_fresh(index: Path, sources: Callable[[], Sequence[Source]]) -> None:
    """Check that the index holds what one made of the same stores now would."""
    fresh = sync(index.with_name(f"fresh-{next(_ticks)}.db"), *sources())
    assert content(index) == content(fresh)
    with opened(index) as conn:
        conn.execute("INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)")
