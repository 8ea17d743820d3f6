"""Forks do not fill the page with what their origin says; subagents stand behind their root."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from datasette_history.render import as_json
from datasette_history.text import as_text
from datasette_history.tools import Context, call
from tests.builders import MINUTE, T0, assistant, copy, fill, session, tool, user

CONTEXT = Context(now=datetime(2026, 12, 2, tzinfo=UTC))
FORKS = [f"fork{number}" for number in range(8)]


def said(prefix: str, *more: Any) -> list[Any]:
    return [
        user(f"{prefix}1", "Why is the parser slow?", at=T0),
        assistant(
            f"{prefix}2",
            "It allocates.",
            tool("edit", newString="arena"),
            at=T0 + 1000,
            edits=["/home/dev/app/parse.c"],
        ),
        *more,
    ]


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An origin, eight forks of which the last goes on by itself, and a fork of that one."""
    path = tmp_path / "history.db"
    fill(path, copy(session("origin", "Parser", at=T0), *said("o")))
    for number, name in enumerate(FORKS):
        at = T0 + (10 + number) * MINUTE
        more = [user(f"{name}3", "Try a zipper instead", at=at)] if number == 7 else []
        fill(path, copy(session(name, f"Parser (fork #{number + 1})", at=at), *said(name, *more)))
    at = T0 + 60 * MINUTE
    zipper = user("again3", "Try a zipper instead", at=T0 + 17 * MINUTE)
    fill(path, copy(session("again", "Parser (fork #9)", at=at), *said("again", zipper)))
    with closing(sqlite3.connect(path)) as opened:
        yield opened


def ask(conn: sqlite3.Connection, tool_name: str, **inputs: Any) -> dict[str, Any]:
    answer = call(conn, tool_name, {"project": "all", **inputs}, CONTEXT)
    return as_json(answer, lambda session_id, message_id: f"/{session_id}#{message_id or ''}")


