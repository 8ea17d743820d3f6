"""What a fork copied is known as such, whatever was indexed first, and counts once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sync.model import Source
from tests.builders import MINUTE, T0
from tests.opencode_stores import Database, copied
from tests.truth.syncing import assert_equals_fresh, rows, sources_of, sync, sync_dir

MODEL: dict[str, Any] = {"providerID": "anthropic", "modelID": "opus"}
SPENT = {"input": 100, "output": 20, "reasoning": 0, "cache": {"read": 5, "write": 0}}
MARKS = "SELECT message_id, copied, copied_from FROM documents WHERE message_id <> '' ORDER BY 1"
ORIGINS = "SELECT id, forked_from FROM sessions ORDER BY id"


def talk(db: Database, session_id: str, prefix: str, *, turns: int, start: int = T0) -> None:
    """Questions and answers, one pair a minute."""
    for turn in range(turns):
        at = start + turn * MINUTE
        db.message(f"{prefix}{turn}q", session_id, "user", f"Question {turn}", at=at)
        db.message(
            f"{prefix}{turn}r", session_id, "assistant", f"Answer {turn}",
            at=at + 10, cost=0.25, tokens=SPENT, **MODEL,
        )  # fmt: skip


def fork(db: Database, session_id: str, prefix: str, number: int, *, turns: int) -> None:
    """A fork made an hour later, with the origin's first turns and one of its own."""
    made = T0 + (60 + number) * MINUTE
    db.session(session_id, f"Timeouts (fork #{number})", at=made)
    talk(db, session_id, prefix, turns=turns)
    talk(db, session_id, f"{prefix}own", turns=1, start=made)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with Database(tmp_path / "data" / "opencode.db", "1.18") as db:
        db.session("ses_origin", "Timeouts")
        talk(db, "ses_origin", "o", turns=3)
        fork(db, "ses_fork", "f", 1, turns=2)
        db.session("ses_other", "Unrelated", at=T0 + 70 * MINUTE)
        talk(db, "ses_other", "u", turns=1, start=T0 + 70 * MINUTE)
    return tmp_path / "data"


def test_a_fork_of_v1_copies_the_messages_that_its_origin_said_first(
    data: Path, tmp_path: Path
) -> None:
    index = sync_dir(tmp_path / "history.db", data)
    found = rows(index, "SELECT message_id, copied_from FROM documents WHERE copied ORDER BY 1")
    assert found == [(m, "ses_origin") for m in ("f0q", "f0r", "f1q", "f1r")]
    assert rows(index, ORIGINS) == [
        ("ses_fork", "ses_origin"), ("ses_origin", None), ("ses_other", None),
    ]  # fmt: skip


def test_a_copied_message_costs_nothing_a_second_time(data: Path, tmp_path: Path) -> None:
    index = sync_dir(tmp_path / "history.db", data)
    costs = "SELECT id, own_cost, own_tokens FROM session_costs ORDER BY id"
    assert rows(index, costs) == [
        ("ses_fork", 0.25, 125), ("ses_origin", 0.75, 375), ("ses_other", 0.25, 125),
    ]  # fmt: skip


@pytest.mark.parametrize("fork_first", [True, False], ids=["fork-first", "origin-first"])
def test_the_order_of_indexing_makes_no_difference(tmp_path: Path, fork_first: bool) -> None:
    folder = tmp_path / "data"
    with Database(folder / "opencode.db", "1.18") as db:
        db.session("ses_origin", "Timeouts", time_updated=T0 + (1 if fork_first else 900) * MINUTE)
        talk(db, "ses_origin", "o", turns=2)
        fork(db, "ses_fork", "f", 1, turns=2)
    index = sync_dir(tmp_path / "history.db", folder)
    first = rows(index, "SELECT id FROM sessions ORDER BY num")[0]
    assert first == ("ses_fork" if fork_first else "ses_origin")
    found = rows(index, "SELECT message_id FROM documents WHERE copied ORDER BY 1")
    assert found == ["f0q", "f0r", "f1q", "f1r"]


