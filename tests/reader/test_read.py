"""Reading a session: windows, pages, and what content is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from datasette_history.errors import HistoryError, InvalidInput, NotInIndex
from sync.model import Part
from tests.builders import T0, assistant, copy, message, session, synthetic, tool, user
from tests.reader.conftest import History

Make = Callable[..., History]


def turns(count: int) -> list[Any]:
    """m0 by the user, m1 by the assistant, and so on."""
    return [
        (user if n % 2 == 0 else assistant)(f"m{n}", f"text {n}", at=T0 + n) for n in range(count)
    ]


@pytest.fixture
def long(history: Make) -> History:
    """Thirty turns, with a shell command, a synthetic message and a compaction in between."""
    messages = turns(30)
    messages.insert(10, message("shell", "shell", "ls", at=T0 + 9))
    messages.insert(20, message("compaction", "compaction", "summary", at=T0 + 18))
    return history(copy(session("a"), *messages), copy(session("b"), user("other", "text")))


def ids(page: dict[str, Any]) -> list[str]:
    return [message["messageID"] for message in page["messages"]]


def names(*numbers: int) -> list[str]:
    return [f"m{n}" for n in numbers]


def test_a_session_is_read_from_its_start_twenty_messages_at_a_time(long: History) -> None:
    first = long.json("read", sessionID="a")
    assert ids(first) == names(*range(20))
    assert first["nextCursor"] == "m19"
    assert "anchorIncluded" not in first
    second = long.json("read", sessionID="a", cursor=first["nextCursor"])
    assert ids(second) == names(*range(20, 30))
    assert second["nextCursor"] is None


def test_a_page_holds_limit_messages_of_the_role(long: History) -> None:
    page = long.json("read", sessionID="a", limit=3, role="assistant", cursor="m2")
    assert ids(page) == names(3, 5, 7)
    assert page["nextCursor"] == "m7"
    last = long.json("read", sessionID="a", limit=3, role="assistant", cursor="m25")
    assert (ids(last), last["nextCursor"]) == (names(27, 29), None)


def test_a_page_that_ends_with_the_session_has_no_cursor(long: History) -> None:
    exact = long.json("read", sessionID="a", limit=30)
    assert (len(exact["messages"]), exact["nextCursor"]) == (30, None)
    # m29 is by the assistant, so the user's messages end with m28.
    assert long.json("read", sessionID="a", limit=15, role="user")["nextCursor"] is None


def test_a_cursor_may_be_a_message_that_is_not_shown(long: History) -> None:
    assert ids(long.json("read", sessionID="a", cursor="shell", limit=1)) == names(10)
    assert ids(long.json("read", sessionID="a", cursor="m28", limit=5, role="user")) == []


def test_a_limit_over_the_cap_is_capped_and_says_so(history: Make) -> None:
    found = history(copy(session("a"), *turns(120)))
    page = found.json("read", sessionID="a", limit=101)
    assert (len(page["messages"]), page["cappedFrom"], page["nextCursor"]) == (100, 101, "m99")


def test_a_window_has_five_messages_on_both_sides(long: History) -> None:
    page = long.json("read", sessionID="a", messageID="m10")
    assert ids(page) == names(*range(5, 16))
    assert page["anchorIncluded"] is True
    assert page["nextCursor"] == "m15"


@pytest.mark.parametrize(
    ("before", "after", "expected", "cursor"),
    [
        pytest.param(0, 0, [10], "m10", id="anchor-alone"),
        pytest.param(2, 0, [8, 9, 10], "m10", id="only-before"),
        pytest.param(0, 2, [10, 11, 12], "m12", id="only-after"),
        pytest.param(50, 50, range(30), None, id="everything"),
        pytest.param(0, 19, range(10, 30), None, id="exactly-to-the-end"),
        pytest.param(0, 18, range(10, 29), "m28", id="one-short-of-the-end"),
    ],
)
def test_a_window_is_as_wide_as_asked(
    long: History, before: int, after: int, expected: Any, cursor: str | None
) -> None:
    page = long.json("read", sessionID="a", messageID="m10", before=before, after=after)
    assert ids(page) == names(*expected)
    assert page["nextCursor"] == cursor


def test_neighbours_are_counted_after_the_role_filter(long: History) -> None:
    page = long.json("read", sessionID="a", messageID="m10", before=2, after=2, role="user")
    assert ids(page) == names(6, 8, 10, 12, 14)
    assert page["anchorIncluded"] is True
    assert page["nextCursor"] == "m14"


def test_an_anchor_that_the_role_excludes_still_locates_the_window(long: History) -> None:
    page = long.json("read", sessionID="a", messageID="m11", before=1, after=1, role="user")
    assert ids(page) == names(10, 12)
    assert page["anchorIncluded"] is False
    assert page["nextCursor"] == "m12"


def test_the_cursor_is_the_anchor_where_the_window_holds_nothing_later(long: History) -> None:
    page = long.json("read", sessionID="a", messageID="m11", before=1, after=0, role="user")
    assert ids(page) == names(10)
    assert page["nextCursor"] == "m11"
    following = long.json("read", sessionID="a", cursor="m11", limit=1, role="user")
    assert ids(following) == names(12)


def test_the_cursor_is_null_where_nothing_of_the_role_comes_later(long: History) -> None:
    # m29 follows, but it is not the user's.
    page = long.json("read", sessionID="a", messageID="m28", after=0, role="user")
    assert page["nextCursor"] is None
    excluded = long.json("read", sessionID="a", messageID="m29", before=0, after=0, role="user")
    assert (ids(excluded), excluded["nextCursor"]) == ([], None)


def test_an_anchor_may_be_a_message_of_another_kind(long: History) -> None:
    page = long.json("read", sessionID="a", messageID="shell", before=1, after=1)
    assert ids(page) == names(9, 10)
    assert page["anchorIncluded"] is False


def test_a_session_without_messages_is_an_empty_page(history: Make) -> None:
    page = history(copy(session("a"), message("x", "shell", "ls"))).json("read", sessionID="a")
    assert (page["messages"], page["nextCursor"]) == ([], None)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        pytest.param({"sessionID": "x"}, "session 'x' is not in the index", id="session"),
        pytest.param({"messageID": "x"}, "messageID 'x' is not a message", id="anchor"),
        pytest.param({"cursor": "x"}, "cursor 'x' is not a message", id="cursor"),
        pytest.param({"messageID": "other"}, "'other' is not a message of session 'a'", id="other"),
        pytest.param({"cursor": "other"}, "'other' is not a message of session 'a'", id="other-c"),
    ],
)
def test_unknown_sessions_anchors_and_cursors_are_not_found(
    long: History, inputs: dict[str, str], message: str
) -> None:
    with pytest.raises(NotInIndex, match=message):
        long.json("read", **({"sessionID": "a"} | inputs))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        pytest.param({"messageID": "m1", "cursor": "m1"}, "messageID and cursor", id="cursor"),
        pytest.param({"messageID": "m1", "limit": 5}, "messageID and limit", id="limit"),
        pytest.param({"before": 1}, "before counts from a messageID", id="before"),
        pytest.param({"after": 1, "cursor": "m1"}, "after counts from a messageID", id="after"),
        pytest.param({"messageID": "m1", "before": 51}, "from 0 to 50, not 51", id="before-51"),
        pytest.param({"messageID": "m1", "after": -1}, "from 0 to 50, not -1", id="after-1"),
        pytest.param({"limit": 0}, "limit must be 1 or more, not 0", id="limit-0"),
        pytest.param({"maxCharsPerMessage": 99}, "from 100 to 20000, not 99", id="chars-99"),
        pytest.param({"maxCharsPerMessage": 20001}, "not 20001", id="chars-20001"),
        pytest.param({"role": "shell"}, "role must be user or assistant", id="role"),
        pytest.param({"messageID": ""}, "messageID is empty", id="empty-anchor"),
        pytest.param({"cursor": " "}, "cursor is empty", id="blank-cursor"),
        pytest.param({"includeToolResults": "yes"}, "must be true or false", id="boolean"),
    ],
)
def test_inputs_that_do_not_fit_are_errors(
    long: History, inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        long.json("read", **({"sessionID": "a"} | inputs))


def one(found: History, **inputs: Any) -> dict[str, Any]:
    (read,) = found.json("read", sessionID="a", **inputs)["messages"]
    return dict(read)


def test_content_is_the_text_with_tool_calls_named(history: Make) -> None:
    found = history(
        copy(
            session("a"),
            assistant(
                "m1",
                "Before.",
                tool("bash", call=0, output="SECRET OUTPUT", command="SECRET INPUT"),
                "Between.",
                tool("edit", call=1, error="SECRET ERROR", status="error", oldString="SECRET"),
                tool("read", call=2, status="running", filePath="SECRET"),
                "After.",
            ),
        )
    )
    assert one(found) == {
        "messageID": "m1",
        "role": "assistant",
        "timestamp": T0,
        "timestampISO": "2026-12-01T01:00:00.000Z",
        "content": "Before.\n[tool: bash]\n[tool results omitted]\nBetween.\n[tool: edit]\n"
        "[tool results omitted]\n[tool: read]\nAfter.",
        "truncated": False,
        "toolResultsOmitted": True,
        "otherContentOmitted": False,
        "url": "/a#m1",
    }


def test_tool_results_come_on_request_and_inputs_never(history: Make) -> None:
    found = history(
        copy(
            session("a"),
            assistant("m1", tool("bash", output="the output", error="the error", command="SECRET")),
        )
    )
    read = one(found, includeToolResults=True)
    assert read["content"] == "[tool: bash]\nthe output\nthe error"
    assert read["toolResultsOmitted"] is False


@pytest.mark.parametrize(
    ("part", "content", "omitted"),
    [
        pytest.param(synthetic("added"), "text", True, id="synthetic"),
        pytest.param(Part(kind="text", text="ignored", own=False), "text", True, id="ignored"),
        pytest.param(Part(kind="reasoning", text="hmm"), "text", True, id="reasoning"),
        pytest.param(Part(kind="file", text="a.png"), "text", True, id="file"),
        pytest.param(Part(kind="error", text="aborted"), "text", True, id="message-error"),
        pytest.param(Part(kind="retry", text="again"), "text", True, id="retry"),
        pytest.param(Part(kind="path", text="/x"), "text", False, id="path"),
        pytest.param(Part(kind="agent", text="plan"), "text", False, id="agent"),
        pytest.param(Part(kind="summary", text="so far"), "text\nso far", False, id="summary"),
        pytest.param(Part(kind="subtask", text="do it"), "text\ndo it", False, id="subtask"),
        pytest.param(Part(kind="reasoning", text=""), "text", False, id="empty"),
    ],
)
def test_other_content_is_left_out_and_the_message_says_so(
    history: Make, part: Part, content: str, omitted: bool
) -> None:
    read = one(history(copy(session("a"), assistant("m1", "text", part))))
    assert (read["content"], read["otherContentOmitted"]) == (content, omitted)
    assert read["toolResultsOmitted"] is False
    assert one(history(), includeToolResults=True)["content"] == content


def test_content_is_in_the_order_of_the_parts_although_own_text_is_stored_first(
    history: Make,
) -> None:
    read = one(history(copy(session("a"), user("m1", "one", synthetic("added"), "two"))))
    assert read["content"] == "one\ntwo"


def test_long_content_is_cut_in_utf16_units_and_never_inside_a_pair(history: Make) -> None:
    found = history(copy(session("a"), user("m1", "x" + "😀" * 100)))
    assert one(found, maxCharsPerMessage=201)["content"] == "x" + "😀" * 100
    cut = one(found, maxCharsPerMessage=200)
    assert (cut["content"], cut["truncated"]) == ("x" + "😀" * 99, True)


def test_content_is_cut_at_2000_units_unless_asked(history: Make) -> None:
    found = history(copy(session("a"), user("m1", "x" * 30_000)))
    assert len(one(found)["content"]) == 2_000
    assert len(one(found, maxCharsPerMessage=20_000)["content"]) == 20_000


def test_marks_of_copied_and_reverted_messages_are_shown(history: Make) -> None:
    found = history(copy(session("a"), user("m1", "text")))
    assert not {"copied", "reverted"} & set(one(found))
    found.conn.execute("UPDATE documents SET copied = 1, reverted = 1")
    found.conn.commit()
    assert (one(found)["copied"], one(found)["reverted"]) == (True, True)


def test_without_a_session_the_latest_of_the_working_directory_is_read(history: Make) -> None:
    found = history(
        copy(session("old", at=T0, directory="/w/app")),
        copy(session("new", at=T0 + 1, directory="/w/app")),
        copy(session("child", at=T0 + 2, directory="/w/app", parent_id="new")),
        copy(session("sub", at=T0 + 3, directory="/w/app/sub")),
        copy(session("else", at=T0 + 4, directory="/w/apple")),
        copy(session("gone", at=T0 + 5, directory="/w/app")),
    )
    found.conn.execute("UPDATE sessions SET deleted_at = 1 WHERE id = 'gone'")
    found.conn.commit()
    local = replace(found.context, default_session=True)

    def latest(directory: str) -> str:
        page = found.json("read", replace(local, directory=directory))
        return str(page["sessionID"])

    assert latest("/w/app") == "new"
    assert latest("/w/app/other") == "new"
    assert latest("/w/app/sub/deep") == "sub"
    with pytest.raises(NotInIndex, match="no session of the directory /nowhere is indexed"):
        latest("/nowhere")


def test_over_http_a_session_must_be_named(history: Make) -> None:
    found = history(copy(session("a")))
    with pytest.raises(HistoryError, match="sessionID is required by read") as caught:
        found.json("read", replace(found.context, directory="/home/dev/app"))
    assert caught.value.status == 400
