"""Marks of copied messages, where one and the same moment has very many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sync import forks
from sync.backfill import run_backfill
from sync.index import Index
from tests.builders import MINUTE, T0, session, user
from tests.sync.memory_source import MemorySource


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with Index.open(tmp_path / "history.db") as index:
        yield index


def source_of_forks(count: int) -> MemorySource:
    source = MemorySource()
    for number in range(count):
        at = T0 + (number + 1) * MINUTE
        source.put(
            session(f"s{number:04}", f"Title (fork #{number})", at=at), user("m1", "said", at=T0)
        )
    return source


def copied(index: Index) -> list[Any]:
    return index.conn.execute(
        "SELECT d.session_id, d.copied, s.forked_from FROM documents d "
        "JOIN sessions s ON s.id = d.session_id WHERE d.seq = 0 ORDER BY 1"
    ).fetchall()


def test_forks_are_told_once_a_transaction_not_once_a_session(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    settle = forks.settle
    monkeypatch.setattr(forks, "settle", lambda *args: calls.append(1) or settle(*args))
    run_backfill(index, [source_of_forks(20)])
    assert len(calls) == 1
    assert copied(index)[:3] == [
        ("s0000", 0, None),
        ("s0001", 1, "s0000"),
        ("s0002", 1, "s0000"),
    ]


def test_a_moment_that_very_many_messages_share_tells_nothing(index: Index) -> None:
    run_backfill(index, [source_of_forks(6)])
    assert sum(row[1] for row in copied(index)) == 5
    with index.transaction():
        forks.settle(index.conn, [T0], crowd=6)
    assert copied(index) == [(f"s{number:04}", 0, None) for number in range(6)]
    with index.transaction():
        forks.settle(index.conn, [T0], crowd=7)
    assert sum(row[1] for row in copied(index)) == 5


def test_marks_of_a_transaction_that_failed_are_not_made_later(index: Index) -> None:
    source = source_of_forks(2)
    source.fails["s0000"] = ValueError("broken off")
    run_backfill(index, [source])
    assert copied(index) == [("s0001", 0, None)]
