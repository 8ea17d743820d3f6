"""Write a generated OpenCode history into a real SQLite file.

    python -m benchmarks.corpus --size S --layout v1 DIR

makes DIR/opencode.db, as in OpenCode's data directory, and DIR/manifest.json, which says
what is in it. Memory stays bounded by one session; the same arguments give the same bytes of
history.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from benchmarks.history import COMMON_WORDS, NEEDLES, SIZES, START_MS, History, Turn
from benchmarks.layouts import V1, V2, Ids, Layout, project_row

LAYOUTS: Final[dict[str, Callable[[], Layout]]] = {"v1": V1, "v2": V2}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a generated file holds.

    text_bytes: UTF-8 bytes of all that a search can find, titles apart.
    long, longest: ids of the sessions with 2,000 and 12,000 messages (fewer at XS).
    needles: by name, the text and the ids of the sessions that hold it.
    """

    size: str
    layout: str
    seed: int
    sessions: int
    messages: int
    text_bytes: int
    edits: int
    long: str
    longest: str
    project_ids: list[str]
    common_words: list[str]
    needles: dict[str, tuple[str, list[str]]]

    @classmethod
    def load(cls, directory: Path) -> Manifest:
        return cls(**json.loads((directory / "manifest.json").read_text(encoding="utf-8")))


def write(directory: Path, size: str, layout: str, *, seed: int = 7) -> Manifest:
    """Write directory/opencode.db and its manifest; an existing file is replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    database = directory / "opencode.db"
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    history = History(SIZES[size], seed)
    with closing(sqlite3.connect(database, isolation_level=None)) as conn:
        # Nobody reads the file before it is finished, and a cut-off one is made anew.
        conn.execute("PRAGMA journal_mode = OFF")
        conn.execute("PRAGMA synchronous = OFF")
        conn.execute("BEGIN")
        conn.executescript(LAYOUTS[layout]().ddl)
        conn.executemany(
            f"INSERT INTO project VALUES ({', '.join('?' * 12)})",
            (project_row(project, START_MS) for project in history.projects),
        )
        counts = _fill(conn, history, LAYOUTS[layout]())
        conn.commit()
        conn.execute("PRAGMA journal_mode = WAL")
    manifest = _manifest(history, layout, counts)
    text = json.dumps(asdict(manifest), indent=1)
    (directory / "manifest.json").write_text(text + "\n", encoding="utf-8")
    return manifest


@dataclass(slots=True)
class _Counts:
    messages: int = 0
    text_bytes: int = 0
    edits: int = 0

    def see(self, turn: Turn) -> Turn:
        self.messages += 1
        self.text_bytes += sum(len(text.encode()) for text in turn.texts())
        self.edits += len(
            {piece.edited for piece in turn.pieces if not isinstance(piece, tuple)} - {None}
        )
        return turn


def _fill(conn: sqlite3.Connection, history: History, layout: Layout) -> _Counts:
    ids = Ids(history.seed)
    counts = _Counts()
    for plan in history.plans():
        turns = (counts.see(turn) for turn in history.turns(plan))
        for table, rows in layout.rows(plan, turns, ids).items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                conn.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    return counts


def _manifest(history: History, layout: str, counts: _Counts) -> Manifest:
    total = history.size.sessions
    return Manifest(
        size=history.size.name,
        layout=layout,
        seed=history.seed,
        sessions=total,
        messages=counts.messages,
        text_bytes=counts.text_bytes,
        edits=counts.edits,
        long=Ids.session(history.long),
        longest=Ids.session(history.longest),
        project_ids=[project.id for project in history.projects],
        common_words=list(COMMON_WORDS),
        needles={
            name: (needle.text, [Ids.session(n) for n in needle.sessions(total)])
            for name, needle in NEEDLES.items()
        },
    )


@click.command()
@click.option("--size", type=click.Choice(list(SIZES)), default="S", show_default=True)
@click.option("--layout", type=click.Choice(list(LAYOUTS)), default="v1", show_default=True)
@click.option("--seed", default=7, show_default=True)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def main(size: str, layout: str, seed: int, directory: Path) -> None:
    """Write a generated OpenCode history into DIRECTORY."""
    began = time.perf_counter()
    made = write(directory, size, layout, seed=seed)
    seconds = time.perf_counter() - began
    megabytes = made.text_bytes / 1e6
    click.echo(
        f"{made.sessions} sessions, {made.messages} messages, {megabytes:.1f} MB of text "
        f"in {seconds:.1f} s ({megabytes / seconds:.0f} MB/s)"
    )


if __name__ == "__main__":
    main()
