"""A compaction's summary is of its own kind, hides nothing and masks nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from datasette_history.render import as_json
from datasette_history.tools import Context, call
from tests.builders import MINUTE, T0
from tests.opencode_stores import Database, tool, v2_tool
from tests.truth.syncing import opened, rows, sync_dir

CONTEXT = Context(now=datetime(2026, 12, 2, tzinfo=UTC))


def v1(path: Path) -> None:
    with Database(path, "1.18") as db:
        db.session("ses", "Long one")
        cleared = tool("bash", input={"command": "make"}, output="gasket broken",
                       time={"start": T0, "end": T0 + 1, "compacted": T0 + 9})  # fmt: skip
        db.message("m1", "ses", "user", "Replace the gasket", at=T0)
        db.message("m2", "ses", "assistant", cleared, at=T0 + MINUTE)
        db.message("m3", "ses", "user", {"type": "compaction", "auto": True}, at=T0 + 2 * MINUTE)
        db.message("m4", "ses", "assistant", "The gasket and the valve were replaced",
                   at=T0 + 3 * MINUTE, summary=True, mode="compaction")  # fmt: skip
        db.message("m5", "ses", "user", "Now the valve", at=T0 + 24 * 60 * MINUTE)


def v2(path: Path) -> None:
    with Database(path, "2") as db:
        db.session("ses", "Long one", table="session_v2")
        call_ = v2_tool("bash", input={"command": "make"},
                        content=[{"type": "text", "text": "gasket broken"}])  # fmt: skip
        db.v2("m1", "ses", "user", 1, at=T0, text="Replace the gasket")
        db.v2("m2", "ses", "assistant", 2, at=T0 + MINUTE, content=[call_])
        db.v2("m4", "ses", "compaction", 3, at=T0 + 3 * MINUTE, reason="auto", recent="gasket",
              summary="The gasket and the valve were replaced")  # fmt: skip
        db.v2("m5", "ses", "user", 4, at=T0 + 24 * 60 * MINUTE, text="Now the valve")


@pytest.fixture(params=[v1, v2])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    request.param(tmp_path / "data/opencode.db")
    return sync_dir(tmp_path / "history.db", tmp_path / "data")


def first(index: Path, query: str, **inputs: Any) -> tuple[str, str]:
    with opened(index) as conn:
        answer = call(conn, "search-messages", {"query": query, **inputs}, CONTEXT)
    [session] = as_json(answer, lambda _session_id, _message_id: None)["sessions"]
    return session["hits"][0]["messageID"], session["hits"][0]["excerpt"]


def test_a_summary_has_its_own_kind(index: Path) -> None:
    kinds = (
        "SELECT DISTINCT d.message_id FROM parts p JOIN documents d ON d.id = p.document_id "
        "WHERE p.kind = 'summary'"
    )
    assert rows(index, kinds) == ["m4"]


def test_what_came_before_is_found_where_it_was_said(index: Path) -> None:
    assert first(index, "gasket") == ("m1", "Replace the gasket")
    assert first(index, '"gasket broken"')[0] == "m2"


def test_a_summary_does_not_mask_what_was_said_later(index: Path) -> None:
    # The summary comes first, and still the message is what a person means.
    assert first(index, "valve") == ("m5", "Now the valve")


def test_a_summary_is_found_where_nothing_else_says_it(index: Path) -> None:
    assert first(index, "replaced")[0] == "m4"
    assert first(index, "valve", date="2026-12-01", timezone="UTC")[0] == "m4"
