"""Layouts, told by tables and columns alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sync.errors import UnknownLayout
from sync.sources.layout import detect, tables_of
from tests.opencode_stores import LAYOUTS, Database


@pytest.mark.parametrize(
    ("layouts", "sessions", "mirrors"),
    [
        (["1.2"], ("session",), False),
        (["1.18"], ("session",), False),
        (["1.18", "mirror"], ("session",), True),
        (["1.18", "2"], ("session_v2", "session"), False),
        (["2"], ("session_v2",), False),
        (["preview"], ("session",), False),
        (["1.18", "secrets"], ("session",), False),
    ],
)
def test_every_known_layout_is_recognised(
    tmp_path: Path, layouts: list[str], sessions: tuple[str, ...], mirrors: bool
) -> None:
    with Database(tmp_path / "opencode.db", *layouts) as database:
        layout = detect(tables_of(database.conn))
    assert (layout.session_tables, layout.mirrors_v1) == (sessions, mirrors)


def test_tables_with_credentials_or_events_are_no_part_of_a_layout(tmp_path: Path) -> None:
    with Database(tmp_path / "opencode.db", "1.18", "2", "secrets") as database:
        tables = tables_of(database.conn)
    assert {"account", "credential", "event", "event_sequence"} <= set(tables)
    assert set(detect(tables).tables) == {
        "session_v2", "session", "message", "part", "session_message", "session_input", "todo",
        "project",
    }  # fmt: skip


def test_missing_columns_are_null_and_tables_without_their_keys_are_left_out() -> None:
    layout = detect({"session": frozenset({"id", "title"}), "message": frozenset({"id", "text"})})
    assert layout.column("session", "title", "s.") == "s.title"
    assert layout.column("session", "agent", "s.") == "NULL"
    assert not layout.has("message")


@pytest.mark.parametrize(
    ("tables", "found"),
    [
        ({}, "no tables at all"),
        ({"notes": frozenset({"id"}), "cache": frozenset({"x"})}, "it holds cache, notes"),
        ({"session": frozenset({"key"})}, "it holds session"),
    ],
)
def test_an_unknown_layout_says_what_was_found(
    tables: dict[str, frozenset[str]], found: str
) -> None:
    with pytest.raises(UnknownLayout, match=re.escape(found)):
        detect(tables)


def test_the_stores_of_the_tests_cover_all_layouts() -> None:
    assert set(LAYOUTS) == {"1.2", "1.18", "2", "preview", "mirror", "secrets"}
