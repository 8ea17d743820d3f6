"""Databases in folders that cannot be written, read from a private copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sync.sources.readonly import ReadOnlyDatabase
from sync.sources.sqlite import SqliteSource
from tests.builders import T0
from tests.opencode_stores import Database

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="not applicable: folders have no such modes"
)

READER = """
import json, os, stat, sys, tempfile
from pathlib import Path
from sync.sources.sqlite import SqliteSource
tempfile.tempdir = sys.argv[2]
if os.getuid() == 0:  # whom no mode keeps from writing
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
source = SqliteSource(Path(sys.argv[1]))
def copies():
    return [stat.S_IMODE(os.stat(c).st_mode) for c in Path(sys.argv[2]).glob("opencode-history-*")]
for _ in sys.stdin:
    refs = [ref.id for ref in source.sessions()]
    texts = [p.text for ref in refs for m in source.read(ref, {}).messages for p in m.parts]
    print(json.dumps({"sessions": refs, "texts": texts, "copies": copies()}), flush=True)
source.close()
print(json.dumps(copies()), flush=True)
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user of the machine can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="opencode-readable-"))
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o777)
    yield folder
    set_modes(folder, folder_mode=0o700, file_mode=0o600)
    shutil.rmtree(folder)


def set_modes(folder: Path, *, folder_mode: int, file_mode: int) -> None:
    folder.chmod(folder_mode)
    for path in folder.rglob("*"):
        path.chmod(folder_mode if path.is_dir() else file_mode)


class Reader:
    """Reads a database in another process, as a user who can write neither it nor its folder."""

    def __init__(self, database: Path, temporary: Path) -> None:
        self.folder = database.parent
        self.process = subprocess.Popen(
            [sys.executable, "-c", READER, str(database), str(temporary)],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> Any:
        assert self.process.stdin is not None
        set_modes(self.folder, folder_mode=0o555, file_mode=0o444)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found = self._line()
        set_modes(self.folder, folder_mode=0o755, file_mode=0o644)
        return found

    def end(self) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.close()
        left = self._line()
        assert self.process.wait(30) == 0
        return left

    def _line(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@contextmanager
def reader(database: Path, temporary: Path) -> Iterator[Reader]:
    running = Reader(database, temporary)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()
        for pipe in (running.process.stdin, running.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_a_killed_opencode_left_in_a_closed_folder_is_read_from_a_copy(shared: Path) -> None:
    running = Database(shared / "running" / "opencode.db", "1.18")
    running.session("ses_1")
    running.message("msg_1", "ses_1", "user", "in the wal", at=T0)
    folder = shared / "data"
    folder.mkdir()
    for name in ("opencode.db", "opencode.db-wal"):
        shutil.copy(running.path.with_name(name), folder / name)
    running.conn.close()
    before = contents(folder)
    with reader(folder / "opencode.db", shared / "tmp") as other:
        assert other.read() == {
            "sessions": ["ses_1"],
            "texts": ["in the wal"],
            "copies": [0o700],
        }
        assert other.end() == []
    assert contents(folder) == before


def test_a_database_in_a_closed_folder_is_followed_from_copy_to_copy(shared: Path) -> None:
    folder = shared / "data"
    with Database(folder / "opencode.db", "1.18") as db:
        db.session("ses_1")
    with reader(folder / "opencode.db", shared / "tmp") as other:
        assert other.read()["sessions"] == ["ses_1"]
        with Database(folder / "opencode.db") as db:
            db.session("ses_2")
        assert sorted(other.read()["sessions"]) == ["ses_1", "ses_2"]
        assert other.end() == []
    assert list(contents(folder)) == ["opencode.db"]


def test_a_wal_that_has_just_grown_says_nothing_yet(tmp_path: Path) -> None:
    with Database(tmp_path / "opencode.db", "1.18") as db:
        db.session("ses_1")
        database = ReadOnlyDatabase(db.path)
        written = database.wal.stat().st_mtime
        assert not database.is_settled(lambda: written + 1)
        assert database.is_settled(lambda: written + 3)
        assert SqliteSource(db.path).signature() is None
        os.utime(database.wal, (written - 60, written - 60))
        assert SqliteSource(db.path).signature() == database.signature()
