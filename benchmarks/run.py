"""Measure sync and search on a generated history, each figure beside its floor.

    python -m benchmarks --size S

prints the tables and writes them to RESULTS.md. Everything is made in a temporary directory
(or --work, which keeps it), in one run, by the program that users start.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import click
import httpx

from benchmarks import corpus, floors, growth, results, timing
from benchmarks.corpus import Manifest
from benchmarks.history import SIZES
from benchmarks.questions import Question, questions
from benchmarks.serving import Crowd, ask, crowd, served
from datasette_history.tools import Context, call
from sync.backfill import run_backfill
from sync.hookspecs import SyncConfig
from sync.index import Index
from sync.model import Source
from sync.plugins import make_plugin_manager, probe_sources

RESULTS = Path(__file__).with_name("RESULTS.md")
REPEATS = 20
PEOPLE = 20
QUIET_S = 8.0
FLOOR_INSERTS = 20
LIKE_BUDGET_S = 120.0
"""After this long, the slow floor is left out for the questions that remain."""


class Bench:
    """One size and layout, measured step by step."""

    def __init__(self, work: Path, size: str, layout: str) -> None:
        self.layout = layout
        self.index = work / "index" / "history.db"
        self.folder = work / f"{size}-{layout}"
        self.other = work / f"{size}-other"
        self.floor = work / "floor.db"
        if not (self.folder / "manifest.json").exists():
            _say(f"generating {size} ({layout})")
            corpus.write(self.folder, size, layout)
        self.manifest = Manifest.load(self.folder)
        self.database = self.folder / "opencode.db"

    # Syncing

    def sync_rows(self) -> Iterator[list[str]]:
        _say("first sync")
        shutil.rmtree(self.index.parent, ignore_errors=True)
        first = self.sync()
        report = json.loads(first.output)
        if report["failures"] or report["refreshed"] != self.manifest.sessions:
            raise RuntimeError(f"the first sync was not complete: {first.output[:1000]}")
        rate = self.manifest.text_bytes / 1e6 / first.seconds
        if self.manifest.size in ("XS", "S"):
            _say("floor, through a trigger")
            slow = floors.insertion(self.index, self.floor, trigger=True)
            yield _rate_row("first sync; floor inserts through a trigger", rate, slow.rate)
        _say("floor")
        plain = floors.insertion(self.index, self.floor)
        whole = plain.text_mb / (plain.seconds + plain.merge_s)
        yield _rate_row("first sync; floor inserts", rate, plain.rate)
        yield _rate_row("first sync; floor inserts, then optimizes", rate, whole)
        yield ["time of the first sync", f"{first.seconds:.1f} s", f"{plain.seconds:.1f} s", ""]
        yield ["its processor time", f"{first.cpu_s:.1f} s", f"{plain.cpu_s:.1f} s",
               f"{first.cpu_s / plain.cpu_s:.2f}"]  # fmt: skip
        yield ["peak memory of the first sync", f"{first.peak_mb:.0f} MB", "", ""]
        yield self.size_row(plain)
        _say("unchanged, and one new message")
        self.sync()
        again = self.sync()
        yield ["sync with nothing changed, whole command", f"{again.seconds:.2f} s", "", ""]
        yield from self.refresh_rows()

    def size_row(self, plain: floors.Insertion) -> list[str]:
        size_mb = self.index.stat().st_size / 1e6
        with closing(_read(self.index)) as conn:
            (held,) = conn.execute(
                "SELECT sum(length(CAST(text AS BLOB))) FROM documents"
            ).fetchone()
        ours, floor = size_mb / (held / 1e6), plain.file_mb / plain.text_mb
        return [
            "index size, times the text in it", f"{ours:.2f}", f"{floor:.2f}", f"{ours / floor:.2f}"
        ]  # fmt: skip

    def refresh_rows(self) -> Iterator[list[str]]:
        """One more message in the session of 2,000, several times; the median counts."""
        commands: list[float] = []
        backfills: list[float] = []
        refreshes: list[float] = []
        for _ in range(3):
            for work, taken in (
                (self.sync, commands),
                (self.backfill, backfills),
                (self.refresh, refreshes),
            ):
                growth.add_message(self.database, self.layout, self.manifest.long)
                taken.append(timing.seconds(work)[0])
        floor = sum(
            floors.one_message(self.floor, 2**50 + n, growth.TEXT) for n in range(FLOOR_INSERTS)
        )
        for label, taken in (
            ("the whole command", commands),
            ("listing and refreshing in the process", backfills),
            ("refreshing alone", refreshes),
        ):
            middle = sorted(taken)[1]
            yield [
                f"one new message in a session of 2,000: {label}", f"{middle * 1e3:.0f} ms",
                f"{floor * 1e3:.0f} ms ({FLOOR_INSERTS} inserts)", f"{middle / floor:.2f}",
            ]  # fmt: skip

    def sync(self, database: Path | None = None) -> timing.Run:
        return timing.run(
            ["-m", "sync", "sync", "--json", "--index", str(self.index),
             "--db", str(database or self.database)]
        )  # fmt: skip

    def refresh(self) -> None:
        """Refresh the long session as a watch does that was told of it."""
        session_id = self.manifest.long
        source = self.source()
        with Index.open(self.index) as index:
            source_id, fingerprint = index.conn.execute(
                "SELECT source_id, fingerprint FROM sessions WHERE id = ?", (session_id,)
            ).fetchone()
            copy = source.read(session_id, index.known_stamps(session_id))
            if copy is None:
                raise RuntimeError(f"{session_id} is gone")
            with index.transaction():
                written = index.replace_session(
                    copy, source_id=source_id, fingerprint=fingerprint,
                    fetched_at_ms=int(time.time() * 1000),
                )  # fmt: skip
        source.close()
        if written.inserted != 1:
            raise RuntimeError(f"one message is new, {written.inserted} were inserted")

    def source(self) -> Source:
        config = SyncConfig(databases=(self.database,), explicit=True)
        probes = probe_sources(make_plugin_manager(), config)
        return next(probe.source for probe in probes if probe.source is not None)

    def backfill(self) -> None:
        source = self.source()
        with Index.open(self.index) as index:
            report = run_backfill(index, [source])
        source.close()
        if report.refreshed != 1:
            raise RuntimeError(f"one session has changed, {report.refreshed} were refreshed")

    # Searching

    def question_rows(self) -> Iterator[list[str]]:
        context = Context(now=datetime.now().astimezone())
        like_s = 0.0
        with (
            served(self.index) as base,
            httpx.Client(base_url=base, timeout=120) as client,
            closing(_read(self.index)) as conn,
            closing(_read(self.database)) as opencode,
        ):
            for question in questions(self.manifest, conn):
                inside = timing.latency(_asking(conn, question, context), times=REPEATS)
                over_http = timing.latency(_asking_http(client, question), times=REPEATS)
                bare, like = "", ""
                if question.words:
                    bare = str(timing.latency(_matching(conn, question), times=REPEATS))
                    if like_s < LIKE_BUDGET_S:
                        took, _ = timing.seconds(_liking(opencode, self.layout, question))
                        like_s += took
                        like = f"{took * 1e3:.0f}"
                yield [question.name, f"{inside.first:.0f}", str(inside), str(over_http), bare,
                       like]  # fmt: skip

    # Under load

    def load_rows(self) -> Iterator[list[str]]:
        """Everybody searches, first while nothing is written, then while a sync rewrites all."""
        with closing(_read(self.index)) as conn:
            asked = [q for q in questions(self.manifest, conn) if q.tool == "search-messages"]
        other = "v2" if self.layout == "v1" else "v1"
        _say("generating the other layout")
        corpus.write(self.other, self.manifest.size, other)
        with served(self.index) as base:
            _say("load, quiet")
            quiet = _crowd_while(base, asked, lambda: time.sleep(QUIET_S))
            _say("load, syncing")
            busy = _crowd_while(base, asked, lambda: self.sync(self.other / "opencode.db"))
        shutil.rmtree(self.other)
        for label, found in (("nothing is written", quiet), ("a sync rewrites everything", busy)):
            yield [label, f"{len(found.taken)}", f"{len(found.errors)}", str(found.latency),
                   f"{found.latency.p95 / quiet.latency.p95:.1f}"]  # fmt: skip
        for error in sorted(set(quiet.errors + busy.errors))[:10]:
            _say(f"error under load: {error}")


def _rate_row(label: str, rate: float, floor: float) -> list[str]:
    return [label, f"{rate:.2f} MB/s", f"{floor:.2f} MB/s", f"{rate / floor:.2f}"]


def _crowd_while(base: str, asked: list[Question], work: Callable[[], object]) -> Crowd:
    stop = threading.Event()
    found: list[Crowd] = []
    asking = threading.Thread(
        target=lambda: found.append(crowd(base, asked, people=PEOPLE, stop=stop))
    )
    asking.start()
    try:
        work()
    finally:
        stop.set()
        asking.join()
    return found[0]


def _asking(conn: sqlite3.Connection, question: Question, context: Context) -> Callable[[], object]:
    return lambda: call(conn, question.tool, question.inputs, context)


def _asking_http(client: httpx.Client, question: Question) -> Callable[[], object]:
    return lambda: ask(client, question)


def _matching(conn: sqlite3.Connection, question: Question) -> Callable[[], object]:
    return lambda: floors.match(conn, question.words)


def _liking(conn: sqlite3.Connection, layout: str, question: Question) -> Callable[[], object]:
    return lambda: floors.like(conn, layout, question.words)


def _read(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)


def _say(text: str) -> None:
    click.echo(f"... {text}", err=True)


@contextmanager
def _workplace(work: Path | None) -> Iterator[Path]:
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        yield work.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="history-bench-") as folder:
        yield Path(folder)


def measure(bench: Bench, *, under_load: bool) -> str:
    """Run everything; return the tables."""
    parts = [
        results.machine() + ".",
        results.table(("syncing", "datasette-history", "floor", "ratio"), list(bench.sync_rows())),
    ]
    _say("questions")
    parts.append(
        results.table(
            ("question (ms, median / p95)", "first", "in the process", "over HTTP", "bare MATCH",
             "LIKE over OpenCode's database"),
            list(bench.question_rows()),
        )
    )  # fmt: skip
    if under_load:
        parts.append(
            results.table(
                (f"{PEOPLE} people searching at once while", "searches", "errors",
                 "ms, median / p95", "p95, times the quiet one"),
                list(bench.load_rows()),
            )
        )  # fmt: skip
    return "\n\n".join(parts)


@click.command()
@click.option("--size", type=click.Choice(list(SIZES)), default="S", show_default=True)
@click.option("--layout", type=click.Choice(["v1", "v2"]), default="v1", show_default=True)
@click.option("--work", type=click.Path(path_type=Path), help="Keep what is generated here")
@click.option("--load/--no-load", default=True, help="Measure searches while a sync writes, too")
@click.option("--save/--no-save", default=True, help="Write the tables to RESULTS.md")
def main(size: str, layout: str, work: Path | None, load: bool, save: bool) -> None:
    """Measure sync and search on a generated history"""
    with _workplace(work) as folder:
        bench = Bench(folder, size, layout)
        text = measure(bench, under_load=load)
        title = (
            f"Size {size}, {layout}: {bench.manifest.text_bytes / 1e6:.0f} MB of text, "
            f"{bench.manifest.sessions} sessions, {bench.manifest.messages} messages"
        )
    click.echo(f"## {title}\n\n{text}")
    if save:
        results.save(RESULTS, title, text)


if __name__ == "__main__":
    main()
