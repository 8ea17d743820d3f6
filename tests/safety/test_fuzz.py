"""Stores with anything wrong in them: no crash, no hang, and no good session lost beside a bad one.

The same cases each time, so that CI is no game of chance; HISTORY_FUZZ=1000 tries as many others.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sync.backfill import run_backfill
from sync.index import Index
from sync.model import Source
from sync.report import Report
from sync.sources.json_store import JsonSource
from sync.sources.sqlite import SqliteSource
from tests.builders import T0
from tests.opencode_stores import Database, JsonStore, tool, v2_tool
from tests.safety.same_index import content
from tests.sync.watching import require_sound

MORE = os.environ.get("HISTORY_FUZZ")

fuzz = settings(
    max_examples=int(MORE or "60"),
    derandomize=MORE is None,
    database=None,
    deadline=timedelta(seconds=20),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

TABLES = ("session", "message", "part", "session_v2", "session_message", "todo", "project")

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([2**63, -1, 1e308, "\ud800", "\x00", "../../etc/passwd", T0, "user"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)

cells = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=30)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    | json_values.map(json.dumps)
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of both generations: one to be damaged, and two that stay as they are."""
    path = tmp_path_factory.mktemp("database") / "opencode.db"
    with Database(path, "1.18", "2") as db:
        for name in ("bad", "good"):
            db.session(f"ses_{name}", f"The {name} one")
            call = tool("edit", input={"filePath": "a.ts", "newString": "x"}, output="done")
            db.message(f"msg_{name}1", f"ses_{name}", "user", f"{name} question")
            db.message(
                f"msg_{name}2", f"ses_{name}", "assistant", f"{name} answer", call, at=T0 + 1
            )
        for name in ("bad2", "good2"):
            db.session(f"ses_{name}", f"The {name} one", table="session_v2")
            db.v2(f"msg_{name}1", f"ses_{name}", "user", 1, text=f"{name} question")
            items = [{"type": "text", "text": f"{name} answer"}, v2_tool("bash")]
            db.v2(f"msg_{name}2", f"ses_{name}", "assistant", 2, at=T0 + 1, content=items)
    return path


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def backfill(source: Source, index_path: Path) -> Report:
    with contextlib.closing(source), Index.open(index_path) as index:
        return run_backfill(index, [source])


def rows_of(path: Path, *session_ids: str) -> Any:
    """Return what an index says of some sessions."""
    found = content(path)
    names = {repr(session_id) for session_id in session_ids}
    return {
        table: [row for row in found[table] if names & set(row)]
        for table in ("sessions", "documents", "parts", "document_paths")
    }


GOOD = ("ses_good", "ses_good2")


@given(data=st.data())
@fuzz
def test_any_value_in_any_column_costs_its_own_session_at_most(
    database: Path, data: st.DataObject
) -> None:
    with scratch() as folder:
        backfill(SqliteSource(database), folder / "expected.db")
        path = Path(shutil.copy(database, folder / "opencode.db"))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("PRAGMA foreign_keys = OFF")
            for _ in range(data.draw(st.integers(1, 3))):
                damage_a_row(conn, data)
        report = backfill(SqliteSource(path), folder / "history.db")
        assert report.exit_code() in (0, 1)
        assert not report.sources[0].error
        require_sound(folder / "history.db")
        assert rows_of(folder / "history.db", *GOOD) == rows_of(folder / "expected.db", *GOOD)


def damage_a_row(conn: sqlite3.Connection, data: st.DataObject) -> None:
    present = {name for (name,) in conn.execute("SELECT name FROM sqlite_master")}
    table = data.draw(st.sampled_from([t for t in TABLES if t in present]))
    columns = [row[1] for row in conn.execute(f"PRAGMA table_info({table})")]
    key = "session_id" if "session_id" in columns else "id"
    rows = [
        rowid for (rowid,) in conn.execute(f"SELECT rowid FROM {table} WHERE {key} LIKE 'ses_bad%'")
    ]
    if not rows:
        return
    column = data.draw(st.sampled_from(columns))
    value = data.draw(cells)
    with contextlib.suppress(sqlite3.IntegrityError):
        conn.execute(
            f"UPDATE {table} SET {column} = ? WHERE rowid = ?",
            (value, data.draw(st.sampled_from(rows))),
        )


@given(data=st.data())
@fuzz
def test_any_bytes_anywhere_in_a_database_end_in_an_answer(
    database: Path, data: st.DataObject
) -> None:
    with scratch() as folder:
        path = folder / "opencode.db"
        whole = bytearray(database.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, len(whole) - 1))
            piece = data.draw(st.binary(min_size=1, max_size=64) | st.just(b"\xff" * 4096))
            whole[start : start + len(piece)] = piece
        path.write_bytes(whole[: data.draw(st.integers(1, len(whole)) | st.just(len(whole)))])
        report = backfill(SqliteSource(path), folder / "history.db")
        assert report.exit_code() in (0, 1)
        require_sound(folder / "history.db")


@given(data=st.data())
@fuzz
def test_any_bytes_in_any_file_cost_their_own_session_at_most(data: st.DataObject) -> None:
    with scratch() as folder:
        store = JsonStore(folder)
        files = []
        for name in ("bad", "good"):
            session_file = store.session(f"ses_{name}", f"The {name} one", project=f"p{name}")
            files += [session_file] if name == "bad" else []
            for number, role in enumerate(("user", "assistant")):
                call = tool("edit", input={"filePath": "a.ts"}, output="done")
                file = store.message(
                    f"msg_{name}{number}",
                    f"ses_{name}",
                    role,
                    f"{name} words",
                    call,
                    at=T0 + number,
                )
                files += [file] if name == "bad" else []
        files += sorted(store.root.glob("part/msg_bad*/*.json"))
        old = T0 / 1000 - 10_000
        for file in files:
            os.utime(file, (old, old))
        backfill(JsonSource(store.root), folder / "expected.db")
        for _ in range(data.draw(st.integers(1, 3))):
            damage_a_file(data.draw(st.sampled_from(files)), data)
        report = backfill(JsonSource(store.root), folder / "history.db")
        assert report.exit_code() in (0, 1)
        assert not report.sources[0].error
        require_sound(folder / "history.db")
        assert rows_of(folder / "history.db", "ses_good") == rows_of(
            folder / "expected.db", "ses_good"
        )


def damage_a_file(file: Path, data: st.DataObject) -> None:
    whole = file.read_bytes()
    kind = data.draw(st.sampled_from(["bytes", "cut", "value", "key"]))
    if kind == "bytes":
        start = data.draw(st.integers(0, len(whole)))
        whole = whole[:start] + data.draw(st.binary(max_size=20)) + whole[start + 1 :]
    elif kind == "cut":
        whole = whole[: data.draw(st.integers(0, len(whole)))]
    else:
        value = data.draw(json_values)
        with contextlib.suppress(ValueError, AttributeError):
            found = json.loads(whole)
            key = data.draw(st.sampled_from(sorted(found))) if found else ""
            value = {**found, key: value}
        whole = json.dumps(value).encode()
    file.write_bytes(whole)
    os.utime(file, (1, 1))
