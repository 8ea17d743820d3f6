"""What a revert undid is still found, and labelled: messages, parts of one, and edits."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from datasette_history.render import as_json
from datasette_history.text import as_text
from datasette_history.tools import Context, call
from tests.builders import T0
from tests.opencode_stores import Database, JsonStore, tool
from tests.truth.syncing import assert_equals_fresh, opened, rows, sources_of, sync_dir

CONTEXT = Context(now=datetime(2026, 12, 2, tzinfo=UTC))
MESSAGES = "SELECT message_id, reverted FROM documents WHERE seq >= 0 ORDER BY seq"
PARTS = """
  SELECT p.kind, p.reverted, substr(d.text, p.start + 1, p.length) FROM parts p
  JOIN documents d ON d.id = p.document_id WHERE d.message_id = 'm2' ORDER BY p.seq
"""
EDITS = "SELECT path, reverted FROM file_edits ORDER BY time, path"


def edit(name: str) -> dict[str, Any]:
    return tool("edit", input={"filePath": f"/home/dev/app/{name}"}, output=f"edited {name}")


def fill(db: Database | JsonStore) -> None:
    db.message("m1", "ses", "user", "Start over", at=T0)
    db.message("m2", "ses", "assistant", "Standing", edit("a.ts"), "Undone", edit("b.ts"),
               edit("a.ts"), at=T0 + 1)  # fmt: skip
    db.message("m3", "ses", "assistant", edit("c.ts"), at=T0 + 2)


def revert(data: Path, mark: dict[str, str] | None, at: int) -> None:
    with Database(data / "opencode.db") as db:
        db.conn.execute("UPDATE session SET revert = ?, time_updated = ?",
                        (json.dumps(mark) if mark else None, at))  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with Database(tmp_path / "data/opencode.db", "1.18") as db:
        db.session("ses", "Try it")
        fill(db)
    return tmp_path / "data"


def test_marks_come_and_go_with_the_revert(data: Path, tmp_path: Path) -> None:
    index = sync_dir(tmp_path / "history.db", data)
    assert rows(index, MESSAGES) == [("m1", 0), ("m2", 0), ("m3", 0)]
    revert(data, {"messageID": "m2"}, T0 + 10)
    sync_dir(index, data)
    assert rows(index, MESSAGES) == [("m1", 0), ("m2", 1), ("m3", 1)]
    assert rows(index, EDITS) == [(f"/home/dev/app/{name}.ts", 1) for name in "abc"]
    assert_equals_fresh(index, lambda: sources_of(data))
    revert(data, {"messageID": "m2", "partID": "m2_p2"}, T0 + 11)
    sync_dir(index, data)
    assert rows(index, MESSAGES) == [("m1", 0), ("m2", 0), ("m3", 1)]
    assert_equals_fresh(index, lambda: sources_of(data))
    revert(data, None, T0 + 12)
    sync_dir(index, data)
    assert rows(index, MESSAGES) == [("m1", 0), ("m2", 0), ("m3", 0)]
    assert set(rows(index, "SELECT reverted FROM parts")) == {0}
    assert_equals_fresh(index, lambda: sources_of(data))


UNDONE_PARTS = [
    ("text", 0, "Standing"),
    *[("tool", 0, "edit"), ("input", 0, "/home/dev/app/a.ts"), ("output", 0, "edited a.ts")],
    ("text", 1, "Undone"),
    *[("tool", 1, "edit"), ("input", 1, "/home/dev/app/b.ts"), ("output", 1, "edited b.ts")],
    *[("tool", 1, "edit"), ("input", 1, "/home/dev/app/a.ts"), ("output", 1, "edited a.ts")],
]


def test_a_part_from_which_on_a_message_is_undone(data: Path, tmp_path: Path) -> None:
    revert(data, {"messageID": "m2", "partID": "m2_p2"}, T0 + 10)
    index = sync_dir(tmp_path / "history.db", data)
    assert rows(index, PARTS) == UNDONE_PARTS
    # a.ts was edited before and after: the first edit stands.
    assert rows(index, EDITS) == [
        ("/home/dev/app/a.ts", 0), ("/home/dev/app/b.ts", 1), ("/home/dev/app/c.ts", 1),
    ]  # fmt: skip
    assert rows(index, "SELECT message_id, reverted FROM tool_calls ORDER BY 1, 2") == [
        ("m2", 0), ("m2", 1), ("m2", 1), ("m3", 1),
    ]  # fmt: skip


def test_a_json_store_says_the_same(tmp_path: Path) -> None:
    store = JsonStore(tmp_path / "data")
    store.session("ses", "Try it", revert={"messageID": "m2", "partID": "m2_p2"})
    fill(store)
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    assert rows(index, PARTS) == UNDONE_PARTS
    assert rows(index, MESSAGES) == [("m1", 0), ("m2", 0), ("m3", 1)]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        pytest.param("m2_p0", [("m1", 0), ("m2", 1), ("m3", 1)], id="first-part"),
        pytest.param("prt_gone", [("m1", 0), ("m2", 0), ("m3", 1)], id="a-part-that-is-gone"),
    ],
)
def test_parts_at_the_ends(data: Path, tmp_path: Path, part: str, expected: list[Any]) -> None:
    revert(data, {"messageID": "m2", "partID": part}, T0 + 10)
    index = sync_dir(tmp_path / "history.db", data)
    assert rows(index, MESSAGES) == expected
    # Read again for another reason, it stays as it is.
    with Database(data / "opencode.db") as db:
        db.conn.execute("UPDATE session SET title = 'Renamed', time_updated = ?", (T0 + 20,))
    sync_dir(index, data)
    assert rows(index, MESSAGES) == expected


def test_a_revert_to_a_message_that_is_gone_undoes_nothing(data: Path, tmp_path: Path) -> None:
    revert(data, {"messageID": "msg_gone"}, T0 + 10)
    index = sync_dir(tmp_path / "history.db", data)
    assert {mark for _, mark in rows(index, MESSAGES)} == {0}


def test_undone_messages_and_edits_are_found_and_labelled(data: Path, tmp_path: Path) -> None:
    revert(data, {"messageID": "m2"}, T0 + 10)
    index = sync_dir(tmp_path / "history.db", data)

    def ask(name: str, **inputs: Any) -> tuple[dict[str, Any], str]:
        with opened(index) as conn:
            answer = call(conn, name, inputs, CONTEXT)
        return as_json(answer, lambda _session_id, _message_id: None), as_text(answer)

    found, text = ask("search-messages", query="standing")
    assert found["sessions"][0]["hits"][0]["reverted"] is True
    assert "[reverted]" in text
    edits, text = ask("search-edits", query="path:c.ts")
    assert [e["reverted"] for e in edits["edits"]] == [True]
    assert "reverted]" in text
    page, text = ask("read", sessionID="ses")
    assert [m.get("reverted") for m in page["messages"]] == [None, True, True]
    assert text.count("[reverted]") == 2
