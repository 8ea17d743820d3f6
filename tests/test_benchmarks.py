"""The generated histories that the benchmarks measure: what they promise to hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import corpus, floors, fts_parts, growth, results
from benchmarks.corpus import Manifest
from benchmarks.history import DECOYS, MAX_OUTPUT, NEEDLES, SIZES, Call, History
from sync.hookspecs import SyncConfig
from sync.model import Message, SessionRef, Source
from sync.plugins import make_plugin_manager, probe_sources

TEXT_TABLES = {
    "v1": ("session", "message", "part", "todo"),
    "v2": ("session_v2", "session_message"),
}


@pytest.fixture(scope="module", params=["v1", "v2"])
def generated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp(f"corpus-{request.param}")
    return folder, corpus.write(folder, "XS", request.param)


@pytest.fixture(scope="module")
def texts(generated: tuple[Path, Manifest]) -> dict[str, str]:
    return dict(read_texts(generated[0] / "opencode.db"))


def rows(database: Path, layout: str) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(database)) as conn:
        return {
            table: conn.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in TEXT_TABLES[layout]
        }


def source(database: Path) -> Source:
    config = SyncConfig(databases=(database,), explicit=True)
    (found,) = [
        probe.source
        for probe in probe_sources(make_plugin_manager(), config)
        if probe.source is not None
    ]
    return found


def read_texts(database: Path) -> Iterator[tuple[str, str]]:
    """Yield each session's id and all of its text, as the real source reads it."""
    opened = source(database)
    try:
        for ref in list(opened.sessions()):
            assert isinstance(ref, SessionRef)
            copy = opened.read(ref.id, {})
            assert copy is not None
            messages = [m for m in copy.messages if isinstance(m, Message)]
            yield ref.id, "\n".join(part.text for m in messages for part in m.parts)
    finally:
        opened.close()


def test_equal_seeds_give_equal_rows(generated: tuple[Path, Manifest], tmp_path: Path) -> None:
    folder, manifest = generated
    again = corpus.write(tmp_path, "XS", manifest.layout)
    assert again == manifest
    assert rows(tmp_path / "opencode.db", manifest.layout) == rows(
        folder / "opencode.db", manifest.layout
    )


def test_another_seed_gives_another_history(
    generated: tuple[Path, Manifest], tmp_path: Path
) -> None:
    folder, manifest = generated
    other = corpus.write(tmp_path, "XS", manifest.layout, seed=8)
    assert other.text_bytes != manifest.text_bytes
    assert rows(tmp_path / "opencode.db", manifest.layout) != rows(
        folder / "opencode.db", manifest.layout
    )


def test_the_manifest_can_be_read_again(generated: tuple[Path, Manifest]) -> None:
    folder, manifest = generated
    loaded = Manifest.load(folder)
    assert loaded.sessions == manifest.sessions == SIZES["XS"].sessions
    assert loaded.text_bytes == manifest.text_bytes
    assert {name: tuple(found) for name, found in loaded.needles.items()} == {
        name: (needle.text, manifest.needles[name][1]) for name, needle in NEEDLES.items()
    }


def test_the_source_reads_every_session_and_finds_needles_where_they_should_be(
    generated: tuple[Path, Manifest], texts: dict[str, str]
) -> None:
    _, manifest = generated
    assert len(texts) == manifest.sessions
    found = {
        name: {session for session, text in texts.items() if needle in text.casefold()}
        for name, (needle, _) in manifest.needles.items()
    }
    assert found == {name: set(sessions) for name, (_, sessions) in manifest.needles.items()}
    assert {name: len(sessions) for name, sessions in found.items()} == {
        "one": 1, "percent": 1, "half": 60, "phrase": 1, "phrase_tenth": 12,
        "absent": 0, "absent_usual": 0,
    }  # fmt: skip


def test_the_words_of_the_phrase_stand_apart_in_other_sessions(texts: dict[str, str]) -> None:
    for decoy in DECOYS:
        assert sum(decoy in text for text in texts.values()) == 24


def test_the_long_sessions_have_the_promised_number_of_messages(
    generated: tuple[Path, Manifest],
) -> None:
    folder, manifest = generated
    table = "message" if manifest.layout == "v1" else "session_message"
    with closing(sqlite3.connect(folder / "opencode.db")) as conn:
        counts = dict(
            conn.execute(f"SELECT session_id, count(*) FROM {table} GROUP BY 1").fetchall()
        )
    assert sum(counts.values()) == manifest.messages
    assert counts[manifest.long] == SIZES["XS"].long_messages
    assert counts[manifest.longest] == SIZES["XS"].longest_messages
    assert max(counts.values()) == SIZES["XS"].longest_messages


