"""Indexes on disk, the tools over them, and Datasette around them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from datasette_history.render import as_json
from datasette_history.tools import Context, call
from sync.model import SessionCopy
from tests.builders import T0, fill

NOW = datetime.fromtimestamp(T0 / 1000, UTC)


class History:
    """An index and the four tools over it, called as an agent would.

    Rare 0 makes every word common, so that both plans of a search are tested.
    """

    def __init__(self, conn: sqlite3.Connection, rare: int) -> None:
        self.conn = conn
        self.context = Context(now=NOW, home="/home/dev", rare=rare)

    def json(self, tool: str, context: Context | None = None, **inputs: Any) -> dict[str, Any]:
        answer = call(self.conn, tool, inputs, context or self.context)
        return as_json(answer, lambda session, message: f"/{session}#{message or ''}")

    def found(self, query: str, **inputs: Any) -> list[str]:
        """Ids of the sessions that match, in order; both searches must agree on them."""
        listed = self.json("search-sessions", query=query, **inputs)["sessions"]
        hit = self.json("search-messages", query=query, **inputs)["sessions"]
        ids = [session["sessionID"] for session in listed]
        assert [session["sessionID"] for session in hit] == ids
        return ids

    def sessions(self, **inputs: Any) -> list[str]:
        """Ids of the sessions that search-sessions lists, in order."""
        return [s["sessionID"] for s in self.json("search-sessions", **inputs)["sessions"]]

    def hits(self, query: str, **inputs: Any) -> dict[str, dict[str, tuple[str | None, str]]]:
        """By session and word: message id and role of the hit."""
        return {
            s["sessionID"]: {hit["word"]: (hit["messageID"], hit["role"]) for hit in s["hits"]}
            for s in self.json("search-messages", query=query, **inputs)["sessions"]
        }

    def edits(self, query: str = "", **inputs: Any) -> list[tuple[str, str]]:
        """Message id and path of each edit, in order."""
        found = self.json("search-edits", query=query, **inputs)["edits"]
        return [(edit["messageID"], edit["path"]) for edit in found]


@pytest.fixture(params=[0, 3_000], ids=["common-words", "rare-words"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., History]]:
    """Make an index of sessions and return the tools over it."""
    opened: list[sqlite3.Connection] = []

    def make(*copies: SessionCopy) -> History:
        conn = sqlite3.connect(fill(tmp_path / "history.db", *copies))
        opened.append(conn)
        return History(conn, request.param)

    yield make
    for conn in opened:
        conn.close()
