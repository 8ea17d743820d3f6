"""The tools as data: their inputs, schemas and limits."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from datasette_history.errors import IndexMismatch, InvalidInput, InvalidQuery
from datasette_history.render import as_json
from datasette_history.tools import TOOLS, Context, call, snapshot
from sync.index import Index
from tests.builders import MINUTE, T0, assistant, copy, fill, session, user
from tests.reader.conftest import NOW, History

Make = Callable[..., History]
SEARCHES = ("search-messages", "search-sessions", "search-edits")


@pytest.fixture
def found(history: Make) -> History:
    return history(copy(session("a", "alpha"), user("m1", "beta")))


def test_the_tools_are_the_four_of_the_contract() -> None:
    assert list(TOOLS) == ["search-messages", "search-sessions", "search-edits", "read"]
    assert [TOOLS[name].parameters for name in TOOLS] == [t.parameters for t in TOOLS.values()]


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_has_a_json_schema_that_refuses_unknown_inputs(name: str) -> None:
    schema = TOOLS[name].input_schema()
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == [p.name for p in TOOLS[name].parameters]
    assert all(p["description"] and p["type"] for p in schema["properties"].values())
    assert json.loads(json.dumps(schema)) == schema


def test_schemas_say_what_is_required() -> None:
    required = {name: tool.input_schema()["required"] for name, tool in TOOLS.items()}
    assert required == {
        "search-messages": ["query"],
        "search-sessions": [],
        "search-edits": [],
        "read": ["sessionID"],
    }
    assert TOOLS["read"].input_schema(default_session=True)["required"] == []


@pytest.mark.parametrize("name", SEARCHES)
def test_the_description_teaches_the_query_syntax(name: str) -> None:
    for piece in ('"quoted phrases"', "-word", "path:", "project:", "No OR"):
        assert piece in TOOLS[name].description


@pytest.mark.parametrize("name", TOOLS)
def test_every_unknown_input_is_named(found: History, name: str) -> None:
    given = {"query": "alpha"} if name == "search-messages" else {}
    with pytest.raises(InvalidInput) as caught:
        found.json(name, **given, limits=1, zzz=2)
    first, second = caught.value.messages
    assert first == "unknown input 'limits'; did you mean limit?"
    assert second.startswith(f"unknown input 'zzz'; {name} takes ")


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("search-messages", {}, "query is required by search-messages"),
        ("search-messages", {"query": ""}, "query is empty"),
        ("search-messages", {"query": "-alpha"}, "needs a word or phrase"),
        ("search-messages", {"query": "path:a.ts"}, "needs a word or phrase"),
        ("search-messages", {"query": 5}, "query must be a text, not 5"),
        ("search-messages", {"query": None}, "query must be a text, not null"),
        ("search-sessions", {"query": ["a"]}, "query must be a text"),
        ("search-sessions", {"limit": "5"}, "limit must be a whole number, not '5'"),
        ("search-sessions", {"limit": True}, "limit must be a whole number, not true"),
        ("search-sessions", {"limit": 2.5}, "limit must be a whole number, not 2.5"),
        ("search-sessions", {"limit": float("nan")}, "limit must be a whole number, not NaN"),
        ("search-sessions", {"limit": 0}, "limit must be 1 or more, not 0"),
        ("search-sessions", {"limit": -1}, "limit must be 1 or more, not -1"),
        ("search-sessions", {"role": "shell"}, "role must be user or assistant, not 'shell'"),
        ("search-sessions", {"role": ""}, "role must be user or assistant, not ''"),
        ("search-sessions", {"show": "all"}, "show must be sessions or projects"),
        ("search-sessions", {"date": "someday"}, "date 'someday' is not understood"),
        ("search-sessions", {"date": " "}, "date is empty"),
        ("search-sessions", {"project": ""}, "project is empty"),
        ("search-sessions", {"timezone": "Nowhere"}, "timezone 'Nowhere' is not known"),
        ("search-edits", {"date": "2026-02-30"}, "no calendar has 2026-02-30"),
        ("search-edits", {"show": "projects"}, "unknown input 'show'"),
        ("search-edits", {"query": '"open'}, "unclosed quote"),
        ("search-edits", {"project": "x" * 4001}, "project has 4001 characters"),
    ],
)
def test_a_wrong_input_is_an_error_that_names_it(
    found: History, name: str, inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        found.json(name, **inputs)
    assert message in str(caught.value)


def test_all_wrong_inputs_are_named_at_once(found: History) -> None:
    with pytest.raises(InvalidInput) as caught:
        found.json("search-messages", limit=0, role="x", more=1)
    assert len(caught.value.messages) == 4


def test_texts_of_a_url_become_numbers_and_truth_values(found: History) -> None:
    def read(**inputs: str) -> dict[str, Any]:
        answer = call(found.conn, "read", {"sessionID": "a", **inputs}, found.context, as_text=True)
        return as_json(answer, lambda *_: None)

    assert read(limit="1", includeToolResults="true")["messages"][0]["messageID"] == "m1"
    assert read(limit="200")["cappedFrom"] == 200
    for name, value in (("limit", "1.5"), ("limit", "x"), ("limit", ""), ("limit", "9" * 20)):
        with pytest.raises(InvalidInput, match=f"{name} must be a whole number, not '{value}'"):
            read(**{name: value})
    for value in ("yes", "", "2"):
        with pytest.raises(InvalidInput, match="includeToolResults must be true or false"):
            read(includeToolResults=value)


def test_whole_floats_are_whole_numbers_as_in_json(found: History) -> None:
    assert found.json("search-sessions", limit=1.0)["hasMore"] is False


@pytest.mark.parametrize(
    ("name", "cap", "default"),
    [("search-messages", 50, 50), ("search-sessions", 50, 20), ("search-edits", 50, 50)],
)
def test_results_are_limited_and_a_limit_over_the_cap_is_capped(
    history: Make, name: str, cap: int, default: int
) -> None:
    found = history(
        *(
            copy(session(f"s{n}", "alpha", at=T0 + n), assistant("m", edits=["/x"], at=T0 + n))
            for n in range(60)
        )
    )

    def count(**inputs: Any) -> tuple[int, bool, int | None]:
        answer = found.json(name, query="alpha", **inputs)
        items = answer["edits" if name == "search-edits" else "sessions"]
        return len(items), answer["hasMore"], answer.get("cappedFrom")

    assert count() == (default, True, None)
    assert count(limit=cap) == (cap, True, None)
    assert count(limit=cap + 1) == (cap, True, cap + 1)
    assert count(limit=10**12) == (cap, True, 10**12)


def test_today_is_the_callers_day(found: History) -> None:
    # T0 is 01:00 on the first of December in UTC, and still November in New York.
    new_york = datetime.fromtimestamp(T0 / 1000, ZoneInfo("America/New_York"))
    context = replace(found.context, now=new_york)
    assert len(found.json("search-sessions", context, date="2026-11-30")["sessions"]) == 1
    assert found.json("search-sessions", context, date="2026-12-01")["sessions"] == []
    inputs = {"date": "2026-12-01", "timezone": "UTC"}
    assert len(found.json("search-sessions", context, **inputs)["sessions"]) == 1


def test_a_search_sees_one_state_of_the_index_and_leaves_no_transaction(
    found: History, tmp_path: Path
) -> None:
    with snapshot(found.conn):
        before = found.conn.execute("SELECT count(*) FROM sessions").fetchone()
        fill(tmp_path / "history.db", copy(session("b")))
        assert found.conn.execute("SELECT count(*) FROM sessions").fetchone() == before
    assert found.conn.in_transaction is False
    assert len(found.json("search-sessions")["sessions"]) == 2
    with pytest.raises(InvalidQuery):
        found.json("search-sessions", query="ab")
    assert found.conn.in_transaction is False


def test_an_index_of_another_version_is_refused_with_the_command_that_rebuilds_it(
    found: History,
) -> None:
    found.conn.execute("PRAGMA user_version = 999")
    with pytest.raises(IndexMismatch, match="run `opencode-history rebuild`"):
        found.json("search-sessions")


def test_a_database_that_is_no_index_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn:
        conn.execute("CREATE TABLE t (x)")
        with pytest.raises(IndexMismatch, match="is not an index of OpenCode history"):
            call(conn, "search-sessions", {}, Context(now=NOW))


def test_answers_say_when_a_backfill_has_not_finished(found: History, tmp_path: Path) -> None:
    now = T0 + MINUTE
    context = replace(found.context, now=datetime.fromtimestamp(now / 1000, ZoneInfo("UTC")))

    def indexing() -> Any:
        return found.json("search-sessions", context).get("indexing")

    assert indexing() is None
    with Index.open(tmp_path / "history.db") as index:
        with index.transaction():
            sync = index.begin_sync(pid=1, now_ms=now - 59_000)
            index.update_sync(sync, now_ms=now - 59_000, planned=10, done=4)
        assert indexing() == {
            "running": True, "everCompleted": True, "planned": 10, "done": 4,
            "note": "a sync is still running (4 of 10 sessions): there may be more than is shown",
        }  # fmt: skip
        # Not heard of for a minute: it was killed, and the last complete sync counts.
        context = replace(context, now=datetime.fromtimestamp((now + 1000) / 1000, ZoneInfo("UTC")))
        assert indexing() is None
        with index.transaction():
            index.conn.execute("UPDATE syncs SET finished = NULL")
        assert indexing() == {
            "running": False, "everCompleted": False, "planned": 10, "done": 4,
            "note": "the index was never filled completely: run `opencode-history sync`",
        }  # fmt: skip
        with index.transaction():
            index.conn.execute("DELETE FROM syncs")
        assert indexing()["everCompleted"] is False