def test_an_origin_that_appears_later_takes_its_messages_back(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Database(folder / "opencode.db", "1.18") as db:
        fork(db, "ses_fork", "f", 1, turns=1)
    index = sync_dir(tmp_path / "history.db", folder)
    assert rows(index, "SELECT sum(copied) FROM documents") == [0]
    with Database(folder / "opencode.db") as db:
        db.session("ses_origin", "Timeouts")
        talk(db, "ses_origin", "o", turns=2)
    sync_dir(index, folder)
    found = rows(index, "SELECT message_id FROM documents WHERE copied ORDER BY 1")
    assert found == ["f0q", "f0r"]
    assert_equals_fresh(index, lambda: sources_of(folder))


def test_a_fork_pays_for_what_its_deleted_origin_said(data: Path, tmp_path: Path) -> None:
    index = sync_dir(tmp_path / "history.db", data)
    with Database(data / "opencode.db") as db:
        for table, key in (("part", "session_id"), ("message", "session_id"), ("session", "id")):
            db.conn.execute(f"DELETE FROM {table} WHERE {key} = 'ses_origin'")
    sync_dir(index, data)
    assert rows(index, ORIGINS) == [("ses_fork", None), ("ses_other", None)]
    assert rows(index, "SELECT own_cost FROM session_costs ORDER BY id") == [0.75, 0.25]
    assert_equals_fresh(index, lambda: sources_of(data))


def test_a_message_removed_from_the_origin_counts_in_the_fork(data: Path, tmp_path: Path) -> None:
    index = sync_dir(tmp_path / "history.db", data)
    with Database(data / "opencode.db") as db:
        db.conn.execute("DELETE FROM part WHERE message_id = 'o1r'")
        db.conn.execute("DELETE FROM message WHERE id = 'o1r'")
    sync_dir(index, data)
    found = rows(index, "SELECT message_id FROM documents WHERE copied ORDER BY 1")
    assert found == ["f0q", "f0r", "f1q"]
    assert_equals_fresh(index, lambda: sources_of(data))


def test_of_several_forks_the_one_made_of_a_fork_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Database(folder / "opencode.db", "1.18") as db:
        db.session("ses_a", "Timeouts")
        talk(db, "ses_a", "a", turns=2)
        fork(db, "ses_b", "b", 1, turns=2)
        db.session("ses_c", "Renamed by hand", at=T0 + 90 * MINUTE)
        talk(db, "ses_c", "c", turns=2)
        talk(db, "ses_c", "cb", turns=1, start=T0 + 61 * MINUTE)
    index = sync_dir(tmp_path / "history.db", folder)
    assert rows(index, ORIGINS) == [("ses_a", None), ("ses_b", "ses_a"), ("ses_c", "ses_b")]
    counted_in = "SELECT copied_from, count(*) FROM documents WHERE session_id = 'ses_c' " \
        "AND copied GROUP BY 1 ORDER BY 1"  # fmt: skip
    assert rows(index, counted_in) == [("ses_a", 4), ("ses_b", 2)]
    assert rows(index, "SELECT sum(own_cost) FROM session_costs") == [0.75]


def test_equal_messages_alone_make_no_fork(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Database(folder / "opencode.db", "1.18") as db:
        # Two runs of a script, started in the same millisecond.
        for name in ("a", "b"):
            db.session(f"ses_{name}", "Nightly")
            talk(db, f"ses_{name}", name, turns=1)
        # Older than its session and equal, but of another project.
        db.session("ses_far", "Elsewhere", at=T0 + MINUTE, project_id="prj_far")
        talk(db, "ses_far", "far", turns=1)
        # Of the same moment and price, but another answer of another model.
        db.session("ses_near", "Import", at=T0 + MINUTE)
        db.message("near", "ses_near", "assistant", "Answer 0", at=T0 + 10, cost=0.25,
                   tokens=SPENT, providerID="openai", modelID="gpt")  # fmt: skip
        db.message("near2", "ses_near", "user", "Another question", at=T0)
    index = sync_dir(tmp_path / "history.db", folder)
    assert rows(index, "SELECT sum(copied) FROM documents") == [0]
    assert set(rows(index, "SELECT forked_from FROM sessions")) == {None}


def v2_pair(path: Path, *, boundary: int = 3) -> None:
    with Database(path, "2") as db:
        db.session("ses_origin", "Queue", table="session_v2")
        db.session("ses_fork", "Queue", table="session_v2", at=T0 + MINUTE,
                   fork_session_id="ses_origin", fork_boundary={"seq": boundary})  # fmt: skip
        for session_id, seqs in (("ses_origin", (1, 2, 3, 5)), ("ses_fork", (1, 2, 3, 4))):
            for seq in seqs:
                # The fork's own message is said at the moment of the origin's fourth.
                at = T0 + min(seq, 4) * 1000
                if seq % 2:
                    db.v2(f"{session_id}{seq}", session_id, "user", seq, at=at, text=f"Ask {seq}")
                else:
                    db.v2(
                        f"{session_id}{seq}", session_id, "assistant", seq, at=at, cost=0.5,
                        tokens=SPENT, content=[{"type": "text", "text": f"Say {seq}"}],
                    )  # fmt: skip


def test_a_fork_of_v2_names_its_origin_and_shares_equal_rows(tmp_path: Path) -> None:
    v2_pair(tmp_path / "opencode.db")
    index = sync_dir(tmp_path / "history.db", tmp_path)
    assert rows(index, MARKS) == [
        *[(f"ses_fork{seq}", 1, "ses_origin") for seq in (1, 2, 3)],
        ("ses_fork4", 0, None),
        *[(f"ses_origin{seq}", 0, None) for seq in (1, 2, 3, 5)],
    ]
    assert rows(index, ORIGINS) == [("ses_fork", "ses_origin"), ("ses_origin", None)]
    assert rows(index, "SELECT sum(own_cost) FROM session_costs") == [1.0]


def test_a_fork_whose_origin_is_gone_still_names_it_and_counts(tmp_path: Path) -> None:
    v2_pair(tmp_path / "opencode.db")
    with Database(tmp_path / "opencode.db") as db:
        db.conn.execute("DELETE FROM session_v2 WHERE id = 'ses_origin'")
        db.conn.execute("DELETE FROM session_message WHERE session_id = 'ses_origin'")
    index = sync_dir(tmp_path / "history.db", tmp_path)
    assert rows(index, ORIGINS) == [("ses_fork", "ses_origin")]
    assert rows(index, "SELECT sum(copied) FROM documents") == [0]


def test_every_way_of_growing_gives_the_index_of_the_end(tmp_path: Path) -> None:
    """Sessions come and go between syncs, in two stores, and no order leaves a trace."""
    first, second = tmp_path / "one", tmp_path / "two"

    def stores() -> Sequence[Source]:
        return [*sources_of(first), *sources_of(second)]

    with Database(first / "opencode.db", "1.18") as db:
        fork(db, "ses_f3", "x", 3, turns=3)
    with Database(second / "opencode.db", "1.18") as db:
        fork(db, "ses_f2", "y", 2, turns=2)
    index = sync(tmp_path / "history.db", *stores())
    assert_equals_fresh(index, stores)
    with Database(second / "opencode.db") as db:
        db.session("ses_origin", "Timeouts")
        talk(db, "ses_origin", "o", turns=1)
    sync(index, *stores())
    assert_equals_fresh(index, stores)
    with Database(second / "opencode.db") as db:
        talk(db, "ses_origin", "oo", turns=2, start=T0 + MINUTE)
        db.conn.execute("UPDATE session SET time_updated = ? WHERE id = 'ses_origin'",
                        (T0 + 99 * MINUTE,))  # fmt: skip
    with Database(first / "opencode.db") as db:
        fork(db, "ses_f1", "z", 1, turns=1)
    sync(index, *stores())
    assert_equals_fresh(index, stores)
    with Database(second / "opencode.db") as db:
        db.conn.execute("DELETE FROM session WHERE id = 'ses_f2'")
        db.conn.execute("DELETE FROM message WHERE session_id = 'ses_f2'")
        db.conn.execute("DELETE FROM part WHERE session_id = 'ses_f2'")
        db.conn.execute("UPDATE session SET project_id = 'moved' WHERE id = 'ses_origin'")
    sync(index, *stores())
    assert rows(index, "SELECT count(*) FROM documents WHERE copied") == [2]
    assert_equals_fresh(index, stores)


def test_the_recorded_forks_are_copies(samples: Path, tmp_path: Path) -> None:
    conn = sqlite3.connect(
        f"{(samples / '1.18.33/data/opencode.db').as_uri()}?immutable=1", uri=True
    )
    forks = conn.execute(
        "SELECT s.id, (SELECT count(*) FROM message m WHERE m.session_id = s.id "
        "AND m.time_created < s.time_created) FROM session s "
        "WHERE s.title LIKE '%(fork #%' ORDER BY 1"
    ).fetchall()
    conn.close()
    assert len(forks) == 2
    index = sync(tmp_path / "h.db", *sources_of(copied(samples, "1.18.33", tmp_path)))
    found = "SELECT session_id, sum(copied) FROM documents GROUP BY 1 HAVING sum(copied) ORDER BY 1"
    assert rows(index, found) == forks