def test_the_source_sees_as_much_text_as_was_generated(
    generated: tuple[Path, Manifest],
) -> None:
    folder, manifest = generated
    read = sum(
        len(part.text.encode())
        for message in messages(folder / "opencode.db")
        for part in message.parts
    )
    # V2 rows name files relative to the session's directory.
    assert manifest.text_bytes * 0.99 <= read <= manifest.text_bytes * 1.03


def messages(database: Path) -> Iterator[Message]:
    opened = source(database)
    try:
        for ref in list(opened.sessions()):
            assert isinstance(ref, SessionRef)
            copy = opened.read(ref.id, {})
            assert copy is not None
            yield from (m for m in copy.messages if isinstance(m, Message))
    finally:
        opened.close()


def test_completed_edits_name_their_files(generated: tuple[Path, Manifest]) -> None:
    folder, manifest = generated
    edits = sum(
        len({edit.path.rsplit("/", 1)[-1] for edit in message.edits if edit.tool is not None})
        for message in messages(folder / "opencode.db")
    )
    assert edits == manifest.edits > 0


def test_there_are_subagents_worktrees_and_failed_calls() -> None:
    history = History(SIZES["XS"])
    plans = list(history.plans())
    calls = [
        piece
        for plan in plans
        for turn in history.turns(plan)
        for piece in turn.pieces
        if isinstance(piece, Call)
    ]
    assert 5 < sum(plan.parent is not None for plan in plans) < 60
    assert any(plan.directory in plan.project.sandboxes for plan in plans)
    assert any(plan.directory == plan.project.worktree for plan in plans)
    assert {call.tool for call in calls} == {"edit", "write", "read", "grep", "bash"}
    assert any(call.failed for call in calls)
    assert all(len(call.output) < MAX_OUTPUT + 1_000 for call in calls)


def test_an_added_message_changes_its_session_alone(
    generated: tuple[Path, Manifest], tmp_path: Path
) -> None:
    folder, manifest = generated
    database = tmp_path / "opencode.db"
    with (
        closing(sqlite3.connect(folder / "opencode.db")) as old,
        closing(sqlite3.connect(database)) as new,
    ):
        old.backup(new)
    before = {ref.id: ref for ref in source(database).sessions() if isinstance(ref, SessionRef)}
    growth.add_message(database, manifest.layout, manifest.long)
    after = {ref.id: ref for ref in source(database).sessions() if isinstance(ref, SessionRef)}
    assert {i for i in after if after[i] != before[i]} == {manifest.long}
    assert growth.TEXT in dict(read_texts(database))[manifest.long]


def test_saving_results_replaces_the_section_of_the_same_title(tmp_path: Path) -> None:
    file = tmp_path / "RESULTS.md"
    results.save(file, "Size M, v1: 500 MB", "old")
    results.save(file, "Size S, v1: 50 MB", "small")
    results.save(file, "Size M, v1: 500 MB", "new")
    assert file.read_text(encoding="utf-8") == (
        results.INTRODUCTION.strip()
        + "\n\n## Size S, v1: 50 MB\n\nsmall\n\n## Size M, v1: 500 MB\n\nnew\n"
    )


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_383, 16_384, 2**31, 2**56 - 1])
def test_numbers_of_fts5_survive_their_variable_length(number: int) -> None:
    assert list(fts_parts.varints(b"??" + fts_parts.varint(number) * 2, 2)) == [number, number]


def test_copied_segments_answer_as_inserted_rows_do(tmp_path: Path) -> None:
    history = History(SIZES["XS"])
    texts = [
        (1_000 * plan.number + place, "\n".join(turn.texts()))
        for plan in list(history.plans())[:40]
        for place, turn in enumerate(history.turns(plan))
    ]
    with closing(sqlite3.connect(tmp_path / "index.db", isolation_level=None)) as conn:
        conn.executescript(floors.TABLES)
    with closing(sqlite3.connect(tmp_path / "index.db", isolation_level=None)) as conn:
        for first in range(0, len(texts), 70):
            batch = texts[first : first + 70]
            conn.execute("BEGIN")
            conn.executemany("INSERT INTO documents VALUES (?, ?)", batch)
            fts_parts.copy(conn, fts_parts.build(batch))
            conn.execute("COMMIT")
    with closing(sqlite3.connect(tmp_path / "index.db", isolation_level=None)) as conn:
        conn.execute("INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)")
        conn.execute("INSERT INTO documents_fts(documents_fts) VALUES ('optimize')")
        conn.execute("INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)")
        for word in ("error", "Function", "marmaladeflux", "returntheerror"):
            expected = [i for i, text in texts if word.casefold() in text.casefold()]
            rows = conn.execute(
                "SELECT rowid FROM documents_fts WHERE documents_fts MATCH ? ORDER BY rowid",
                (f'"{word}"',),
            )
            assert [i for (i,) in rows] == expected
