"""What answers say of a session, where it applies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from datasette_history.render import iso, resume_command
from datasette_history.results import SessionInfo
from tests.builders import T0, assistant, copy, session, user
from tests.reader.conftest import History

Make = Callable[..., History]


def by_id(found: History) -> dict[str, dict[str, Any]]:
    return {s["sessionID"]: s for s in found.json("search-sessions")["sessions"]}


def test_an_ordinary_session_has_only_ordinary_keys(history: Make) -> None:
    assert by_id(history(copy(session("ses_a", "Title"))))["ses_a"] == {
        "sessionID": "ses_a",
        "title": "Title",
        "projectID": "prj",
        "directory": "/home/dev/app",
        "updated": T0,
        "updatedISO": "2026-12-01T01:00:00.000Z",
        "url": "/ses_a#",
        "resume": "cd /home/dev/app && opencode -s ses_a",
    }


def test_what_is_out_of_the_ordinary_is_said(history: Make) -> None:
    found = history(
        copy(session("a", "[alice] Fix it", archived_ms=T0 - 5, forked_from="origin")),
        copy(session("b", archived_ms=0)),
    )
    found.conn.execute("UPDATE sessions SET stranded = 'after-import' WHERE id = 'a'")
    found.conn.commit()
    sessions = by_id(found)
    a = sessions["a"]
    assert (a["archived"], a["archivedISO"]) == (T0 - 5, "2026-12-01T00:59:59.995Z")
    assert (a["copyOf"], a["endUser"], a["stranded"]) == ("origin", "alice", "after-import")
    # OpenCode writes 0 for a session that is not archived.
    assert not {"archived", "copyOf", "endUser", "stranded"} & set(sessions["b"])


def test_a_subagents_session_names_the_root_above_all_parents(history: Make) -> None:
    found = history(
        copy(session("root")),
        copy(session("child", parent_id="root")),
        copy(session("grandchild", parent_id="child")),
        copy(session("orphan", parent_id="missing")),
        copy(session("orphans-child", parent_id="orphan")),
        copy(session("self", parent_id="self")),
        copy(session("ping", parent_id="pong")),
        copy(session("pong", parent_id="ping")),
    )
    roots = {name: one.get("rootSessionID") for name, one in by_id(found).items()}
    assert roots == {
        "root": None,
        "child": "root",
        "grandchild": "root",
        "orphan": None,
        "orphans-child": "orphan",
        "self": None,
        "ping": None,
        "pong": None,
    }


def test_hits_edits_and_read_say_the_same_of_a_session(history: Make) -> None:
    found = history(
        copy(session("root")),
        copy(session("a", parent_id="root"), user("m1", "alpha"), assistant("m2", edits=["/x"])),
    )
    hit = found.json("search-messages", query="alpha")["sessions"][0]
    edit = found.json("search-edits")["edits"][0]
    page = found.json("read", sessionID="a")
    for answer in (hit, edit, page):
        assert (answer["sessionID"], answer["rootSessionID"]) == ("a", "root")
        assert answer["resume"] == "cd /home/dev/app && opencode -s a"


def info(directory: str | None, session_id: str = "ses_a", **values: Any) -> SessionInfo:
    return SessionInfo(
        num=1,
        id=session_id,
        title="",
        project_id=None,
        directory=directory,
        updated_ms=0,
        **values,
    )


@pytest.mark.parametrize(
    ("session_info", "command"),
    [
        pytest.param(info("/a b"), "cd '/a b' && opencode -s ses_a", id="space"),
        pytest.param(
            info("/a'$(x)"), "cd '/a'\"'\"'$(x)' && opencode -s ses_a", id="shell-characters"
        ),
        pytest.param(info("/a", "x; rm"), "cd /a && opencode -s 'x; rm'", id="hostile-id"),
        pytest.param(info(r"C:\My App"), r'cd "C:\My App" && opencode -s ses_a', id="windows"),
        pytest.param(info('C:\\"&calc&"'), None, id="windows-with-a-quote"),
        pytest.param(info(None), None, id="no-directory"),
        pytest.param(info("relative"), None, id="relative"),
        pytest.param(info("/a", deleted_ms=1), None, id="deleted"),
    ],
)
def test_the_resume_command_is_quoted_for_a_shell(
    session_info: SessionInfo, command: str | None
) -> None:
    assert resume_command(session_info) == command


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (T0 + 1, "2026-12-01T01:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (10**15, None),
        (2**62, None),
    ],
)
def test_times_are_iso_texts_in_utc(ms: int, expected: str | None) -> None:
    assert iso(ms) == expected


def test_a_time_beyond_all_calendars_breaks_no_answer(history: Make) -> None:
    found = history(copy(session("a", at=10**17), user("m1", "alpha", at=10**17)))
    hit = found.json("search-messages", query="alpha")["sessions"][0]["hits"][0]
    assert (hit["timestamp"], hit["timestampISO"]) == (10**17, None)


def test_a_title_of_any_length_leaves_room_for_the_answer(history: Make) -> None:
    found = by_id(history(copy(session("a", "x" * 1_000)), copy(session("b", "y" * 1_000_000))))
    assert found["a"]["title"] == "x" * 1_000
    assert found["b"]["title"] == "y" * 999 + "…"
