"""Try one way to fill the full-text index, with the texts of an index that is there.

    python -m benchmarks.probe_fts history.db --automerge 32 --hashsize 2097152
    python -m benchmarks.probe_fts history.db --workers 2 --batch 2

prints one line: rate, segments, size, and the time of a step-by-step merge. It fails where
FTS5's own check of the result does.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import click

from benchmarks import floors
from benchmarks.fts_parts import Text, copy, serve

SETTINGS = ("automerge", "crisismerge", "hashsize", "pgsz")
STEP_PAGES = 500


def fill(
    batches: Iterator[list[Text]], target: Path, settings: dict[str, int], *, trigger: bool
) -> None:
    """Insert all batches, each in a transaction of its own, within this process."""
    with closing(_create(target, settings, trigger=trigger)) as conn:
        for batch in batches:
            conn.execute("BEGIN")
            conn.executemany("INSERT INTO documents VALUES (?, ?)", batch)
            if not trigger:
                conn.executemany("INSERT INTO documents_fts(rowid, text) VALUES (?, ?)", batch)
            conn.execute("COMMIT")


def fill_side_by_side(batches: Iterator[list[Text]], target: Path, workers: int) -> None:
    """Let workers build the parts, and copy them in the order of the batches."""
    _create(target, {}, trigger=False).close()
    context = multiprocessing.get_context("spawn")
    idle: deque[Connection] = deque()
    processes = []
    for _ in range(workers):
        here, there = context.Pipe()
        processes.append(context.Process(target=serve, args=(there,), daemon=True))
        processes[-1].start()
        idle.append(here)
    pending: deque[tuple[Connection, list[Text]]] = deque()
    with closing(_connect(target)) as conn:
        for batch in batches:
            if not idle:
                idle.append(_finish(conn, *pending.popleft()))
            worker = idle.popleft()
            worker.send(batch)
            pending.append((worker, batch))
        while pending:
            idle.append(_finish(conn, *pending.popleft()))
    for worker in idle:
        worker.send(None)
    for process in processes:
        process.join()


def _finish(conn: sqlite3.Connection, worker: Connection, batch: list[Text]) -> Connection:
    part = worker.recv()
    conn.execute("BEGIN")
    conn.executemany("INSERT INTO documents VALUES (?, ?)", batch)
    copy(conn, part)
    conn.execute("COMMIT")
    return worker


def merge(target: Path) -> tuple[int, float, float]:
    """Merge step by step; return steps, seconds, and the longest step in seconds."""
    with closing(_connect(target)) as conn:
        taken = []
        pages = -STEP_PAGES
        while True:
            before, start = conn.total_changes, time.perf_counter()
            conn.execute(
                "INSERT INTO documents_fts(documents_fts, rank) VALUES ('merge', ?)", [pages]
            )
            taken.append(time.perf_counter() - start)
            pages = STEP_PAGES
            if conn.total_changes - before < 2:
                return len(taken), sum(taken), max(taken)


def _create(target: Path, settings: dict[str, int], *, trigger: bool) -> sqlite3.Connection:
    conn = _connect(target)
    conn.executescript(floors.TABLES + (floors.TRIGGER if trigger else ""))
    for name, value in settings.items():
        conn.execute("INSERT INTO documents_fts(documents_fts, rank) VALUES (?, ?)", (name, value))
    return conn


def _connect(target: Path) -> sqlite3.Connection:
    conn = sqlite3.connect(target, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = NORMAL")
    return conn


def _segments(conn: sqlite3.Connection) -> int:
    sql = "SELECT count(DISTINCT segid) FROM documents_fts_idx"
    return int(conn.execute(sql).fetchone()[0])


def _cpu() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@click.command()
@click.argument("index", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--automerge", type=int)
@click.option("--crisismerge", type=int)
@click.option("--hashsize", type=int)
@click.option("--pgsz", type=int)
@click.option("--batch", default=8.0, help="MB of text per transaction")
@click.option("--trigger", is_flag=True, help="Insert through a trigger")
@click.option("--workers", default=0, help="Build the parts in that many processes")
def main(index: Path, batch: float, trigger: bool, workers: int, **settings: int | None) -> None:
    """Fill a full-text index with the texts of INDEX and say what that cost."""
    chosen = {name: value for name, value in settings.items() if value is not None}
    with tempfile.TemporaryDirectory(prefix="history-probe-") as folder:
        target = Path(folder) / "probe.db"
        batches = floors.batches(index.absolute(), int(batch * 1e6))
        start, cpu = time.perf_counter(), _cpu()
        if workers:
            fill_side_by_side(batches, target, workers)
        else:
            fill(batches, target, chosen, trigger=trigger)
        seconds, cpu = time.perf_counter() - start, _cpu() - cpu
        with closing(_connect(target)) as conn:
            (text,) = conn.execute(
                "SELECT sum(length(CAST(text AS BLOB))) FROM documents"
            ).fetchone()
            segments = _segments(conn)
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            conn.execute(
                "INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)"
            )
        size = target.stat().st_size
        steps, merge_s, longest = merge(target)
        click.echo(
            f"{text / 1e6 / seconds:.2f} MB/s ({cpu:.1f} processor seconds), "
            f"{segments} segments, {size / text:.2f} times the text; "
            f"merge {merge_s:.1f} s in {steps} steps, the longest {longest * 1e3:.0f} ms"
        )


if __name__ == "__main__":
    main()
