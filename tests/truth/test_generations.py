"""Sessions that upgrades left behind, and what only an older copy still has."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from datasette_history.pages.export import export_json
from datasette_history.render import as_json, status_json
from datasette_history.status import read_status
from datasette_history.text import as_text
from datasette_history.tools import Context, call
from sync.cli import cli
from tests.builders import MINUTE, T0, session, user
from tests.opencode_stores import Database, JsonStore, tool, v2_tool
from tests.sync.memory_source import MemorySource
from tests.truth.syncing import (
    assert_equals_fresh,
    opened,
    rows,
    sources_of,
    sync,
    sync_dir,
)

IMPORT = T0 + 60 * MINUTE
STRANDED = "SELECT id, stranded FROM sessions ORDER BY id"
HOLDS = "SELECT session_id, holds FROM session_copies ORDER BY session_id, source_id"
TEXTS = (
    "SELECT message_id, only_in, text FROM documents WHERE session_id = ? AND seq >= 0 ORDER BY seq"
)


def drizzle(db: Database, applied: str) -> None:
    """The table in which versions that import JSON note their migrations."""
    db.conn.execute(
        "CREATE TABLE __drizzle_migrations (id INTEGER PRIMARY KEY, hash text, name text, "
        "applied_at TEXT)"
    )
    db.insert("__drizzle_migrations", hash="", name="first", applied_at=applied)
    db.insert("__drizzle_migrations", hash="", name="later", applied_at="2027-05-05T00:00:00Z")


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def imported(path: Path, *, phase: str = "completed") -> None:
    """A file whose V1 sessions were imported into V2: `kept` in both, others in one alone."""
    with Database(path, "1.18", "2") as db:
        db.insert("kv", key="migration.v1-v2", value={"phase": phase})
        for name, at in (("kept", T0), ("deleted", T0 + 5 * MINUTE), ("late", IMPORT + MINUTE)):
            db.session(f"ses_{name}", name, at=at)
            db.message(f"msg_{name}", f"ses_{name}", "user", f"Words of {name}", at=at)
        db.message("msg_kept2", "ses_kept", "user", "Last before the import", at=IMPORT)
        db.session("ses_kept", "kept", table="session_v2")
        db.v2("msg_kept", "ses_kept", "user", 1, at=T0, text="Words of kept")
        db.v2("msg_kept2", "ses_kept", "user", 2, at=IMPORT, text="Last before the import")
        db.session("ses_new", "new", table="session_v2", at=IMPORT + 9 * MINUTE)
        db.v2("msg_new", "ses_new", "user", 1, at=IMPORT + 9 * MINUTE, text="Words of new")


def test_sessions_of_v1_that_v2_does_not_have_are_stranded(tmp_path: Path) -> None:
    imported(tmp_path / "data/opencode.db")
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    assert rows(index, STRANDED) == [
        ("ses_deleted", "perhaps-deleted"), ("ses_kept", None), ("ses_late", "after-import"),
        ("ses_new", None),
    ]  # fmt: skip
    assert rows(index, HOLDS) == [
        ("ses_deleted", "v1"), ("ses_kept", "v1 v2"), ("ses_late", "v1"), ("ses_new", "v2"),
    ]  # fmt: skip


@pytest.mark.parametrize("phase", ["running", None, ["completed"]])
def test_nothing_is_stranded_before_the_import_is_completed(tmp_path: Path, phase: Any) -> None:
    imported(tmp_path / "data/opencode.db", phase=phase)
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    assert set(rows(index, "SELECT stranded FROM sessions")) == {None}


def test_an_import_that_completes_between_syncs_strands_what_it_left(tmp_path: Path) -> None:
    imported(tmp_path / "data/opencode.db", phase="running")
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    with Database(tmp_path / "data/opencode.db") as db:
        db.conn.execute("""UPDATE kv SET value = '{"phase": "completed"}'""")
    sync_dir(index, tmp_path / "data")
    counts = "SELECT stranded, count(*) FROM sessions GROUP BY 1 ORDER BY 1"
    assert rows(index, counts) == [(None, 2), ("after-import", 1), ("perhaps-deleted", 1)]
    assert_equals_fresh(index, lambda: sources_of(tmp_path / "data"))


def json_store(data: Path) -> None:
    store = JsonStore(data)
    for name, at in (("both", T0), ("ghost", T0 + MINUTE), ("later", IMPORT + MINUTE)):
        store.session(f"ses_{name}", name, at=at)
        store.message(f"msg_{name}", f"ses_{name}", "user", f"Words of {name}", at=at)


def test_json_sessions_beside_an_importing_database(tmp_path: Path) -> None:
    data = tmp_path / "data"
    json_store(data)
    with Database(data / "opencode.db", "1.2") as db:
        drizzle(db, iso(IMPORT))
        db.session("ses_both", "both")
        db.message("msg_both", "ses_both", "user", "Words of both")
    index = sync_dir(tmp_path / "history.db", data)
    assert rows(index, STRANDED) == [
        ("ses_both", None), ("ses_ghost", "perhaps-deleted"), ("ses_later", "after-import"),
    ]  # fmt: skip


def test_json_sessions_beside_a_database_that_imported_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    json_store(data)
    Database(data / "opencode.db", "1.18").conn.close()
    index = sync_dir(tmp_path / "history.db", data)
    assert set(rows(index, "SELECT stranded FROM sessions")) == {"after-import"}


def test_a_json_store_alone_is_in_use_until_a_database_appears(tmp_path: Path) -> None:
    data = tmp_path / "data"
    json_store(data)
    index = sync_dir(tmp_path / "history.db", data)
    assert set(rows(index, "SELECT stranded FROM sessions")) == {None}
    # A copy made by hand is no database that OpenCode uses.
    Database(data / "opencode - Copy.db", "1.18").conn.close()
    sync_dir(index, data)
    assert set(rows(index, "SELECT stranded FROM sessions")) == {None}
    with Database(data / "opencode.db", "1.2") as db:
        drizzle(db, iso(IMPORT))
        db.session("ses_both", "both")
    sync_dir(index, data)
    assert rows(index, STRANDED) == [
        ("ses_both", None), ("ses_ghost", "perhaps-deleted"), ("ses_later", "after-import"),
    ]  # fmt: skip
    assert_equals_fresh(index, lambda: sources_of(data))


def test_json_says_that_a_session_is_stranded(tmp_path: Path) -> None:
    imported(tmp_path / "data/opencode.db")
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    with opened(index) as conn:
        answer = call(conn, "search-sessions", {"query": "words"}, Context(now=datetime.now(UTC)))
    found = as_json(answer, lambda _session_id, _message_id: None)["sessions"]
    assert {s["sessionID"]: s.get("stranded") for s in found} == {
        "ses_kept": None, "ses_deleted": "perhaps-deleted", "ses_late": "after-import",
        "ses_new": None,
    }  # fmt: skip


# What V1's rows have more, in one file


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def session_of_both(db: Database) -> None:
    db.insert("kv", key="migration.v1-v2", value={"phase": "completed"})
    db.session("ses", "Imported")
    db.session("ses", "Imported", table="session_v2")
    # The import was after this one, which is in another session.
    db.session("ses_other", "Other", at=IMPORT)
    db.session("ses_other", "Other", table="session_v2", at=IMPORT)


def test_what_the_import_lost_is_added_and_marked(tmp_path: Path) -> None:
    with Database(tmp_path / "data/opencode.db", "1.18", "2") as db:
        session_of_both(db)
        db.message(
            "m1", "ses", "user", "Look into it",
            {"type": "text", "text": "ignored by the model", "ignored": True},
            {"type": "subtask", "prompt": "Find the callers", "agent": "explore"},
        )  # fmt: skip
        db.v2("m1", "ses", "user", 1, text="Look into it")
        db.message(
            "m2", "ses", "assistant", tool("bash", input={"command": "make"}, output="3 warnings"),
            tool("bash", id_="2", input={"command": "ls"}, output="README"),
            {"type": "retry", "attempt": 1, "error": {"name": "Busy", "data": {"message": "slow"}}},
            at=T0 + 1, cost=0.5,
        )  # fmt: skip
        cleared = v2_tool("bash", input={"command": "make"}, content=[text("[cleared]")])
        whole = v2_tool("bash", id_="2", input={"command": "ls"}, content=[text("README")])
        db.v2("m2", "ses", "assistant", 2, at=T0 + 1, content=[cleared, whole], cost=0.5)
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    parts = """
        SELECT d.message_id, p.kind, p.call, p.only_in, substr(d.text, p.start + 1, p.length)
        FROM documents d JOIN parts p ON p.document_id = d.id ORDER BY d.seq, p.seq
    """
    assert rows(index, parts) == [
        ("m1", "text", None, None, "Look into it"),
        ("m1", "synthetic", None, "v1", "ignored by the model"),
        ("m1", "subtask", None, "v1", "Find the callers"),
        ("m2", "tool", 0, None, "bash"),
        ("m2", "input", 0, None, "make"),
        ("m2", "output", 0, None, "[cleared]"),
        ("m2", "tool", 1, None, "bash"),
        ("m2", "input", 1, None, "ls"),
        ("m2", "output", 1, None, "README"),
        ("m2", "output", 0, "v1", "3 warnings"),
        ("m2", "retry", None, "v1", "Busy: slow"),
    ]
    assert rows(index, "SELECT own_cost FROM session_costs WHERE id = 'ses'") == [0.5]
    assert rows(index, "SELECT only_in FROM documents WHERE only_in IS NOT NULL") == []


def test_what_an_older_version_wrote_later_is_added_and_what_was_deleted_stays_away(
    tmp_path: Path,
) -> None:
    with Database(tmp_path / "data/opencode.db", "1.18", "2") as db:
        session_of_both(db)
        db.message("m1", "ses", "user", "First", at=T0)
        db.v2("m1", "ses", "user", 1, at=T0, text="First")
        # Undone for good in V2: its rows are gone there, and only there.
        db.message("m2", "ses", "user", "Undone", at=T0 + 1)
        # Nothing in it that V2 would have kept.
        db.message("m3", "ses", "user", {"type": "subtask", "prompt": "Explore"}, at=T0 + 2)
        db.v2("m4", "ses", "user", 2, at=IMPORT + 5 * MINUTE, text="Said in V2")
        db.message("m5", "ses", "user", "Said in V1", at=IMPORT + MINUTE)
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    assert rows(index, TEXTS, "ses") == [
        ("m1", None, "First"), ("m3", "v1", "Explore"), ("m5", "v1", "Said in V1"),
        ("m4", None, "Said in V2"),
    ]  # fmt: skip


def test_marks_change_when_the_import_completes(tmp_path: Path) -> None:
    with Database(tmp_path / "data/opencode.db", "1.18", "2") as db:
        db.session("ses", "Talk")
        db.message("m1", "ses", "user", "First", at=T0)
        db.message("m2", "ses", "user", {"type": "subtask", "prompt": "Explore"}, at=T0 + 2)
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    assert rows(index, TEXTS, "ses") == [("m1", None, "First"), ("m2", None, "Explore")]
    with Database(tmp_path / "data/opencode.db") as db:
        session_of_both_rows(db)
        db.v2("m1", "ses", "user", 1, at=T0, text="First")
    sync_dir(index, tmp_path / "data")
    assert rows(index, TEXTS, "ses") == [("m1", None, "First"), ("m2", "v1", "Explore")]
    assert_equals_fresh(index, lambda: sources_of(tmp_path / "data"))


def session_of_both_rows(db: Database) -> None:
    db.insert("kv", key="migration.v1-v2", value={"phase": "completed"})
    db.session("ses", "Talk", table="session_v2")


def test_the_mark_of_a_revert_that_the_import_lost_is_kept(tmp_path: Path) -> None:
    with Database(tmp_path / "data/opencode.db", "1.18", "2") as db:
        session_of_both(db)
        db.conn.execute("""UPDATE session SET revert = '{"messageID": "m2"}' WHERE id = 'ses'""")
        for number in (1, 2, 3):
            db.message(f"m{number}", "ses", "user", f"Word {number}", at=T0 + number)
            db.v2(f"m{number}", "ses", "user", number, at=T0 + number, text=f"Word {number}")
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    marks = "SELECT message_id, reverted FROM documents WHERE session_id = 'ses' AND seq >= 0"
    assert rows(index, marks) == [("m1", 0), ("m2", 1), ("m3", 1)]


def test_status_counts_what_is_stranded(tmp_path: Path) -> None:
    data = tmp_path / "data"
    json_store(data)
    with Database(data / "opencode.db", "1.2") as db:
        drizzle(db, iso(IMPORT))
        db.session("ses_both", "both")
    index = sync_dir(tmp_path / "history.db", data)
    arguments = ["status", "--index", str(index), "--data-dir", str(data)]
    told = CliRunner().invoke(cli, arguments)
    assert (
        "not in OpenCode's newest store: 1 written after the one import (after-import), "
        "1 perhaps deleted there (perhaps-deleted)"
    ) in told.output
    as_data = CliRunner().invoke(cli, [*arguments, "--json"])
    assert json.loads(as_data.output)["stranded"] == {"after-import": 1, "perhaps-deleted": 1}
    with opened(index) as conn:
        found = status_json(read_status(conn, now_ms=IMPORT))
    assert found["stranded"] == {"after-import": 1, "perhaps-deleted": 1}


def test_an_export_says_which_stores_hold_the_session_and_what_they_alone_have(
    tmp_path: Path,
) -> None:
    with Database(tmp_path / "data/opencode.db", "1.18", "2") as db:
        session_of_both(db)
        db.message("m5", "ses", "user", "Said in V1", at=IMPORT + MINUTE)
    index = sync_dir(tmp_path / "history.db", tmp_path / "data")
    with opened(index) as conn:
        whole = export_json(conn, "ses", None, lambda _session_id, _message_id: None)
        page = call(conn, "read", {"sessionID": "ses"}, Context(now=datetime.now(UTC)))
    assert whole["copies"] == [
        {
            "kind": "db", "location": str(tmp_path / "data/opencode.db"), "holds": "v1 v2",
            "activity": IMPORT + MINUTE, "activityISO": "2026-12-01T02:01:00.000Z",
            "indexed": True,
        }
    ]  # fmt: skip
    assert [m["onlyIn"] for m in whole["messages"]] == ["v1"]
    read = as_json(page, lambda _session_id, _message_id: None)
    assert [m["onlyIn"] for m in read["messages"]] == ["v1"]
    assert "[only in v1]" in as_text(page)


# What another store has more


def split(data: Path, *, newer: str) -> None:
    """A session that was imported and then continued in both stores, one of them the later."""
    json_at, db_at = (9, 5) if newer == "json" else (5, 9)
    store = JsonStore(data)
    store.session("ses", "Talk", updated=IMPORT + json_at * MINUTE)
    store.message("m1", "ses", "user", "First", at=T0)
    # Gone from the database by a revert that was made final: it stays away.
    store.message("m2", "ses", "user", "Undone", at=T0 + 1)
    store.message("j1", "ses", "assistant", "Said in JSON", at=IMPORT + json_at * MINUTE, cost=0.5)
    with Database(data / "opencode.db", "1.2") as db:
        drizzle(db, iso(IMPORT))
        db.session("ses", "Talk", time_updated=IMPORT + db_at * MINUTE)
        db.message("m1", "ses", "user", "First", at=T0)
        db.message("d1", "ses", "assistant", "Said in a row", at=IMPORT + db_at * MINUTE, cost=0.25)


def test_a_session_that_went_on_in_two_stores_has_both_ends(tmp_path: Path) -> None:
    data = tmp_path / "data"
    split(data, newer="db")
    index = sync_dir(tmp_path / "history.db", data)
    assert rows(index, TEXTS, "ses") == [
        ("m1", None, "First"), ("j1", "json", "Said in JSON"), ("d1", None, "Said in a row"),
    ]  # fmt: skip
    assert rows(index, "SELECT own_cost FROM session_costs") == [0.75]
    assert rows(index, "SELECT seq FROM documents ORDER BY seq") == [-1, 0, 1, 2]
    assert_equals_fresh(index, lambda: sources_of(data))


def test_the_database_adds_to_the_files_where_these_are_later(tmp_path: Path) -> None:
    data = tmp_path / "data"
    split(data, newer="json")
    index = sync_dir(tmp_path / "history.db", data)
    # The files are the indexed copy, so what was undone in the database is still in it.
    assert rows(index, TEXTS, "ses") == [
        ("m1", None, "First"), ("m2", None, "Undone"), ("d1", "v1", "Said in a row"),
        ("j1", None, "Said in JSON"),
    ]  # fmt: skip


def test_what_another_copy_adds_follows_that_copy(tmp_path: Path) -> None:
    data = tmp_path / "data"
    split(data, newer="db")
    index = sync_dir(tmp_path / "history.db", data)
    store = JsonStore(data)
    store.message("j2", "ses", "user", "Once more in JSON", at=IMPORT + 6 * MINUTE)
    sync_dir(index, data)
    ids = "SELECT message_id FROM documents WHERE seq >= 0 ORDER BY seq"
    assert rows(index, ids) == ["m1", "j1", "j2", "d1"]
    assert_equals_fresh(index, lambda: sources_of(data))
    (data / "storage/message/ses/j1.json").unlink()
    sync_dir(index, data)
    assert rows(index, ids) == ["m1", "j2", "d1"]
    assert_equals_fresh(index, lambda: sources_of(data))


def test_what_a_copy_added_stays_while_that_copy_cannot_be_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    split(data, newer="db")
    index = sync_dir(tmp_path / "history.db", data)
    (data / "storage").rename(data / "away")
    with Database(data / "opencode.db") as db:
        db.message("d2", "ses", "user", "More", at=IMPORT + 20 * MINUTE)
    sync_dir(index, data)
    ids = "SELECT message_id, only_in FROM documents WHERE seq >= 0 ORDER BY seq"
    assert rows(index, ids) == [("m1", None), ("j1", "json"), ("d1", None), ("d2", None)]
    (data / "away").rename(data / "storage")
    sync_dir(index, data)
    assert_equals_fresh(index, lambda: sources_of(data))


def test_a_better_copy_elsewhere_keeps_what_v1s_rows_alone_have(tmp_path: Path) -> None:
    """A service sends what V2 knows; the rows of V1 are in the file."""
    data = tmp_path / "data"
    with Database(data / "opencode.db", "1.18", "2") as db:
        session_of_both(db)
        lost = {"type": "subtask", "prompt": "Find the callers"}
        db.message("m1", "ses", "user", "Look into it", lost, at=T0)
        db.v2("m1", "ses", "user", 1, at=T0, text="Look into it")
        db.message("m5", "ses", "user", "Said in V1", at=IMPORT + MINUTE)
    service = MemorySource("http://service", kind="api", rank=3)
    service.authoritative = False
    service.put(
        session("ses", "Imported", at=IMPORT + 30 * MINUTE),
        user("m1", "Look into it", at=T0),
        user("m6", "Said in V2", at=IMPORT + 30 * MINUTE),
    )
    index = sync(tmp_path / "history.db", *sources_of(data), service)
    expected = [
        ("m1", None, "Look into it\nFind the callers"), ("m5", "v1", "Said in V1"),
        ("m6", None, "Said in V2"),
    ]  # fmt: skip
    assert rows(index, TEXTS, "ses") == expected
    pieces = "SELECT kind, only_in FROM parts ORDER BY document_id, seq"
    assert ("subtask", "v1") in rows(index, pieces)
    sync(index, *sources_of(data), service)
    assert rows(index, TEXTS, "ses") == expected
