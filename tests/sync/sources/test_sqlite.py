"""A database with V1's tables, or with what any database can have wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from sync.errors import SourceUnavailable, UnknownLayout
from sync.model import (
    RANK_V1,
    BadRecord,
    Message,
    Project,
    Revert,
    Session,
    SessionRef,
    Todo,
    Tokens,
    Unchanged,
)
from sync.sources.sqlite import SqliteSource
from tests.builders import MINUTE, T0
from tests.opencode_stores import Database, tool
from tests.sync.sources.reading import listed, messages, problems, read, stamps, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "opencode.db"


@pytest.fixture
def source(path: Path) -> Iterator[SqliteSource]:
    source = SqliteSource(path)
    yield source
    source.close()


def test_a_session_of_the_first_databases_is_read_whole(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.2") as db:
        db.session(
            "ses_1",
            "Fix login",
            parent_id="ses_0",
            share_url="https://opncd.ai/s/1",
            summary_additions=3,
            summary_deletions=1,
            summary_files=2,
            revert={"messageID": "msg_2", "partID": "prt_1", "snapshot": "abc"},
            time_archived=0,
        )
        db.message("msg_1", "ses_1", "user", "Please fix", at=T0 + MINUTE)
    assert read(source, "ses_1")[0] == Session(
        id="ses_1",
        title="Fix login",
        created_ms=T0,
        updated_ms=T0 + MINUTE,
        project_id="prj",
        parent_id="ses_0",
        directory="/home/dev/app",
        slug="brave-fox",
        version="1.0",
        additions=3,
        deletions=1,
        files_changed=2,
        share_url="https://opncd.ai/s/1",
        revert=Revert(message_id="msg_2", part_id="prt_1"),
    )


def test_later_columns_are_read_by_name(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session(
            "ses_1",
            agent="build",
            model={"id": "m", "providerID": "fake", "variant": "high"},
            cost=0.5,
            tokens_input=1,
            tokens_output=2,
            tokens_reasoning=3,
            tokens_cache_read=4,
            tokens_cache_write=5,
            time_archived=T0 + 9,
        )
    session, _ = read(source, "ses_1")
    assert (session.agent, session.provider, session.model) == ("build", "fake", "m")
    assert (session.cost, session.archived_ms) == (0.5, T0 + 9)
    assert session.tokens == Tokens(
        input=1, output=2, reasoning=3, cache_read=4, cache_write=5
    )  # fmt: skip


def test_a_listing_tells_what_a_session_is_and_when_it_was_last_active(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_empty", None, at=T0)
        db.session("ses_1", "Fix login", at=T0)
        db.message("msg_1", "ses_1", "user", "x", at=T0 + MINUTE, updated=T0 + 2 * MINUTE)
        db.part("prt_late", "msg_1", "ses_1", "y", at=T0 + 3 * MINUTE)
    refs = listed(source)
    assert {key: (r.title, r.activity_ms, r.rank) for key, r in refs.items()} == {
        "ses_empty": ("", T0, RANK_V1),
        "ses_1": ("Fix login", T0 + 3 * MINUTE, RANK_V1),
    }
    assert (refs["ses_1"].project_id, refs["ses_1"].directory) == ("prj", "/home/dev/app")
    assert all(read(source, key)[0].updated_ms == ref.activity_ms for key, ref in refs.items())


def test_rows_that_an_import_wrote_are_dated_by_their_own_times(
    path: Path, source: SqliteSource
) -> None:
    imported = T0 + 900 * MINUTE
    with Database(path, "1.2") as db:
        db.session("ses_old", at=T0)
        db.session("ses_older", at=T0 - MINUTE)
        for n in range(25):
            session = "ses_old" if n < 12 else "ses_older"
            db.message(f"msg_{n}", session, "user", f"n{n}", at=T0 + n, updated=imported)
        db.session("ses_new", at=imported + MINUTE)
        db.message("msg_new", "ses_new", "user", "x", at=imported + 2 * MINUTE)
    assert {key: ref.activity_ms for key, ref in listed(source).items()} == {
        "ses_old": T0 + 11,
        "ses_older": T0 + 24,
        "ses_new": imported + 2 * MINUTE,
    }
    assert read(source, "ses_old")[0].updated_ms == T0 + 11


def test_messages_whose_rows_all_have_the_time_of_an_import_go_by_their_own_time(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.2") as db:
        db.session("ses_1")
        for name, at in (("msg_b", T0 + 2), ("msg_c", T0 + 3), ("msg_a", T0 + 1)):
            db.message(name, "ses_1", "user", name, at=at, row_at=T0 + MINUTE)
    found = messages(source, "ses_1")
    assert [(m.id, m.created_ms) for m in found] == [
        ("msg_a", T0 + 1), ("msg_b", T0 + 2), ("msg_c", T0 + 3),
    ]  # fmt: skip


def test_a_clock_that_went_back_puts_no_answer_before_its_question(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_q", "ses_1", "user", "Why?", at=T0 + MINUTE)
        db.message("msg_a", "ses_1", "assistant", "Because", at=T0, parentID="msg_q")
        db.message("msg_b", "ses_1", "assistant", "And so", at=T0 + 1, parentID="msg_q")
    assert [m.id for m in messages(source, "ses_1")] == ["msg_q", "msg_a", "msg_b"]


def test_equal_times_go_by_row(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        for name in ("msg_z", "msg_y", "msg_x"):
            db.message(name, "ses_1", "user", name, at=T0)
    assert [m.id for m in messages(source, "ses_1")] == ["msg_z", "msg_y", "msg_x"]


def test_parts_come_in_the_order_in_which_they_were_made(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_fffffffff001xxxxxxxxxxxxxx", "ses_1", "assistant")
        for name in ("fffffffff003", "000000000001", "fffffffff002"):
            db.part(f"prt_{name}yyyyyyyyyyyyyy", "msg_fffffffff001xxxxxxxxxxxxxx", "ses_1", name)
    [message] = messages(source, "ses_1")
    assert texts(message) == ["fffffffff002", "fffffffff003", "000000000001"]


def test_known_messages_come_as_unchanged_without_reading_their_bodies(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "one", at=T0)
        db.message("msg_2", "ses_1", "user", "two", at=T0 + 1)
        known = stamps(source, "ses_1")
        db.conn.execute("UPDATE message SET data = 'no JSON'")
        db.message("msg_3", "ses_1", "user", "three", at=T0 + 2)
    _, items = read(source, "ses_1", known)
    assert items[:2] == [Unchanged("msg_1"), Unchanged("msg_2")]
    assert texts(items[2]) == ["three"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(f"UPDATE part SET time_updated = {T0 + 5} WHERE id = 'prt_2'", id="in-place"),
        pytest.param(f"UPDATE message SET time_updated = {T0 + 5}", id="message"),
        pytest.param("DELETE FROM part WHERE id = 'prt_2'", id="part-removed"),
        pytest.param("UPDATE session SET directory = '/srv'", id="moved"),
    ],
)
def test_whatever_changes_in_a_session_changes_its_version_and_stamps(
    path: Path, source: SqliteSource, change: str
) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1", at=T0 + MINUTE)
        db.session("ses_2", at=T0 + MINUTE)
        db.message("msg_1", "ses_1", "user", "one")
        db.part("prt_2", "msg_1", "ses_1", "two")
        before, known = listed(source), stamps(source, "ses_1")
        signature = source.signature()
        db.conn.execute(change)
        # None where it is too soon to tell, and then everybody looks.
        assert source.signature() is None or source.signature() != signature
    after = listed(source)
    assert after["ses_1"] != before["ses_1"]
    assert read(source, "ses_1", known)[1] != [Unchanged("msg_1")]
    if "session" not in change:
        assert after["ses_2"] == before["ses_2"]


def test_todos_come_from_the_table_in_their_order(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.session("ses_2")
        db.insert("todo", session_id="ses_1", content="second", status="pending", position=1)
        db.insert(
            "todo", session_id="ses_1", content="first", status="done", priority="high", position=0
        )
        db.insert("todo", session_id="ses_1", content=None, position=2)
    assert read(source, "ses_1")[0].todos == (
        Todo(content="first", status="done", priority="high"),
        Todo(content="second", status="pending"),
    )
    assert read(source, "ses_2")[0].todos is None


def test_projects_are_read_and_odd_ones_reported(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.insert(
            "project", id="prj", worktree="/home/dev/app", vcs="git", name="App", time_created=T0,
            time_updated=T0 + 1, sandboxes=[],
        )  # fmt: skip
        db.insert("project", id="global", worktree="/")
        db.insert("project", id=None, worktree="/x")
    assert list(source.projects()) == [
        Project(
            id="prj", directory="/home/dev/app", name="App", vcs="git", created_ms=T0,
            updated_ms=T0 + 1,
        ),
        Project(id="global", directory="/"),
        BadRecord(item="row of project", reason="its id is no text"),
    ]  # fmt: skip


def test_a_missing_session_is_none(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
    assert source.read("ses_2", {}) is None


# What can be wrong with rows


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param("{", "not JSON: Expecting", id="cut"),
        pytest.param("[1]", "not a JSON object", id="array"),
        pytest.param(None, "holds no text", id="null"),
        pytest.param(5, "not a JSON object", id="number"),
        pytest.param(b'{"role": "\xff"}', "not UTF-8 at byte 10", id="not-utf-8"),
        pytest.param("[" * 100_000, "nested too deep", id="deep"),
    ],
)
def test_a_bad_message_is_reported_and_those_beside_it_are_read(
    path: Path, source: SqliteSource, data: object, reason: str
) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "one", at=T0)
        db.message("msg_2", "ses_1", "user", "two", at=T0 + 1)
        db.message("msg_3", "ses_1", "user", "three", at=T0 + 2)
        db.conn.execute("UPDATE message SET data = ? WHERE id = 'msg_2'", (data,))
    _, (first, bad, last) = read(source, "ses_1")
    assert (texts(first), texts(last)) == (["one"], ["three"])
    assert isinstance(bad, BadRecord)
    assert (bad.item, bad.session_id, bad.message_id) == ("message msg_2", "ses_1", "msg_2")
    assert bad.reason.startswith(reason) or reason in bad.reason


def test_a_bad_part_costs_itself_alone_and_stays_reported(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "one", "two", "three")
        db.conn.execute("UPDATE part SET data = X'22FF22' WHERE id = 'msg_1_p1'")
    _, (message, bad) = read(source, "ses_1")
    assert texts(message) == ["one", "three"]
    assert bad == BadRecord(
        item="part msg_1_p1", reason="not UTF-8 at byte 1", session_id="ses_1"
    )  # fmt: skip
    assert isinstance(message, Message)
    _, again = read(source, "ses_1", {"msg_1": message.stamp})
    assert again == [message, bad]


def test_odd_texts_and_numbers_are_read(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1", b"bad \xff title".decode("utf-8", "replace"), cost="free", revert="{")
        db.conn.execute("UPDATE session SET title = CAST(X'6261FF64' AS TEXT)")
        db.message("msg_1", "ses_1", "assistant")
        db.conn.execute(
            "UPDATE message SET data = ?",
            ('{"role": "assistant", "cost": NaN, "tokens": {"input": "many", "output": 2}}',),
        )
        db.part("prt_1", "msg_1", "ses_1", '{"type": "text", "text": "lone \\ud800 and \\u0000"}')
        db.conn.execute("UPDATE part SET data = ?", ('{"type":"text","text":"\\ud800\\u0000."}',))
    session, [message] = read(source, "ses_1")
    assert (session.title, session.cost, session.revert) == ("ba\ufffdd", None, None)
    assert isinstance(message, Message)
    assert (message.cost, message.tokens) == (None, Tokens(output=2))
    assert message.created_ms == T0
    assert texts(message) == ["\ud800\x00."]


def test_wrong_types_of_times_lose_no_session(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1", time_created="yesterday", time_updated=None)
        db.message("msg_1", "ses_1", "user", "x", at=T0)
        db.conn.execute("UPDATE message SET time_created = 'x', time_updated = X'00'")
        db.conn.execute("UPDATE part SET time_updated = 1e300")
    assert listed(source)["ses_1"].activity_ms == 0
    [message] = messages(source, "ses_1")
    assert (message.created_ms, texts(message)) == (T0, ["x"])


def test_a_session_without_a_usable_id_is_reported(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.conn.execute("INSERT INTO session (id) VALUES (NULL)")
        db.conn.execute("INSERT INTO session (id) VALUES (CAST(X'FF' AS TEXT))")
        db.conn.execute("INSERT INTO session (id) VALUES (CAST('ses_2' AS BLOB))")
    assert list(listed(source)) == ["ses_1"]
    assert {(p.reason, p.hides_session) for p in problems(source)} == {("its id is no text", True)}


def test_orphans_are_reported_and_no_session_is_made_of_them(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "kept")
        db.message("msg_2", "ses_gone", "user", "lost")
        db.message("msg_3", "ses_gone", "user", "lost")
        db.part("prt_9", "msg_gone", "ses_1", "lost")
    assert list(listed(source)) == ["ses_1"]
    assert problems(source) == [
        BadRecord(item="message: rows of session ses_gone", reason="2 without a session"),
        BadRecord(item="part: rows of message msg_gone", reason="1 without a message"),
    ]
    assert [texts(m) for m in messages(source, "ses_1")] == [["kept"]]


def test_rows_that_name_nobody_are_orphans_and_hide_no_others(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18") as db:
        db.conn.executescript("DROP TABLE message; DROP TABLE part")
        db.conn.execute("CREATE TABLE message (id, session_id, data)")
        db.conn.execute("CREATE TABLE part (id, message_id, session_id, data)")
        db.conn.execute("INSERT INTO session (id) VALUES (NULL)")
        db.conn.execute("INSERT INTO message VALUES (NULL, NULL, '{}')")
        db.conn.execute("INSERT INTO message VALUES ('msg_2', 'ses_gone', '{}')")
        db.conn.execute("INSERT INTO part VALUES ('prt_1', NULL, NULL, '{}')")
        db.conn.execute("INSERT INTO part VALUES ('prt_2', 'msg_gone', NULL, '{}')")
    assert [(p.item, p.reason) for p in problems(source)] == [
        ("session None", "its id is no text"),
        ("message: rows of no session", "1 without a session"),
        ("message: rows of session ses_gone", "1 without a session"),
        ("part: rows of no message", "1 without a message"),
        ("part: rows of message msg_gone", "1 without a message"),
    ]


# What can be wrong with the file


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"SQLite is not this", SourceUnavailable, "file is not a database"),
        (b"", UnknownLayout, "no tables at all"),
        (b"SQLite format 3\x00" + b"\x00" * 200, SourceUnavailable, "not a database"),
    ],
    ids=["other-file", "empty", "damaged-header"],
)
def test_a_file_that_is_no_database_is_refused(
    path: Path, source: SqliteSource, content: bytes, error: type[Exception], message: str
) -> None:
    path.write_bytes(content)
    with pytest.raises(error, match=message):
        list(source.sessions())
    assert path.read_bytes() == content


def test_another_programs_database_is_of_no_known_layout(path: Path, source: SqliteSource) -> None:
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE bookmarks (url)")
    conn.close()
    for ask in (source.sessions, source.projects, lambda: source.read("ses_1", {})):
        with pytest.raises(UnknownLayout, match="it holds bookmarks"):
            list(ask() or ())  # type: ignore[call-overload]


def test_a_missing_file_is_unavailable(path: Path, source: SqliteSource) -> None:
    for ask in (source.signature, lambda: list(source.sessions()), lambda: source.read("s", {})):
        with pytest.raises(SourceUnavailable, match="No such file"):
            ask()
    assert not path.exists()


def test_nothing_is_opened_before_the_first_question(path: Path) -> None:
    SqliteSource(path).close()


def test_what_is_still_in_the_wal_is_read_and_the_file_stays_as_it_was(
    path: Path, source: SqliteSource
) -> None:
    db = Database(path, "1.18")
    db.session("ses_1")
    db.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    db.message("msg_1", "ses_1", "user", "only in the wal")
    assert path.read_bytes() == before
    assert [texts(m) for m in messages(source, "ses_1")] == [["only in the wal"]]
    assert len(listed(source)) == 1
    assert path.read_bytes() == before
    db.conn.execute("BEGIN IMMEDIATE")
    db.session("ses_2")
    assert list(listed(source)) == ["ses_1"]
    db.conn.execute("COMMIT")
    assert sorted(listed(source)) == ["ses_1", "ses_2"]
    db.conn.close()


def test_a_path_with_url_characters_names_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a #1 %20?mode=rwc" / "opencode.db"
    with Database(path, "1.18") as db:
        db.session("ses_1")
    source = SqliteSource(path)
    assert list(listed(source)) == ["ses_1"]
    source.close()


def test_a_session_is_seen_as_it_was_at_one_moment(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "one", at=T0)
        db.message("msg_2", "ses_1", "user", "two", at=T0 + 1)
        copy = source.read("ses_1", {})
        assert copy is not None
        first = next(copy.messages)
        db.conn.execute("DELETE FROM message WHERE id = 'msg_2'")
        db.conn.execute("DELETE FROM part WHERE message_id = 'msg_2'")
        assert [texts(m) for m in (first, *copy.messages)] == [["one"], ["two"]]
        assert [texts(m) for m in messages(source, "ses_1")] == [["one"]]


def test_sessions_can_be_read_while_they_are_listed(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        for n in range(5):
            db.session(f"ses_{n}")
            db.message(f"msg_{n}", f"ses_{n}", "user", f"text {n}", at=T0)
    found = {}
    for ref in source.sessions():
        assert isinstance(ref, SessionRef)
        found[ref.id] = texts(messages(source, ref.id)[0])
    assert found == {f"ses_{n}": [f"text {n}"] for n in range(5)}


def test_reading_can_be_left_off_and_begun_again(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "one", at=T0)
        db.message("msg_2", "ses_1", "user", "two", at=T0 + 1)
        copy = source.read("ses_1", {})
        assert copy is not None
        next(copy.messages)
        db.message("msg_3", "ses_1", "user", "three", at=T0 + 2)
        assert [m.id for m in messages(source, "ses_1")] == ["msg_1", "msg_2", "msg_3"]


def test_a_file_that_took_the_others_place_is_read_instead(
    path: Path, source: SqliteSource, tmp_path: Path
) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1", "Old")
    assert read(source, "ses_1")[0].title == "Old"
    with Database(tmp_path / "new.db", "1.18") as db:
        db.session("ses_1", "New")
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    (tmp_path / "new.db").replace(path)
    assert read(source, "ses_1")[0].title == "New"


def test_a_damaged_page_costs_what_was_on_it(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18") as db:
        for n in range(40):
            db.session(f"ses_{n}", at=T0)
            db.message(f"msg_{n}", f"ses_{n}", "user", f"text {n} " + "x" * 3000, at=T0 + n)
        root = db.conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'part'").fetchone()[
            0
        ]
        size = db.conn.execute("PRAGMA page_size").fetchone()[0]
        [leaf] = db.conn.execute(
            "SELECT pageno FROM dbstat WHERE name = 'part' AND pagetype = 'leaf' "
            "ORDER BY pageno DESC LIMIT 1"
        ).fetchone() or [root]
    content = bytearray(path.read_bytes())
    content[(leaf - 1) * size : leaf * size] = b"\xff" * size
    path.write_bytes(content)
    refs = listed(source)
    assert len(refs) == 40
    assert [p.item for p in problems(source)] == ["part msg_39_p0"]
    found = [message for key in refs for message in messages(source, key)]
    assert len([message for message in found if message.parts]) == 39


def test_a_tool_call_of_a_database_edits_files_of_the_sessions_directory(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18") as db:
        db.session("ses_1", directory="C:\\repo")
        db.message("msg_1", "ses_1", "assistant", tool("edit", input={"filePath": "src\\a.ts"}))
    [message] = messages(source, "ses_1")
    assert [edit.path for edit in message.edits] == ["C:/repo/src/a.ts"]
