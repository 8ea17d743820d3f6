"""The index: what a replacement touches, which write wins, and what removal leaves."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sync.backfill import run_backfill
from sync.index import Index
from sync.model import BadRecord, FileEdit, Message, Revert, Session, SessionCopy, Todo
from sync.session_writer import Written
from tests.builders import (
    MINUTE,
    T0,
    assistant,
    session,
    synthetic,
    text,
    tokens,
    tool,
    user,
)
from tests.sync.memory_source import MemorySource


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with Index.open(tmp_path / "history.db") as index:
        yield index


def write(index: Index, of: Session, *messages: Message | BadRecord, at: int = T0) -> Written:
    with index.transaction():
        source_id = index.source_id("db", "/data/opencode.db")
        one = SessionCopy(session=of, messages=iter(messages))
        return index.replace_session(
            one, source_id=source_id, fingerprint=str(of.updated_ms), fetched_at_ms=at
        )


def found(index: Index, phrase: str) -> list[str]:
    rows = index.conn.execute(
        "SELECT d.message_id FROM documents_fts f JOIN documents d ON d.id = f.rowid "
        "WHERE documents_fts MATCH ? ORDER BY d.session_id, d.seq",
        (f'"{phrase}"',),
    )
    return [row[0] for row in rows]


def check_fts(index: Index) -> None:
    """Raise where the full-text index and the documents disagree."""
    index.conn.execute(
        "INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)"
    )


def test_a_message_is_stored_once_with_its_parts_as_spans_of_the_text(index: Index) -> None:
    write(
        index,
        session("s1", "Fix it"),
        user("m1", synthetic("called read"), text("please fix 🚀 it"), agent="build"),
        assistant(
            "m2",
            text("On it."),
            tool("bash", command='print("x")', output="1 passed"),
            cost=0.5,
            tokens=tokens(10, 5),
            model="m",
            provider="p",
            finish="stop",
            edits=["src/a.ts"],
        ),
    )
    documents = index.conn.execute(
        "SELECT message_id, seq, role, text, own_length, cost, tokens_input, finish "
        "FROM documents ORDER BY seq"
    ).fetchall()
    assert documents == [
        ("", -1, "title", "Fix it", 6, None, None, None),
        ("m1", 0, "user", "please fix 🚀 it\ncalled read", 15, None, None, None),
        ("m2", 1, "assistant", 'On it.\nbash\nprint("x")\n1 passed', 31, 0.5, 10, "stop"),
    ]
    parts = index.conn.execute(
        "SELECT d.message_id, p.kind, p.call, p.name, substr(d.text, p.start + 1, p.length) "
        "FROM parts p JOIN documents d ON d.id = p.document_id ORDER BY d.seq, p.seq"
    ).fetchall()
    assert parts == [
        ("m1", "synthetic", None, None, "called read"),
        ("m1", "text", None, None, "please fix 🚀 it"),
        ("m2", "text", None, None, "On it."),
        ("m2", "tool", 0, "bash", "bash"),
        ("m2", "input", 0, "command", 'print("x")'),
        ("m2", "output", 0, None, "1 passed"),
    ]
    assert index.conn.execute("SELECT path, basename, tool FROM document_paths").fetchall() == [
        ("/home/dev/app/src/a.ts", "a.ts", "edit")
    ]
    check_fts(index)


def test_a_refresh_touches_only_what_changed(index: Index) -> None:
    first = [user(f"m{n}", f"message number {n}", at=T0 + n) for n in range(50)]
    write(index, session("s1"), *first)
    ids = dict(index.conn.execute("SELECT message_id, id FROM documents"))
    first[7] = user("m7", "another text", at=T0 + 7, stamp="changed")
    written = write(
        index, session("s1", at=T0 + MINUTE), *first, user("m50", "the new one"), at=T0 + 1
    )
    assert (written.inserted, written.changed, written.unchanged, written.removed) == (1, 1, 49, 0)
    after = dict(index.conn.execute("SELECT message_id, id FROM documents"))
    assert {k: after[k] for k in ids} == ids
    assert found(index, "message number 7") == []
    assert found(index, "another text") == ["m7"]
    check_fts(index)


def test_a_removed_message_is_gone_and_the_others_move_up(index: Index) -> None:
    messages = [user(f"m{n}", f"message number {n}") for n in range(3)]
    write(index, session("s1"), *messages)
    write(index, session("s1"), messages[0], messages[2], at=T0 + 1)
    assert index.conn.execute(
        "SELECT message_id, seq FROM documents WHERE seq >= 0 ORDER BY seq"
    ).fetchall() == [("m0", 0), ("m2", 1)]
    assert found(index, "message number 1") == []
    check_fts(index)


def test_a_message_that_became_unreadable_keeps_what_was_indexed(index: Index) -> None:
    write(index, session("s1"), user("m1", "readable once"), user("m2", "still fine"))
    bad = BadRecord(item="message m1", reason="not JSON", session_id="s1", message_id="m1")
    written = write(index, session("s1"), bad, user("m2", "still fine"), at=T0 + 1)
    assert written.problems == [bad]
    assert found(index, "readable once") == ["m1"]
    assert index.conn.execute("SELECT item, reason FROM problems").fetchall() == [
        ("message m1", "not JSON")
    ]


def test_a_write_whose_fetch_began_earlier_is_refused(index: Index) -> None:
    write(index, session("s1", "Newer"), user("m1", "newer text"), at=T0 + 10)
    assert write(index, session("s1", "Older"), user("m1", "older"), at=T0 + 9).outcome == "stale"
    assert index.conn.execute("SELECT title FROM sessions").fetchall() == [("Newer",)]
    assert found(index, "newer text") == ["m1"]


def test_a_deleted_session_is_not_revived_by_an_older_fetch(index: Index) -> None:
    write(index, session("s1"), user("m1", "to be deleted"))
    with index.transaction():
        assert index.remove_session("s1", deleted_at_ms=T0 + 5)
    assert write(index, session("s1"), user("m1", "to be deleted"), at=T0 + 5).outcome == "stale"
    assert found(index, "to be deleted") == []
    assert write(index, session("s1"), user("m1", "back again"), at=T0 + 6).outcome == "written"
    assert found(index, "back again") == ["m1"]


def test_a_deletion_does_not_take_what_was_fetched_after_it(index: Index) -> None:
    write(index, session("s1"), user("m1", "written later"), at=T0 + 10)
    with index.transaction():
        assert not index.remove_session("s1", deleted_at_ms=T0 + 5)
    assert found(index, "written later") == ["m1"]


def test_removal_leaves_no_row_behind_and_touches_no_other_session(index: Index) -> None:
    todo = (Todo(content="write tests"),)
    for name in ("s1", "s2"):
        write(
            index,
            session(name, todos=todo),
            assistant("m1", tool("edit", filePath="a.ts"), edits=["a.ts"]),
        )
    with index.transaction():
        index.remove_session("s1", deleted_at_ms=T0 + 5)
    for table in ("sessions", "documents", "parts", "document_paths", "todos"):
        count = index.conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        assert (table, count) == (table, {"documents": 2, "parts": 2}.get(table, 1))
    check_fts(index)


def test_a_kept_session_stays_searchable_and_says_when_it_went(index: Index) -> None:
    write(index, session("s1"), user("m1", "kept for later"))
    with index.transaction():
        assert index.remove_session("s1", deleted_at_ms=T0 + 5, keep=True)
    assert index.conn.execute("SELECT deleted_at FROM sessions").fetchall() == [(T0 + 5,)]
    assert found(index, "kept for later") == ["m1"]


def test_surrogates_and_nul_are_replaced_everywhere_they_could_break_a_write(index: Index) -> None:
    write(
        index,
        session("s1", "bad \ud800 title", directory="/home/\x00dir", agent="a\udfff"),
        assistant(
            "m1",
            tool("ba\x00sh", **{"comm\ud800and": "x\x00y"}, output="z\udc00"),
            edits=["a\x00.ts"],
            model="m\ud800",
        ),
    )
    assert index.conn.execute("SELECT title, directory, agent FROM sessions").fetchall() == [
        ("bad \ufffd title", "/home/\ufffddir", "a\ufffd")
    ]
    assert index.conn.execute("SELECT text, model FROM documents WHERE seq = 0").fetchall() == [
        ("ba\ufffdsh\nx\ufffdy\nz\ufffd", "m\ufffd")
    ]
    check_fts(index)


@pytest.mark.parametrize(
    ("part_id", "reverted"),
    [
        pytest.param(None, [0, 1, 1], id="whole-message"),
        pytest.param("prt_2", [0, 0, 1], id="from-a-part-on"),
    ],
)
def test_messages_from_the_revert_on_are_marked(
    index: Index, part_id: str | None, reverted: list[int]
) -> None:
    write(
        index,
        session("s1", revert=Revert(message_id="m1", part_id=part_id)),
        *[user(f"m{n}", f"message {n}") for n in range(3)],
    )
    rows = index.conn.execute("SELECT reverted FROM documents WHERE seq >= 0 ORDER BY seq")
    assert [row[0] for row in rows] == reverted


def test_a_cleared_revert_clears_the_marks_of_unchanged_messages(index: Index) -> None:
    messages = [user(f"m{n}", f"message {n}") for n in range(3)]
    write(index, session("s1", revert=Revert(message_id="m1")), *messages)
    write(index, session("s1"), *messages, at=T0 + 1)
    assert index.conn.execute("SELECT sum(reverted) FROM documents").fetchone() == (0,)


def test_a_session_that_moves_takes_its_documents_and_edits_along(index: Index) -> None:
    message = assistant("m1", "moved", edits=[FileEdit("/abs/a.ts", "write")])
    write(index, session("s1", project_id="old"), message)
    write(index, session("s1", project_id="new"), message, at=T0 + 1)
    for table in ("documents", "document_paths"):
        rows = index.conn.execute(f"SELECT DISTINCT project_id FROM {table}").fetchall()
        assert rows == [("new",)]


def test_costs_count_subagents_and_end_on_a_cycle_of_parents(index: Index) -> None:
    spent = {"cost": 1.0, "tokens": tokens(100)}
    write(index, session("root"), assistant("m1", "a", **spent))
    write(index, session("child", parent_id="root"), assistant("m1", "b", **spent))
    write(index, session("grandchild", parent_id="child"), assistant("m1", "c", **spent))
    write(index, session("x", parent_id="y"), assistant("m1", "d", **spent))
    write(index, session("y", parent_id="x"), assistant("m1", "e", **spent))
    rows = index.conn.execute(
        "SELECT id, own_cost, total_cost, own_tokens, total_tokens FROM session_costs ORDER BY id"
    ).fetchall()
    assert rows == [
        ("child", 1.0, 2.0, 100, 200),
        ("grandchild", 1.0, 1.0, 100, 100),
        ("root", 1.0, 3.0, 100, 300),
        ("x", 1.0, 2.0, 100, 200),
        ("y", 1.0, 2.0, 100, 200),
    ]


def test_the_views_show_readable_times_and_whole_tool_calls(index: Index) -> None:
    write(
        index,
        session("s1", "A title"),
        assistant("m1", tool("bash", command="ls", output="a.ts"), edits=["a.ts"]),
    )
    assert index.conn.execute(
        "SELECT session_id, message_id, tool, status, title, started, duration_ms, input, output, "
        "error FROM tool_calls"
    ).fetchall() == [
        ("s1", "m1", "bash", "completed", None, "2026-12-01T01:00:00.000Z", 1000,
         '{"command":"ls"}', "a.ts", None)
    ]  # fmt: skip
    assert index.conn.execute("SELECT session_title, time, role FROM messages").fetchall() == [
        ("A title", "2026-12-01T01:00:00.000Z", "assistant")
    ]
    assert index.conn.execute("SELECT path, tool, time FROM file_edits").fetchall() == [
        ("/home/dev/app/a.ts", "edit", "2026-12-01T01:00:00.000Z")
    ]


def test_an_end_user_is_taken_from_the_title(index: Index) -> None:
    write(index, session("s1", "[ada@example.com] Fix the login"))
    write(index, session("s2", "Fix arr[0] = 1"))
    rows = index.conn.execute("SELECT id, end_user FROM sessions ORDER BY id").fetchall()
    assert rows == [("s1", "ada@example.com"), ("s2", None)]


def test_a_failing_write_leaves_the_session_as_it_was(index: Index) -> None:
    write(index, session("s1"), user("m1", "as it was"))

    def broken() -> Any:
        yield user("m1", "half written", stamp="new")
        raise RuntimeError("the source broke off")

    with pytest.raises(RuntimeError), index.transaction():
        index.replace_session(
            SessionCopy(session=session("s1"), messages=broken()),
            source_id=1,
            fingerprint="",
            fetched_at_ms=T0 + 1,
        )
    assert found(index, "as it was") == ["m1"]
    assert found(index, "half written") == []
    check_fts(index)


def test_one_transaction_of_many_sessions_adds_few_segments(index: Index) -> None:
    with index.transaction():
        for n in range(40):
            index.replace_session(
                SessionCopy(
                    session=session(f"s{n}"),
                    messages=iter([user(f"m{m}", f"text {m} of many") for m in range(10)]),
                ),
                source_id=index.source_id("db", "/data/opencode.db"),
                fingerprint="",
                fetched_at_ms=T0,
            )
    segments = index.conn.execute("SELECT count(DISTINCT segid) FROM documents_fts_idx")
    assert segments.fetchone() == (1,)
    assert len(found(index, "of many")) == 400
    check_fts(index)


def test_a_message_deleted_and_written_again_in_one_transaction_is_found_once(
    index: Index,
) -> None:
    write(index, session("s1"), user("m1", "the first text"))
    with index.transaction():
        for number, content in enumerate(["the second text", "the third text"], start=1):
            index.replace_session(
                SessionCopy(
                    session=session("s1"),
                    messages=iter([user("m1", content, stamp=f"v{number}")]),
                ),
                source_id=1,
                fingerprint="",
                fetched_at_ms=T0 + number,
            )
    assert found(index, "the second text") == []
    assert found(index, "the third text") == ["m1"]
    check_fts(index)


def test_sqlite_can_read_the_schema_with_a_plain_connection(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    Index.open(path).close()
    conn = sqlite3.connect(path)
    names = {row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    conn.close()
    assert names == {"messages", "tool_calls", "file_edits", "session_costs"}


def test_without_a_list_the_last_completed_todowrite_call_tells_the_todos(index: Index) -> None:
    def call(content: str, status: str = "completed") -> Any:
        inputs = {"todos[0].content": content, "todos[0].status": "pending"}
        return tool("todowrite", status=status, **inputs)

    messages = [
        assistant("m1", call("first")),
        assistant("m2", call("second")),
        assistant("m3", call("never done", status="error")),
    ]
    write(index, session("s1"), *messages)
    write(index, session("s2", todos=(Todo(content="from a list"),)), *messages)
    rows = index.conn.execute("SELECT session_id, content, status, priority FROM todos ORDER BY 1")
    assert rows.fetchall() == [
        ("s1", "second", "pending", None),
        ("s2", "from a list", None, None),
    ]


def test_a_session_deleted_beside_orphaned_rows_is_still_removed(tmp_path: Path) -> None:
    source = MemorySource()
    source.put(session("s1"), user("m1", "deleted"))
    with Index.open(tmp_path / "other.db") as other:
        run_backfill(other, [source])
        source.held.clear()
        source.bad = [BadRecord(item="messages of s1", reason="no session", session_id="s1")]
        run_backfill(other, [source])
        assert other.conn.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
