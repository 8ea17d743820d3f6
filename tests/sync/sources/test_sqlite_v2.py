"""Databases with V2's tables: released, preview, beside V1's, and 1.14's mirror of V1's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sync.model import (
    RANK_V1,
    RANK_V2,
    BadRecord,
    FileEdit,
    Message,
    Revert,
    Session,
    Tokens,
    Unchanged,
)
from sync.sources.sqlite import SqliteSource
from tests.builders import MINUTE, T0
from tests.opencode_stores import Database, v2_tool
from tests.sync.sources.reading import listed, messages, problems, read, stamps, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "opencode.db"


@pytest.fixture
def source(path: Path) -> Iterator[SqliteSource]:
    source = SqliteSource(path)
    yield source
    source.close()


def said(source: SqliteSource, session_id: str) -> list[tuple[str, list[str]]]:
    return [(m.id, texts(m)) for m in messages(source, session_id)]


def test_a_released_session_is_read_whole(path: Path, source: SqliteSource) -> None:
    with Database(path, "2") as db:
        db.session(
            "ses_1",
            "Fix login",
            table="session_v2",
            fork_session_id="ses_0",
            fork_boundary={"messageID": "msg_0"},
            time_idle=T0 + 5 * MINUTE,
            agent="build",
            model={"id": "m", "providerID": "fake"},
            cost=0.5,
            tokens_input=9,
            revert={"messageID": "msg_2"},
        )
        db.v2("msg_1", "ses_1", "user", 3, at=T0 + 1, text="Please fix")
        db.v2("msg_2", "ses_1", "assistant", 7, at=T0 + 2, content=[
            {"type": "text", "text": "Done"},
            v2_tool("edit", input={"path": "src/a.ts"}),
        ])  # fmt: skip
    session, items = read(source, "ses_1")
    assert session == Session(
        id="ses_1",
        title="Fix login",
        created_ms=T0,
        updated_ms=T0 + 5 * MINUTE,
        project_id="prj",
        directory="/home/dev/app",
        slug="brave-fox",
        version="1.0",
        agent="build",
        provider="fake",
        model="m",
        cost=0.5,
        tokens=Tokens(input=9),
        forked_from="ses_0",
        revert=Revert(message_id="msg_2"),
    )
    assert [texts(m) for m in items] == [["Please fix"], ["Done", "edit", "src/a.ts"]]
    assert isinstance(items[1], Message)
    assert items[1].edits == (FileEdit("/home/dev/app/src/a.ts", "edit"),)
    [ref] = listed(source).values()
    assert (ref.rank, ref.activity_ms, ref.title) == (RANK_V2, T0 + 5 * MINUTE, "Fix login")


def test_messages_go_by_seq_and_not_by_time(path: Path, source: SqliteSource) -> None:
    with Database(path, "2") as db:
        db.session("ses_1", table="session_v2")
        db.v2("msg_c", "ses_1", "user", 17, at=T0 + 1, text="queued")
        db.v2("msg_a", "ses_1", "user", 3, at=T0, text="first")
        db.v2("msg_b", "ses_1", "assistant", 6, at=T0 + MINUTE, content=[])
    assert [m.id for m in messages(source, "ses_1")] == ["msg_a", "msg_b", "msg_c"]


def test_both_tables_give_the_union_and_v2_fills_its_gaps_from_v1(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18", "2") as db:
        db.insert("kv", key="migration.v1-v2", value={"phase": "completed"})
        db.session("ses_both", "Old title", share_url="https://opncd.ai/s/1", parent_id="ses_0")
        db.session("ses_both", None, table="session_v2", slug=None, time_archived=T0 + 1)
        db.session("ses_stranded", "Made by 1.18 afterwards", at=T0 + MINUTE)
        db.session("ses_new", "Made by 2", table="session_v2", at=T0 + 2 * MINUTE)
    refs = listed(source)
    assert {key: (ref.title, ref.rank) for key, ref in refs.items()} == {
        "ses_both": ("Old title", RANK_V2),
        "ses_stranded": ("Made by 1.18 afterwards", RANK_V1),
        "ses_new": ("Made by 2", RANK_V2),
    }
    session, _ = read(source, "ses_both")
    assert (session.title, session.slug, session.share_url, session.parent_id) == (
        "Old title", "brave-fox", "https://opncd.ai/s/1", "ses_0",
    )  # fmt: skip
    assert session.archived_ms == T0 + 1


def test_states_that_v2_has_lifted_do_not_come_back_from_v1(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18", "2") as db:
        db.session("ses_1", time_archived=T0, revert={"messageID": "msg_1"})
        db.session("ses_1", table="session_v2")
        db.message("msg_1", "ses_1", "user", "one")
        db.v2("msg_1", "ses_1", "user", 1, text="one")
        db.v2("msg_2", "ses_1", "user", 2, text="said later in V2")
    session, _ = read(source, "ses_1")
    assert (session.archived_ms, session.revert) == (None, None)


def test_a_revert_that_the_import_lost_is_taken_from_v1(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18", "2") as db:
        db.session("ses_1", revert={"messageID": "msg_1"})
        db.session("ses_1", table="session_v2")
        db.message("msg_1", "ses_1", "user", "one")
        db.v2("msg_1", "ses_1", "user", 1, text="one")
    assert read(source, "ses_1")[0].revert == Revert(message_id="msg_1")


def test_a_message_in_both_tables_is_v2s_and_one_in_v1_alone_goes_by_time(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18", "2") as db:
        db.session("ses_1")
        db.session("ses_1", table="session_v2")
        db.message("msg_1", "ses_1", "user", "old one", at=T0)
        db.message("msg_2", "ses_1", "user", {"type": "subtask", "prompt": "audit"}, at=T0 + 10)
        db.message("msg_3", "ses_1", "assistant", "old three", at=T0 + 20)
        # The import's own time stands in the rows, the messages' in their data.
        imported = T0 + 99 * MINUTE
        for seq, (name, at) in enumerate([("msg_1", T0), ("msg_3", T0 + 20)]):
            db.insert(
                "session_message", id=name, session_id="ses_1", type="user", seq=seq,
                time_created=imported, time_updated=imported,
                data={"text": f"new {name}", "time": {"created": at}},
            )  # fmt: skip
        db.v2("msg_4", "ses_1", "user", 9, at=T0 + 30, text="new four")
    assert said(source, "ses_1") == [
        ("msg_1", ["new msg_1"]),
        ("msg_2", ["audit"]),
        ("msg_3", ["new msg_3"]),
        ("msg_4", ["new four"]),
    ]


def test_a_question_in_v2_comes_before_its_answer_in_v1(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18", "2") as db:
        db.session("ses_1", table="session_v2")
        db.message("msg_a", "ses_1", "assistant", "Because", at=T0, parentID="msg_q")
        db.v2("msg_q", "ses_1", "user", 1, at=T0 + MINUTE, text="Why?")
    assert [m.id for m in messages(source, "ses_1")] == ["msg_q", "msg_a"]


def test_a_preview_keeps_v2_in_the_table_session(path: Path, source: SqliteSource) -> None:
    with Database(path, "preview") as db:
        db.session("ses_1", None, time_idle=T0 + MINUTE, fork_session_id="ses_0")
        db.v2("msg_1", "ses_1", "user", 1, text="hello")
    [ref] = listed(source).values()
    assert (ref.title, ref.rank, ref.activity_ms) == ("", RANK_V2, T0 + MINUTE)
    session, [message] = read(source, "ses_1")
    assert (session.forked_from, texts(message)) == ("ses_0", ["hello"])


def test_the_mirror_of_1_14_is_not_shown_beside_what_it_repeats(
    path: Path, source: SqliteSource
) -> None:
    with Database(path, "1.18", "mirror") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "said once", at=T0)
        db.v2("evt_1", "ses_1", "user", None, at=T0 + MINUTE, text="said once")
        db.session("ses_2")
        db.v2("evt_3", "ses_2", "assistant", None, at=T0 + 2, content=[])
        db.v2("evt_2", "ses_2", "user", None, at=T0 + 1, text="only here")
    assert said(source, "ses_1") == [("msg_1", ["said once"])]
    assert [m.id for m in messages(source, "ses_2")] == ["evt_2", "evt_3"]
    refs = listed(source)
    assert {key: (ref.activity_ms, ref.rank) for key, ref in refs.items()} == {
        "ses_1": (T0, RANK_V1),
        "ses_2": (T0 + 2, RANK_V2),
    }
    assert all(read(source, key)[0].updated_ms == ref.activity_ms for key, ref in refs.items())


def test_a_prompt_that_was_never_run_is_a_users_message(path: Path, source: SqliteSource) -> None:
    with Database(path, "2") as db:
        db.session("ses_1", table="session_v2")
        db.v2("msg_1", "ses_1", "user", 3, at=T0, text="ran")
        db.v2("msg_3", "ses_1", "assistant", 9, at=T0 + MINUTE, content=[])
        for name, admitted, promoted in (("msg_1", 2, 3), ("msg_2", 4, None), ("msg_3", 8, None)):
            db.insert(
                "session_input", id=name, session_id="ses_1", prompt={"text": f"input {name}"},
                admitted_seq=admitted, promoted_seq=promoted, time_created=T0 + 5,
            )  # fmt: skip
    found = messages(source, "ses_1")
    assert [(m.id, m.role, m.created_ms, texts(m)) for m in found] == [
        ("msg_1", "user", T0, ["ran"]),
        ("msg_2", "user", T0 + 5, ["input msg_2"]),
        ("msg_3", "assistant", T0 + MINUTE, []),
    ]
    known = stamps(source, "ses_1")
    assert read(source, "ses_1", known)[1] == [Unchanged(m.id) for m in found]


def test_a_row_that_changed_in_place_is_read_again(path: Path, source: SqliteSource) -> None:
    with Database(path, "2") as db:
        db.session("ses_1", table="session_v2")
        db.v2("msg_1", "ses_1", "user", 1, text="one")
        db.v2("msg_2", "ses_1", "assistant", 2, content=[])
        before, known = listed(source), stamps(source, "ses_1")
        db.conn.execute(
            "UPDATE session_message SET time_updated = ?, data = ? WHERE id = 'msg_2'",
            (T0 + 5, '{"content": [{"type": "text", "text": "two"}]}'),
        )
    assert listed(source) != before
    first, second = read(source, "ses_1", known)[1]
    assert (first, texts(second)) == (Unchanged("msg_1"), ["two"])


def test_a_session_that_moved_from_v1_to_v2_is_read_anew(path: Path, source: SqliteSource) -> None:
    with Database(path, "1.18", "2") as db:
        db.session("ses_1")
        db.message("msg_1", "ses_1", "user", "one")
        known = stamps(source, "ses_1")
        db.session("ses_1", table="session_v2")
        db.v2("msg_1", "ses_1", "user", 1, text="one of V2")
    assert [texts(m) for m in read(source, "ses_1", known)[1]] == [["one of V2"]]


def test_bad_rows_are_reported_and_those_beside_them_read(path: Path, source: SqliteSource) -> None:
    with Database(path, "2") as db:
        db.session("ses_1", table="session_v2")
        db.v2("msg_1", "ses_1", "user", 1, text="one")
        db.v2("msg_2", "ses_1", "user", 2, text="two")
        db.conn.execute("UPDATE session_message SET data = X'FF' WHERE id = 'msg_2'")
        db.v2("msg_3", "ses_1", "user", 3, text="three")
        db.v2("msg_4", "ses_gone", "user", 1, text="lost")
        db.insert("session_input", id="msg_5", session_id="ses_1", prompt="{", admitted_seq=9)
    first, bad, third, input_ = read(source, "ses_1")[1]
    assert (texts(first), texts(third)) == (["one"], ["three"])
    assert bad == BadRecord(
        item="session_message msg_2",
        reason="not UTF-8 at byte 0",
        session_id="ses_1",
        message_id="msg_2",
    )
    assert isinstance(input_, BadRecord)
    assert (input_.item, input_.message_id) == ("session_input msg_5", "msg_5")
    assert problems(source) == [
        BadRecord(item="session_message: rows of session ses_gone", reason="1 without a session")
    ]


def test_an_import_into_v2_does_not_make_every_session_active_today(
    path: Path, source: SqliteSource
) -> None:
    imported = T0 + 900 * MINUTE
    with Database(path, "1.18", "2") as db:
        db.session("ses_1", at=T0)
        db.session("ses_1", at=T0, table="session_v2")
        for n in range(25):
            db.message(f"msg_{n}", "ses_1", "user", f"n{n}", at=T0 + n)
            db.insert(
                "session_message", id=f"msg_{n}", session_id="ses_1", type="user", seq=n,
                time_created=imported, time_updated=imported,
                data={"text": f"n{n}", "time": {"created": T0 + n}},
            )  # fmt: skip
    assert listed(source)["ses_1"].activity_ms == T0 + 24
    session, items = read(source, "ses_1")
    assert session.updated_ms == T0 + 24
    assert [texts(m) for m in items] == [[f"n{n}"] for n in range(25)]
