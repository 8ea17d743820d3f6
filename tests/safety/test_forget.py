"""What is forgotten is gone: from answers, from the file's bytes, and from every later sync."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sync.backfill import run_backfill
from sync.cli import cli
from sync.errors import IndexUnusable
from sync.forget import forget, remember
from sync.forgotten import ForgottenSessions
from sync.index import Index
from sync.model import Todo
from sync.storage import delete_index
from tests.builders import MINUTE, T0, assistant, copy, fill, ref, session, tool, user
from tests.sync.memory_source import MemorySource

WORDS = "ѯѱѳ ҩҫҭ"
"""Letters that nothing else in the index has, so that even a trigram of them would tell."""


def secret_session(session_id: str, **values: Any) -> Any:
    return copy(
        session(
            session_id,
            f"title {WORDS}",
            slug=f"slug {WORDS}",
            todos=(Todo(content=f"todo {WORDS}"),),
            **values,
        ),
        user(f"msg_{session_id}1", f"text {WORDS}"),
        assistant(
            f"msg_{session_id}2",
            tool("bash", command=f"echo {WORDS}", output=f"out {WORDS} " * 3000),
            at=T0 + MINUTE,
            edits=[f"/home/{WORDS}.ts"],
            model=WORDS,
        ),
    )


def kept_session(session_id: str, **values: Any) -> Any:
    return copy(session(session_id, "Kept", **values), user(f"msg_{session_id}", "kept words"))


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def terms(path: Path) -> set[str]:
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, documents_fts, row)")
        return {term for (term,) in conn.execute("SELECT term FROM temp.terms")}


def sessions(path: Path) -> list[str]:
    with sqlite3.connect(path) as conn:
        return [id_ for (id_,) in conn.execute("SELECT id FROM sessions ORDER BY id")]


def run(path: Path, *words: str, **options: Any) -> Result:
    return CliRunner().invoke(cli, ["forget", "--index", str(path), *words], **options)


def test_no_byte_and_no_trigram_of_a_forgotten_session_is_left(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", secret_session("a"), kept_session("b"))
    # Written again, so that old versions lie in free pages and old segments.
    fill(path, secret_session("a"), fetched_at_ms=T0 + 1)
    before = bytes_of(tmp_path)
    pieces = [word[:size].encode() for word in WORDS.split() for size in (2, 3)]
    assert all(piece in before for piece in pieces)
    with Index.open(path) as index:
        erased = forget(index, ["a"], now_ms=T0)
        assert (erased.sessions, erased.forks, erased.remains) == (("a",), (), None)
        assert not [piece for piece in pieces if piece in bytes_of(tmp_path)]
    assert not [piece for piece in pieces if piece in bytes_of(tmp_path)]
    assert {"ѯѱѳ", "ҩҫҭ"} & terms(path) == set()
    assert {"kep", "wor"} <= terms(path)
    with sqlite3.connect(path) as conn:
        conn.execute("INSERT INTO documents_fts(documents_fts) VALUES ('integrity-check')")
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert sessions(path) == ["b"]


def test_it_is_erased_although_another_process_has_the_index_open(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", secret_session("a"), kept_session("b"))
    reader = sqlite3.connect(path)
    assert reader.execute("SELECT count(*) FROM sessions").fetchone() == (2,)
    with Index.open(path) as index:
        assert forget(index, ["a"], now_ms=T0).remains is None
    assert WORDS.split(maxsplit=1)[0].encode() not in bytes_of(tmp_path)
    assert reader.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
    reader.close()


def test_what_a_reader_still_holds_is_told(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", secret_session("a"), kept_session("b"))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sessions").fetchone()
    with Index.open(path) as index:
        index.conn.execute("PRAGMA busy_timeout = 50")
        remains = forget(index, ["a"], now_ms=T0).remains
        assert remains == "another process is reading the index"
        reader.close()
        # Asked again, the rest is erased.
        assert forget(index, ["a"], now_ms=T0).remains is None
    assert WORDS.split(maxsplit=1)[0].encode() not in bytes_of(tmp_path)


def test_subagents_go_along_and_forks_stay(tmp_path: Path) -> None:
    path = fill(
        tmp_path / "history.db",
        kept_session("root"),
        kept_session("child", parent_id="root"),
        kept_session("grandchild", parent_id="child"),
        kept_session("fork", forked_from="root"),
        kept_session("other"),
    )
    with Index.open(path) as index:
        erased = forget(index, ["root"], now_ms=T0)
        assert erased.sessions == ("root", "child", "grandchild")
        assert erased.forks == ("fork",)
        along = {one.id: one.because_of for one in index.forgotten.all().values()}
    assert along == {"root": None, "child": "root", "grandchild": "root"}
    assert sessions(path) == ["fork", "other"]


def sync(path: Path, source: MemorySource) -> None:
    with Index.open(path) as index:
        assert run_backfill(index, [source]).exit_code() == 0


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    for session_id in ("a", "b"):
        made = secret_session(session_id) if session_id == "a" else kept_session(session_id)
        source.put(made.session, *made.messages)
    return source


def test_later_syncs_and_rebuilds_leave_it_away(tmp_path: Path, source: MemorySource) -> None:
    path = tmp_path / "history.db"
    sync(path, source)
    assert sessions(path) == ["a", "b"]
    with Index.open(path) as index:
        forget(index, ["a"], now_ms=T0)
    again = secret_session("a", at=T0 + MINUTE)
    source.put(again.session, *again.messages)
    sync(path, source)
    assert sessions(path) == ["b"]
    delete_index(path)
    sync(path, source)
    assert sessions(path) == ["b"]
    assert WORDS.split(maxsplit=1)[0].encode() not in bytes_of(tmp_path)


def test_a_later_subagent_of_it_is_left_away_too(tmp_path: Path, source: MemorySource) -> None:
    path = tmp_path / "history.db"
    sync(path, source)
    with Index.open(path) as index:
        forget(index, ["a"], now_ms=T0)
    late = kept_session("late", parent_id="a")
    source.put(late.session, *late.messages)
    sync(path, source)
    sync(path, source)
    assert sessions(path) == ["b"]
    assert ForgottenSessions(path).all()["late"].because_of == "a"


def test_a_fetch_that_began_before_cannot_bring_it_back(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", kept_session("a"))
    with Index.open(path) as slow:
        assert "a" not in slow.forgotten
        with Index.open(path) as index:
            forget(index, ["a"], now_ms=T0)
        with slow.transaction():
            made = kept_session("a")
            slow.record_copies(1, [ref(made.session)])
            written = slow.replace_session(
                made, source_id=1, fingerprint="f", fetched_at_ms=T0 + MINUTE
            )
        assert written.outcome == "stale"
    assert sessions(path) == []


def test_what_is_remembered_comes_back_with_its_subagents(
    tmp_path: Path, source: MemorySource
) -> None:
    path = tmp_path / "history.db"
    child = kept_session("child", parent_id="a")
    source.put(child.session, *child.messages)
    sync(path, source)
    with Index.open(path) as index:
        forget(index, ["a"], now_ms=T0)
        assert sorted(remember(index, ["a"])) == ["a", "child"]
    sync(path, source)
    assert sessions(path) == ["a", "b", "child"]
    assert not ForgottenSessions(path).path.exists()


def test_a_list_that_cannot_be_read_stops_every_write(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", kept_session("a"))
    with Index.open(path) as index:
        forget(index, ["a"], now_ms=T0)
        index.forgotten.path.write_text('{"forgotten": [')
        with pytest.raises(IndexUnusable, match="list of forgotten sessions"), index.transaction():
            index.record_copies(1, [])


def test_the_command_forgets_lists_and_undoes(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", kept_session("a"), kept_session("b"))
    done = run(path, "a")
    assert (done.exit_code, done.output) == (0, "Forgot 1 session\n")
    listed = json.loads(run(path, "--list", "--json").output)
    assert [(one["id"], one["because_of"]) for one in listed] == [("a", None)]
    assert run(path, "--list").output.startswith("a  20")
    assert run(path, "--undo", "a").output == "The next sync may bring back a\n"
    assert run(path, "--list").output == ""
    assert sessions(path) == ["b"]


def test_projects_and_days_choose(tmp_path: Path) -> None:
    def make(name: str) -> Path:
        return fill(
            tmp_path / name / "history.db",
            kept_session("old", at=T0 - 400 * 24 * 60 * MINUTE),
            kept_session("new"),
            kept_session("other", project_id="p2", directory="/home/dev/other"),
            kept_session("loose", project_id="global", directory="/tmp/loose"),
            kept_session("tight", project_id="global", directory="/tmp/tight"),
        )

    for number, (words, left) in enumerate(
        [
            (["--before", "2026-01-01"], ["loose", "new", "other", "tight"]),
            (["--project", "p2"], ["loose", "new", "old", "tight"]),
            (["--project", "/home/dev/app"], ["loose", "other", "tight"]),
            (["--project", "/tmp/loose"], ["new", "old", "other", "tight"]),
            (["--project", "prj", "--before", "2026-01-01"], ["loose", "new", "other", "tight"]),
            (["--project", "all"], []),
        ]
    ):
        path = make(str(number))
        assert run(path, *words, "--yes").exit_code == 0
        assert sessions(path) == left


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param([], "name sessions", id="nothing"),
        pytest.param(["a", "--list"], "name sessions", id="two-jobs"),
        pytest.param(["none"], "none is not in the index", id="unknown"),
        pytest.param(["--undo", "a"], "a was not forgotten", id="undo-unknown"),
        pytest.param(["--before", "2026-13-01", "--yes"], "2026-13-01", id="no-date"),
        pytest.param(["--project", "typo", "--yes"], "project typo", id="no-project"),
        pytest.param(["--project", "prj"], "say so with --yes", id="unconfirmed"),
    ],
)
def test_what_makes_no_sense_is_refused_and_forgets_nothing(
    tmp_path: Path, words: list[str], message: str
) -> None:
    path = fill(tmp_path / "history.db", kept_session("a"))
    done = run(path, *words)
    assert (done.exit_code, sessions(path)) == (2, ["a"])
    assert message in done.output


def test_the_list_holds_no_word_of_the_session_and_is_private(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", secret_session("a"))
    run(path, "a")
    beside = ForgottenSessions(path).path
    assert set(json.loads(beside.read_text())["forgotten"][0]) == {
        "id", "forgotten_at", "because_of",
    }  # fmt: skip
    assert beside.stat().st_mode & 0o777 == 0o600


def test_the_command_works_as_a_process(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db", kept_session("a"))
    command = [sys.executable, "-m", "sync", "forget", "a", "--json", "--index", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == {"sessions": ["a"], "forks": [], "remains": None}
