"""Every session of the recorded histories is found by what was said and done in it.

What to look for is read from the stores here by plain means, not by the code under test.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from datasette_history.tools import Context, call
from sync.cli import cli

SETS = {"1.1.53": 44, "1.18.33": 44, "1.18.33-v2": 35, "mixed": 70}
CONTEXT = Context(now=datetime(2026, 12, 1, tzinfo=UTC))

Found = dict[str, dict[str, list[str]]]
"""Session id to kind (text, input, output) to the strings of that kind."""


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def note_part(found: Found, session_id: str, part: dict[str, Any]) -> None:
    kinds = found[session_id]
    if part["type"] in ("text", "reasoning") and isinstance(part.get("text"), str):
        kinds["text"].append(part["text"])
    elif part["type"] == "tool":
        state = part["state"]
        kinds["input"] += strings(state.get("input"))
        kinds["output"] += [
            text for text in (state.get("output"), state.get("error")) if isinstance(text, str)
        ]


def note_v2_message(found: Found, session_id: str, data: dict[str, Any]) -> None:
    kinds = found[session_id]
    kinds["text"] += [t for t in (data.get("text"), data.get("summary")) if isinstance(t, str)]
    for item in data.get("content", []):
        if item["type"] in ("text", "reasoning"):
            kinds["text"].append(item["text"])
        elif item["type"] == "tool":
            kinds["input"] += strings(item["state"].get("input"))
            kinds["output"] += [c["text"] for c in item["state"].get("content", []) if "text" in c]


def from_database(found: Found, path: Path) -> set[str]:
    conn = sqlite3.connect(path)
    ids = {row[0] for row in conn.execute("SELECT id FROM session")}
    for session_id, data in conn.execute("SELECT session_id, data FROM part"):
        note_part(found, session_id, json.loads(data))
    for session_id, data in conn.execute("SELECT session_id, data FROM session_message"):
        note_v2_message(found, session_id, json.loads(data))
    for session_id, prompt in conn.execute(
        "SELECT session_id, prompt FROM session_input WHERE promoted_seq IS NULL"
    ):
        found[session_id]["text"].append(json.loads(prompt)["text"])
    conn.close()
    return ids


def from_files(found: Found, storage: Path, without: set[str]) -> set[str]:
    ids = {p.stem for p in storage.glob("session/*/*.json")} - without
    for session_id in ids:
        for message in (storage / "message" / session_id).glob("*.json"):
            for part in (storage / "part" / message.stem).glob("*.json"):
                note_part(found, session_id, json.loads(part.read_text(encoding="utf-8")))
    return ids


def phrase(text: str) -> str | None:
    """The first stretch of text that a quoted phrase can hold, long enough to be telling."""
    pieces = [piece.strip() for line in text.splitlines() for piece in line.split('"')]
    return next((piece[:60].strip() for piece in pieces if len(piece) >= 5), None)


@pytest.fixture(scope="module", params=[*SETS, "all"])
def synced(
    request: pytest.FixtureRequest, samples: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Found, set[str]]:
    """The index of one set, or of all at once, and what the stores hold."""
    folder = tmp_path_factory.mktemp("history")
    names = [*SETS] if request.param == "all" else [request.param]
    found: Found = defaultdict(lambda: defaultdict(list))
    ids: set[str] = set()
    arguments = ["sync", "--index", str(folder / "history.db")]
    for name in names:
        data = folder / name
        shutil.copytree(samples / name / "data", data)
        here: set[str] = set()
        if (data / "opencode.db").exists():
            here |= from_database(found, data / "opencode.db")
        if (data / "storage" / "session").exists():
            here |= from_files(found, data / "storage", here)
        assert len(here) == SETS[name]
        ids |= here
        arguments += ["--data-dir", str(data)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return folder / "history.db", found, ids


def test_every_session_is_indexed_once(synced: tuple[Path, Found, set[str]]) -> None:
    index, _found, ids = synced
    conn = sqlite3.connect(index)
    indexed = [row[0] for row in conn.execute("SELECT id FROM sessions")]
    conn.close()
    assert len(indexed) == len(set(indexed))
    assert set(indexed) == ids


@pytest.mark.parametrize("kind", ["text", "input", "output"])
def test_every_session_is_found_by_what_it_holds(
    synced: tuple[Path, Found, set[str]], kind: str
) -> None:
    index, found, _ids = synced
    conn = sqlite3.connect(index)
    looked_for = 0
    missed = []
    for session_id, kinds in found.items():
        phrases = {p for p in map(phrase, kinds[kind]) if p is not None}
        for words in sorted(phrases)[:6]:
            looked_for += 1
            scope = CONTEXT
            row = conn.execute(
                "SELECT count(*) FROM documents_fts JOIN documents d ON d.id = documents_fts.rowid "
                "WHERE documents_fts MATCH ? AND d.session_id = ?",
                (f'"{words}"', session_id),
            ).fetchone()
            inputs = {"query": f'"{words}"', "project": "all"}
            sessions = call(conn, "search-messages", inputs, scope).result.sessions  # type: ignore[union-attr]
            # A fork stands behind the origin of what it copied.
            ids = [i for hit in sessions for i in (hit.session.id, *hit.session.forks)]
            # Words that fill the page are in more sessions than it shows.
            if not row[0] or (session_id not in ids and len(ids) < 50):
                missed.append((session_id, words))
    conn.close()
    assert missed == []
    assert looked_for > 20


def test_the_full_text_index_agrees_with_the_documents(
    synced: tuple[Path, Found, set[str]],
) -> None:
    conn = sqlite3.connect(synced[0], isolation_level=None)
    conn.execute("INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)")
    assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    conn.close()
