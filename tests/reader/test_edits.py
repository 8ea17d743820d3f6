"""Edited files: which, in what order, and what the user had asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from datasette_history.matching import FIRST_BLOCK
from sync.model import FileEdit, Part
from tests.builders import MINUTE, T0, assistant, copy, message, session, synthetic, user
from tests.reader.conftest import History

Make = Callable[..., History]

DAY = 24 * 60 * MINUTE


def edit(message_id: str, *paths: str, at: int) -> Any:
    return assistant(message_id, at=at, edits=paths)


def test_an_edit_has_session_message_path_tool_and_prompt(history: Make) -> None:
    found = history(
        copy(
            session("a", "Title", at=T0 + 9),
            user("m1", "Make it blue"),
            assistant("m2", edits=[FileEdit("src/a.css", "write")], at=T0 + 1),
        )
    )
    assert found.json("search-edits")["edits"] == [
        {
            "sessionID": "a",
            "title": "Title",
            "projectID": "prj",
            "directory": "/home/dev/app",
            "url": "/a#m2",
            "resume": "cd /home/dev/app && opencode -s a",
            "messageID": "m2",
            "timestamp": T0 + 1,
            "timestampISO": "2026-12-01T01:00:00.001Z",
            "path": "/home/dev/app/src/a.css",
            "tool": "write",
            "firstEdit": True,
            "prompt": "Make it blue",
            "promptTruncated": False,
            "promptMessageID": "m1",
        }
    ]


def test_edits_come_newest_first_across_sessions(history: Make) -> None:
    found = history(
        copy(session("a", at=T0 + 9), edit("m1", "/x", at=T0), edit("m2", "/y", at=T0 + 4)),
        copy(session("b", at=T0 + 5), edit("m3", "/z", "/w", at=T0 + 2)),
    )
    assert found.edits() == [("m2", "/y"), ("m3", "/w"), ("m3", "/z"), ("m1", "/x")]
    answer = found.json("search-edits", limit=3)
    assert [e["messageID"] for e in answer["edits"]] == ["m2", "m3", "m3"]
    assert answer["hasMore"] is True
    assert found.json("search-edits", limit=4)["hasMore"] is False


def test_edits_of_one_time_come_in_the_order_of_the_conversation(history: Make) -> None:
    found = history(copy(session("a"), *(edit(f"m{n}", "/x", at=T0) for n in range(12))))
    assert found.edits() == [(f"m{n}", "/x") for n in reversed(range(12))]
    firsts = [e["firstEdit"] for e in found.json("search-edits")["edits"]]
    assert firsts == [False] * 11 + [True]


def test_path_limits_the_edits_and_words_choose_the_sessions(history: Make) -> None:
    found = history(
        copy(
            session("a", at=T0 + 9),
            user("m1", "alpha"),
            edit("m2", "/x/a.ts", "/x/b.ts", at=T0 + 1),
        ),
        copy(session("b"), user("m3", "beta"), edit("m4", "/y/a.ts", at=T0 + 2)),
    )
    assert found.edits("path:a.ts") == [("m4", "/y/a.ts"), ("m2", "/x/a.ts")]
    assert found.edits("path:/x/a.ts") == [("m2", "/x/a.ts")]
    assert found.edits("alpha") == [("m2", "/x/a.ts"), ("m2", "/x/b.ts")]
    assert found.edits("alpha path:a.ts") == [("m2", "/x/a.ts")]
    assert found.edits("path:a.ts -alpha") == [("m4", "/y/a.ts")]
    assert found.edits("-beta") == [("m2", "/x/a.ts"), ("m2", "/x/b.ts")]
    assert found.edits("alpha beta") == []


def test_role_limits_the_words_and_not_the_edits(history: Make) -> None:
    found = history(
        copy(session("a"), user("m1", "alpha"), edit("m2", "/x", at=T0 + 1)),
        copy(session("b"), assistant("m3", "alpha"), edit("m4", "/y", at=T0 + 2)),
    )
    assert found.edits("alpha", role="user") == [("m2", "/x")]


def test_date_limits_the_edits_and_not_the_words(history: Make) -> None:
    found = history(
        copy(
            session("a", at=T0),
            user("m1", "alpha", at=T0 - 3 * DAY),
            edit("m2", "/x", at=T0 - 2 * DAY),
            edit("m3", "/x", at=T0),
        )
    )
    assert found.edits("alpha", date="today") == [("m3", "/x")]
    assert found.edits("alpha", date="2026-11-29") == [("m2", "/x")]
    assert found.edits("alpha", date="2026-11-28") == []


def test_the_first_edit_is_counted_before_date_words_and_limit_but_within_the_project(
    history: Make,
) -> None:
    found = history(
        copy(
            session("early", at=T0 - DAY, project_id="p1"),
            edit("m1", "/shared", "/own", at=T0 - DAY),
        ),
        copy(
            session("late", at=T0, project_id="p2"),
            user("m2", "alpha", at=T0),
            edit("m3", "/shared", "/new", at=T0),
            edit("m4", "/new", at=T0 + 1),
        ),
    )

    def firsts(**inputs: Any) -> dict[tuple[str, str], bool]:
        edits = found.json("search-edits", **inputs)["edits"]
        return {(e["messageID"], e["path"]): e["firstEdit"] for e in edits}

    late = {("m4", "/new"): False, ("m3", "/new"): True, ("m3", "/shared"): False}
    early = {("m1", "/own"): True, ("m1", "/shared"): True}
    assert firsts() == late | early
    assert firsts(date="today") == late
    assert firsts(query="alpha") == late
    assert firsts(limit=1) == {("m4", "/new"): False}
    assert firsts(query="path:/shared") == {("m3", "/shared"): False, ("m1", "/shared"): True}
    # Within p2 alone, nobody had edited /shared before.
    assert firsts(project="p2") == late | {("m3", "/shared"): True}


def test_the_first_edit_of_a_windows_path_regards_both_cases_of_the_drive(history: Make) -> None:
    found = history(
        copy(session("a"), edit("m1", "c:/x", at=T0), edit("m2", r"C:\x", at=T0 + 1)),
    )
    edits = found.json("search-edits", query="path:C:/x")["edits"]
    assert [(e["messageID"], e["firstEdit"]) for e in edits] == [("m2", False), ("m1", True)]


def test_a_forks_copy_of_an_edit_is_not_the_first(history: Make) -> None:
    found = history(
        copy(session("fork"), edit("m1", "/x", at=T0)),
        copy(session("origin"), edit("m2", "/x", at=T0)),
    )
    found.conn.execute("UPDATE documents SET copied = 1 WHERE session_id = 'fork'")
    found.conn.commit()
    edits = found.json("search-edits")["edits"]
    assert [(e["sessionID"], e["firstEdit"], e.get("copied")) for e in edits] == [
        ("fork", False, True),
        ("origin", True, None),
    ]


def test_the_prompt_is_the_last_user_message_with_words_of_the_users_own(history: Make) -> None:
    ignored = Part(kind="text", text="ignored text", own=False)
    found = history(
        copy(
            session("a"),
            user("m1", "first"),
            user("m2", "second", "and more", synthetic("file contents")),
            user("m3", synthetic("only synthetic")),
            user("m4", Part(kind="file", text="screenshot.png", name="image/png")),
            user("m5", ignored),
            message("m6", "shell", "a command"),
            edit("m7", "/x", at=T0 + 1),
            user("m8", "later"),
        ),
        copy(session("b"), user("m9", "of another session"), edit("m10", "/z", at=T0 + 2)),
        copy(session("c"), edit("m11", "/y", at=T0 + 3), user("m12", "too late")),
    )
    prompts = {
        e["messageID"]: (e["promptMessageID"], e["prompt"])
        for e in found.json("search-edits")["edits"]
    }
    assert prompts == {
        "m7": ("m2", "second\nand more"),
        "m10": ("m9", "of another session"),
        "m11": (None, None),
    }


def test_a_long_prompt_is_cut_at_300_code_points_and_says_so(history: Make) -> None:
    found = history(
        copy(session("a"), user("m1", "😀" * 301), edit("m2", "/x", at=T0)),
        copy(session("b"), user("m3", "😀" * 300), edit("m4", "/x", at=T0 - 1)),
    )
    prompts = [(e["prompt"], e["promptTruncated"]) for e in found.json("search-edits")["edits"]]
    assert prompts == [("😀" * 300, True), ("😀" * 300, False)]


def test_filters_apply_before_limiting_edits(history: Make) -> None:
    newer = [
        copy(session(f"new{n}", at=T0 + n), user(f"u{n}", "common"), edit(f"m{n}", "/n", at=T0 + n))
        for n in range(FIRST_BLOCK * 2)
    ]
    wanted = copy(
        session("wanted", at=T0 - DAY, project_id="rare"),
        user("u", "needle common", at=T0 - DAY),
        edit("m", "/rare", at=T0 - DAY),
    )
    found = history(*newer, wanted)
    for inputs in (
        {"query": "needle"},
        {"query": "path:/rare"},
        {"query": "common project:rare"},
        {"project": "rare"},
        {"query": "common", "date": "yesterday"},
    ):
        assert found.edits(limit=1, **inputs) == [("m", "/rare")]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (r"\\server\share\b.ts", ["network"]),
        ("//server/share/b.ts", ["network"]),
        (r"share\b.ts", ["network"]),
        ("/server/share/b.ts", []),
        ("src/./lib//a.ts", ["local"]),
        ("./x/../src/lib/a.ts", ["local"]),
        ("lib/../other/a.ts", []),
    ],
)
def test_a_path_is_found_by_every_way_to_write_it(
    history: Make, path: str, expected: list[str]
) -> None:
    found = history(
        copy(session("s1"), assistant("network", "x", edits=[r"\\server\share\b.ts"])),
        copy(session("s2"), assistant("local", "x", edits=["/home/dev/app/src/lib/a.ts"])),
    )
    assert [message for message, _ in found.edits(f'path:"{path}"')] == expected
    assert len(found.sessions(query=f'path:"{path}"')) == len(expected)
    edits = found.json("search-edits", query=f'path:"{path}"')["edits"]
    assert all(edit["firstEdit"] for edit in edits)
