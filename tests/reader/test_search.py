"""Which sessions match, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from datasette_history.matching import FIRST_BLOCK
from sync.model import FileEdit, Part
from tests.builders import (
    MINUTE,
    T0,
    assistant,
    copy,
    message,
    session,
    synthetic,
    tool,
    user,
)
from tests.reader.conftest import History

Make = Callable[..., History]

DAY = 24 * 60 * MINUTE
LAST_WEEK = T0 - 7 * DAY


def test_all_words_must_occur_in_the_session_each_in_any_message(history: Make) -> None:
    found = history(
        copy(session("both"), user("m1", "alpha"), assistant("m2", "beta")),
        copy(session("one"), user("m1", "alpha"), assistant("m2", "gamma")),
        copy(session("none"), user("m1", "delta")),
    )
    assert found.found("alpha beta") == ["both"]
    assert found.hits("alpha beta") == {
        "both": {"alpha": ("m1", "user"), "beta": ("m2", "assistant")}
    }


def test_words_match_inside_words_and_in_any_case(history: Make) -> None:
    found = history(
        copy(session("a"), user("m1", "UnREASONable ÜBERSICHT")),
        copy(session("b"), user("m1", "reas on")),
    )
    assert found.found("reason") == ["a"]
    assert found.found("übersicht") == ["a"]
    assert found.found("REASON Übers") == ["a"]


def test_a_phrase_keeps_its_spaces(history: Make) -> None:
    found = history(
        copy(session("a"), user("m1", "fix  the bug")),
        copy(session("b"), user("m1", "fix the bug")),
    )
    assert found.found('"fix  the"') == ["a"]
    assert found.found('"fix the bug"') == ["b"]


@pytest.mark.parametrize(
    "word",
    [
        "error:",
        "http://x.test/a?b=c",
        "foo:bar",
        "a*b",
        "NEAR(x",
        "col1:",
        "^sta",
        "50%_x",
        "x'y",
    ],
)
def test_everything_else_is_literal(history: Make, word: str) -> None:
    found = history(
        copy(session("a"), user("m1", f"before {word} after")),
        copy(session("b"), user("m1", "before after error http x.test foo bar col1 start ab")),
    )
    assert found.found(word) == ["a"]


def test_what_a_tool_was_given_is_found_as_typed(history: Make) -> None:
    given = tool("write", code='print("x")', path=r"C:\repo\a.ts", output="done\twell")
    found = history(
        copy(session("a"), assistant("m1", given)),
        copy(session("b"), assistant("m1", r"print(\"x\") C:\\repo\\a.ts")),
    )
    assert found.found('print("x")') == ["a"]
    assert found.found(r"C:\repo\a.ts") == ["a"]
    assert found.found('"done\twell"') == ["a"]


def test_sessions_come_with_the_latest_activity_first(history: Make) -> None:
    found = history(
        copy(session("old", at=T0), user("m1", "alpha")),
        copy(session("new", at=T0 + 2), user("m1", "alpha", at=T0 + 2)),
        copy(session("middle", at=T0 + 1), user("m1", "alpha", at=T0 + 1)),
    )
    assert found.found("alpha") == ["new", "middle", "old"]
    assert found.sessions() == ["new", "middle", "old"]


def test_the_hit_is_the_first_message_and_the_title_only_without_one(history: Make) -> None:
    found = history(
        copy(
            session("a", "Alpha and beta"),
            user("m1", "gamma"),
            assistant("m2", "alpha"),
            user("m3", "alpha"),
        )
    )
    assert found.hits("alpha beta") == {
        "a": {"alpha": ("m2", "assistant"), "beta": (None, "title")}
    }


def test_a_hit_has_time_excerpt_and_address(history: Make) -> None:
    text = "x" * 400 + " needle " + "y" * 400
    found = history(
        copy(session("a", at=T0 + 5), user("m1", text, at=T0)),
        copy(session("b", "the needle", at=T0 + 3)),
    )
    first, second = found.json("search-messages", query="NEEDLE")["sessions"]
    excerpt = first["hits"][0].pop("excerpt")
    assert first["hits"] == [
        {
            "word": "NEEDLE", "messageID": "m1", "role": "user",
            "timestamp": T0, "timestampISO": "2026-12-01T01:00:00.000Z", "url": "/a#m1",
        }
    ]  # fmt: skip
    assert excerpt == "…" + "x" * 145 + " needle " + "y" * 145 + "…"
    assert len(excerpt) == 300
    assert second["hits"] == [
        {
            "word": "NEEDLE", "messageID": None, "role": "title", "timestamp": T0 + 3,
            "timestampISO": "2026-12-01T01:00:00.003Z", "excerpt": "the needle", "url": "/b#",
        }
    ]  # fmt: skip


def test_a_word_counts_once_whatever_its_case(history: Make) -> None:
    found = history(copy(session("a"), user("m1", "Alpha ALPHA")))
    assert found.hits("alpha ALPHA Alpha") == {"a": {"alpha": ("m1", "user")}}


def test_excluded_words_drop_sessions_whatever_the_role_and_date(history: Make) -> None:
    found = history(
        copy(session("clean"), user("m1", "alpha")),
        copy(session("by-other-role"), user("m1", "alpha"), assistant("m2", "bad word")),
        copy(session("long-ago"), user("m0", "bad word", at=LAST_WEEK), user("m1", "alpha")),
        copy(session("in-title", "A BAD WORD"), user("m1", "alpha")),
        copy(session("synthetic"), user("m1", "alpha", synthetic("bad word"))),
        copy(session("in-shell"), user("m1", "alpha"), message("m2", "shell", "bad word")),
        copy(session("words-apart"), user("m1", "alpha bad and word")),
    )
    assert found.found('alpha -"bad word"', role="user", date="today") == ["words-apart", "clean"]
    assert found.sessions(query='-"bad word"') == ["words-apart", "clean"]
    assert found.found("alpha -bad") == ["clean"]


def test_a_word_both_wanted_and_excluded_matches_nothing(history: Make) -> None:
    found = history(copy(session("a"), user("m1", "alpha")))
    assert found.found("alpha -ALPHA") == []


def test_role_limits_what_words_match_to_the_roles_own_words(history: Make) -> None:
    found = history(
        copy(session("user"), user("m1", "alpha")),
        copy(session("assistant"), assistant("m1", "alpha")),
        copy(session("title", "alpha"), user("m1", "beta")),
        copy(session("synthetic"), user("m1", "beta", synthetic("alpha"))),
        copy(session("shell"), message("m1", "shell", "alpha")),
        copy(session("tool"), assistant("m1", tool("bash", output="alpha"))),
    )
    assert found.found("alpha", role="user") == ["user", "title"]
    assert found.found("alpha", role="assistant") == ["tool", "title", "assistant"]
    assert sorted(found.found("alpha")) == [
        "assistant", "shell", "synthetic", "title", "tool", "user",
    ]  # fmt: skip


def test_with_a_role_the_first_hit_is_one_of_that_role(history: Make) -> None:
    found = history(
        copy(
            session("a", "alpha"),
            user("m1", synthetic("alpha")),
            assistant("m2", "alpha"),
            user("m3", "beta", synthetic("alpha")),
            user("m4", "say alpha", synthetic("alpha " * 100)),
        )
    )
    assert found.hits("alpha", role="user") == {"a": {"alpha": ("m4", "user")}}
    answer = found.json("search-messages", query="alpha", role="user")
    assert answer["sessions"][0]["hits"][0]["excerpt"] == "say alpha"


def test_a_phrase_never_runs_from_the_users_words_into_synthetic_ones(history: Make) -> None:
    found = history(copy(session("a"), user("m1", "say", synthetic("alpha"))))
    assert found.found('"say\nalpha"', role="user") == []


def test_a_date_limits_which_messages_match_with_both_ends(history: Make) -> None:
    day = T0 - T0 % DAY  # 2026-12-01 in UTC
    found = history(
        copy(session("before", at=T0), user("m1", "alpha", at=day - 1)),
        copy(session("start", at=T0), user("m1", "alpha", at=day)),
        copy(session("end", at=T0), user("m1", "alpha", at=day + DAY - 1)),
        copy(session("after", at=T0), user("m1", "alpha", at=day + DAY)),
    )
    assert found.found("alpha", date="2026-12-01") == ["start", "end"]
    assert found.found("alpha", date="2026-11-30 to 2026-12-01") == ["start", "end", "before"]
    # In New York the day begins five hours later.
    assert found.found("alpha", date="2026-12-01", timezone="America/New_York") == ["end", "after"]


def test_a_title_is_dated_by_the_last_activity(history: Make) -> None:
    found = history(
        copy(session("now", "alpha", at=T0, created_ms=LAST_WEEK)),
        copy(session("then", "alpha", at=LAST_WEEK), user("m1", "beta", at=T0)),
    )
    assert found.found("alpha", date="today") == ["now"]


def test_words_must_match_within_the_date_each(history: Make) -> None:
    found = history(
        copy(session("a"), user("m1", "alpha", at=LAST_WEEK), user("m2", "beta", at=T0)),
        copy(session("b"), user("m1", "alpha", at=T0), user("m2", "beta", at=T0)),
    )
    assert found.found("alpha beta", date="today") == ["b"]
    assert found.found("alpha beta") == ["b", "a"]


def test_a_date_without_words_lists_sessions_with_a_message_of_those_days(history: Make) -> None:
    found = history(
        copy(session("message", at=T0), user("m1", "one", at=LAST_WEEK)),
        copy(session("title", "one", at=LAST_WEEK), user("m1", "two", at=T0)),
        copy(session("neither", at=T0), user("m1", "one", at=T0)),
        copy(session("role", at=T0), assistant("m1", "one", at=LAST_WEEK)),
    )
    assert found.sessions(date="2026-11-24") == ["role", "message", "title"]
    assert found.sessions(date="2026-11-24", role="user") == ["message", "title"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("src/auth.ts", ["rel"], id="trailing-segments"),
        pytest.param("auth.ts", ["rel", "other"], id="file-name"),
        pytest.param("uth.ts", [], id="part-of-a-name"),
        pytest.param("rc/auth.ts", [], id="part-of-a-segment"),
        pytest.param("SRC/auth.ts", [], id="case-counts"),
        pytest.param("./src/auth.ts", ["rel"], id="dot-slash"),
        pytest.param("/home/dev/app/src/auth.ts", ["rel"], id="absolute"),
        pytest.param("~/app/src/auth.ts", ["rel"], id="home"),
        pytest.param("/src/auth.ts", [], id="absolute-must-be-equal"),
        pytest.param("/home/dev/app/lib/../src/auth.ts", ["rel"], id="collapsed"),
        pytest.param("app/my file.ts", ["space"], id="space"),
        pytest.param("C:/Repo/a.ts", ["windows"], id="windows"),
        pytest.param(r"c:\Repo\a.ts", ["windows"], id="windows-backslashes"),
        pytest.param("C:/repo/a.ts", [], id="windows-case-counts-but-for-the-drive"),
        pytest.param(r"Repo\a.ts", ["windows"], id="windows-relative"),
        pytest.param("snapshot.ts", ["snapshot"], id="snapshot"),
        pytest.param("mentioned.ts", [], id="only-mentioned"),
    ],
)
def test_path_keeps_sessions_that_edited_the_file(
    history: Make, path: str, expected: list[str]
) -> None:
    found = history(
        copy(session("rel"), assistant("m1", "alpha", edits=["src/auth.ts"])),
        copy(session("other"), assistant("m1", "alpha", edits=["/tmp/mysrc/auth.ts"])),
        copy(session("space"), assistant("m1", "alpha", edits=["my file.ts"])),
        copy(session("windows"), assistant("m1", "alpha", edits=[r"C:\Repo\a.ts"])),
        copy(session("snapshot"), assistant("m1", "alpha", edits=[FileEdit("snapshot.ts", None)])),
        copy(session("mentions"), assistant("m1", "alpha src/auth.ts mentioned.ts")),
    )
    assert found.found(f'alpha path:"{path}"') == expected
    assert found.sessions(query=f'path:"{path}"') == expected


@pytest.mark.parametrize(
    ("query", "inputs"),
    [
        pytest.param("needle", {}, id="word"),
        pytest.param("common -secret", {}, id="exclusion"),
        pytest.param("common", {"role": "assistant"}, id="role"),
        pytest.param("common", {"date": "2026-11-24"}, id="date"),
        pytest.param("common project:rare", {}, id="project"),
        pytest.param("common path:rare.ts", {}, id="path"),
    ],
)
def test_filters_apply_before_limiting(history: Make, query: str, inputs: dict[str, str]) -> None:
    newer = [
        copy(session(f"new{n}", at=T0 + n), user("m1", "common secret", at=T0))
        for n in range(FIRST_BLOCK * 2)
    ]
    wanted = copy(
        session("wanted", at=LAST_WEEK, project_id="rare"),
        user("m1", "needle common", at=LAST_WEEK),
        assistant("m2", "common", at=LAST_WEEK, edits=["rare.ts"]),
    )
    assert history(*newer, wanted).found(query, limit=1, **inputs) == ["wanted"]


def test_an_answer_says_when_there_are_more(history: Make) -> None:
    found = history(*(copy(session(f"s{n}", "alpha", at=T0 + n)) for n in range(3)))
    for tool_name in ("search-messages", "search-sessions"):
        answer = found.json(tool_name, query="alpha", limit=2)
        assert [s["sessionID"] for s in answer["sessions"]] == ["s2", "s1"]
        assert answer["hasMore"] is True
        assert found.json(tool_name, query="alpha", limit=3)["hasMore"] is False


def test_deleted_sessions_that_are_kept_are_found_and_say_so(history: Make) -> None:
    found = history(copy(session("a", "alpha")), copy(session("b", "alpha")))
    found.conn.execute("UPDATE sessions SET deleted_at = ? WHERE id = 'b'", (T0,))
    found.conn.commit()
    b, a = found.json("search-sessions", query="alpha")["sessions"]
    assert b["deleted"] == T0
    assert "resume" not in b
    assert "deleted" not in a


def test_projects_come_with_directories_and_counts_largest_first(history: Make) -> None:
    found = history(
        copy(session("a", "alpha", project_id="p1", directory="/p1")),
        copy(session("b", "alpha", project_id="p2", directory="/p2")),
        copy(session("c", "alpha", project_id="p2", directory="/p2/w")),
        copy(session("d", "alpha", project_id="p2", directory="/p2/w")),
        copy(session("e", "beta", project_id="p1", directory="/p1/x")),
        copy(session("f", "beta", project_id="p3", directory="/p3")),
        copy(session("g", "alpha", project_id=None, directory=None)),
    )
    answer = found.json("search-sessions", query="alpha", show="projects")
    assert answer["projects"] == [
        {"projectID": "p2", "directories": ["/p2/w", "/p2"], "sessions": 3},
        {"projectID": None, "directories": [], "sessions": 1},
        {"projectID": "p1", "directories": ["/p1"], "sessions": 1},
    ]
    assert answer["hasMore"] is False
    everything = found.json("search-sessions", show="projects", limit=1)
    assert everything["projects"][0]["projectID"] == "p2"
    assert everything["hasMore"] is True


def test_projects_are_shown_up_to_a_hundred(history: Make) -> None:
    found = history(
        *(copy(session(f"s{n}", project_id=f"p{n:03}", directory=f"/p{n}")) for n in range(102))
    )
    answer = found.json("search-sessions", show="projects")
    assert [p["projectID"] for p in answer["projects"]] == [f"p{n:03}" for n in range(100)]
    assert answer["hasMore"] is True
    assert "cappedFrom" not in answer
    capped = found.json("search-sessions", show="projects", limit=101)
    assert (len(capped["projects"]), capped["cappedFrom"]) == (100, 101)


def test_a_project_with_many_directories_lists_the_first_and_counts_the_rest(
    history: Make,
) -> None:
    found = history(*(copy(session(f"s{n}", directory=f"/d{n:02}")) for n in range(23)))
    (project,) = found.json("search-sessions", show="projects")["projects"]
    assert project["directories"] == [f"/d{n:02}" for n in range(20)]
    assert project["directoriesOmitted"] == 3


def test_lone_surrogates_and_nul_are_found_as_what_the_index_made_of_them(history: Make) -> None:
    found = history(copy(session("a"), user("m1", "x\ud800\0y")), copy(session("b", "x  y")))
    assert found.found("x\ud800\0y") == ["a"]
    assert found.found("x\ufffd\ufffdy") == ["a"]


def test_letters_that_sqlite_cannot_fold_are_found_in_either_case(history: Make) -> None:
    found = history(
        copy(session("a"), user("m1", "ᲗᲑᲘᲚᲘᲡᲘ")), copy(session("b"), user("m1", "თბილისი"))
    )
    assert found.found("თბილისი") == ["b", "a"]
    assert found.found("ᲗᲑᲘᲚᲘᲡᲘ") == ["b", "a"]


def test_reasoning_errors_summaries_and_file_names_are_found(history: Make) -> None:
    kinds = ("reasoning", "summary", "file", "command", "path", "error", "subtask", "retry")
    found = history(
        *(
            copy(session(kind, at=T0 + n), assistant("m1", Part(kind=kind, text=f"alpha {kind}")))
            for n, kind in enumerate(kinds)
        )
    )
    assert found.found("alpha") == list(reversed(kinds))
    assert found.found("alpha summary") == ["summary"]