def listed(found: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [(s["sessionID"], s.get("forks", [])) for s in found["sessions"]]


@pytest.mark.parametrize("tool_name", ["search-messages", "search-sessions"])
@pytest.mark.parametrize("query", ["allocates", "slow arena", "PARSER", "slow path:parse.c"])
def test_what_the_origin_said_is_found_once(
    conn: sqlite3.Connection, tool_name: str, query: str
) -> None:
    found = ask(conn, tool_name, query=query)
    assert listed(found) == [("origin", ["again", *FORKS])]
    assert found["hasMore"] is False


def test_a_fork_is_listed_for_what_it_says_itself(conn: sqlite3.Connection) -> None:
    assert listed(ask(conn, "search-messages", query="zipper")) == [("fork7", ["again"])]
    found = listed(ask(conn, "search-messages", query="zipper allocates"))
    assert found == [("fork7", ["again"])]


def test_a_fork_is_listed_where_its_origin_is_not(conn: sqlite3.Connection) -> None:
    conn.execute("UPDATE sessions SET project_id = 'elsewhere' WHERE id = 'origin'")
    found = ask(conn, "search-messages", query="allocates", project="prj")
    assert [s["sessionID"] for s in found["sessions"]] == ["again", *reversed(FORKS)]
    conn.execute("UPDATE sessions SET project_id = 'prj' WHERE id = 'origin'")
    without = ask(conn, "search-messages", query="allocates -zipper")
    assert listed(without) == [("origin", FORKS[:7])]


def test_recent_sessions_list_forks_one_by_one(conn: sqlite3.Connection) -> None:
    found = ask(conn, "search-sessions", query="")
    assert [s["sessionID"] for s in found["sessions"]] == ["again", *reversed(FORKS), "origin"]


def test_a_renamed_fork_is_found_by_its_own_title(conn: sqlite3.Connection) -> None:
    conn.execute("UPDATE sessions SET title = 'Slow parser' WHERE id = 'fork3'")
    found = listed(ask(conn, "search-sessions", query="parser"))
    assert [name for name, _ in found] == ["fork3", "origin"]


def test_an_edit_that_forks_copied_is_listed_once(conn: sqlite3.Connection) -> None:
    found = ask(conn, "search-edits", query="path:parse.c")
    assert [(e["sessionID"], e["firstEdit"]) for e in found["edits"]] == [("origin", True)]
    assert [e["sessionID"] for e in ask(conn, "search-edits", query="")["edits"]] == ["origin"]
    alone = ask(conn, "search-edits", query="zipper")
    assert [(e["sessionID"], e["copied"]) for e in alone["edits"]] == [
        ("again", True), ("fork7", True),
    ]  # fmt: skip


def test_a_circle_of_forks_hides_nobody(conn: sqlite3.Connection) -> None:
    conn.execute("UPDATE sessions SET forked_from = 'again' WHERE id = 'origin'")
    found = ask(conn, "search-sessions", query="parser")
    assert len(found["sessions"]) == 10


def test_the_text_says_how_many_forks_stand_behind(conn: sqlite3.Connection) -> None:
    answer = call(conn, "search-messages", {"query": "slow", "project": "all"}, CONTEXT)
    assert "found alike in 9 forks" in as_text(answer)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A root that matches, one that does not, each with subagents, and a circle of parents."""

    def one(name: str, title: str, minute: int, words: str, parent: str | None = None) -> Any:
        at = T0 + minute * MINUTE
        return copy(session(name, title, at=at, parent_id=parent), user(f"{name}_m", words, at=at))

    path = fill(
        tmp_path / "history.db",
        one("root", "Rewrite", 50, "Look for the needle"),
        one("child", "Explore", 10, "needle here", "root"),
        one("grandchild", "Explore more", 11, "needle there", "child"),
        one("quiet", "Plan", 40, "Nothing to see"),
        one("agent1", "Agent", 20, "a needle", "quiet"),
        one("agent2", "Agent", 30, "the needle", "quiet"),
        one("agent3", "Agent", 31, "hay", "quiet"),
        one("a", "Circle", 5, "needle one", "b"),
        one("b", "Circle", 6, "needle two", "a"),
    )
    with closing(sqlite3.connect(path)) as opened:
        yield opened


def test_every_hit_in_a_subagent_names_its_root(family: sqlite3.Connection) -> None:
    found = ask(family, "search-messages", query="needle")
    assert [(s["sessionID"], s.get("rootSessionID")) for s in found["sessions"]] == [
        ("root", None), ("agent2", "quiet"), ("agent1", "quiet"), ("grandchild", "root"),
        ("child", "root"), ("b", None), ("a", None),
    ]  # fmt: skip


@pytest.mark.parametrize("tool_name", ["search-messages", "search-sessions"])
def test_subagents_fold_into_their_roots(family: sqlite3.Connection, tool_name: str) -> None:
    found = ask(family, tool_name, query="needle", foldSubagents=True)
    groups = [(s["sessionID"], s.get("subagents")) for s in found["sessions"]]
    assert groups[:2] == [("root", ["child", "grandchild"]), ("quiet", ["agent1", "agent2"])]
    assert [name for name, _ in groups[2:]] in (["a"], ["b"], ["b", "a"], ["a", "b"])
    assert found["hasMore"] is False


def test_a_root_shows_the_hit_of_its_subagent(family: sqlite3.Connection) -> None:
    found = ask(family, "search-messages", query="needle", foldSubagents=True)
    root, quiet = found["sessions"][:2]
    assert [(h["messageID"], h.get("sessionID"), h["url"]) for h in root["hits"]] == [
        ("root_m", None, "/root#root_m")
    ]
    assert [(h["messageID"], h.get("sessionID"), h["url"]) for h in quiet["hits"]] == [
        ("agent2_m", "agent2", "/agent2#agent2_m")
    ]
    answer = call(
        family, "search-messages", {"query": "needle", "project": "all", "foldSubagents": True},
        CONTEXT,
    )  # fmt: skip
    assert "agent2_m user of subagent agent2" in as_text(answer)
