"""Money and tokens: counted once, the same everywhere, and never called free without proof."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from datasette.app import Datasette

from datasette_history.local_days import add_functions, local_day
from datasette_history.queries import QUERIES
from tests.builders import MINUTE, T0
from tests.opencode_stores import Database, copied
from tests.truth.syncing import rows, sources_of, sync, sync_dir

HOUR = 60 * MINUTE
MIXED_FORKS = {"ses_dd0eab32fffejyB7pCeU8zKHs4", "ses_dd0eab537ffeWn5dtMc6qgsW2e"}


def spent(cost: float, tokens: int = 10) -> dict[str, Any]:
    return {"cost": cost, "tokens": {"input": tokens, "output": 1, "reasoning": 2,
            "cache": {"read": 3, "write": 4}}}  # fmt: skip


def run(index: Path, name: str, **params: str) -> list[dict[str, Any]]:
    [query] = [q for q in QUERIES if q.name == name]
    with closing(sqlite3.connect(index)) as conn:
        conn.row_factory = sqlite3.Row
        add_functions(conn)
        return [
            dict(row) for row in conn.execute(query.sql, dict.fromkeys(query.params, "") | params)
        ]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A root with a child and a grandchild, a fork of the root, and a circle of parents."""
    with Database(tmp_path / "data/opencode.db", "1.18") as db:
        # OpenCode's own sum is 0.02 over the messages' for the root, and missing for the child.
        db.session("root", "Root", cost=3.02)
        db.session("child", "Child", parent_id="root", cost=0)
        db.session("grand", "Grandchild", parent_id="child", at=T0 + 1)
        db.session("fork", "Root (fork #1)", at=T0 + 24 * HOUR, cost=3.5)
        db.session("a", "Circle", parent_id="b")
        db.session("b", "Circle", parent_id="a")
        db.message("r1", "root", "assistant", "One", at=T0, **spent(1.0))
        db.message("r2", "root", "assistant", "Two", at=T0 + HOUR, **spent(2.0))
        db.message("c1", "child", "assistant", "Local model", at=T0, **spent(0))
        db.message("g1", "grand", "assistant", "Deep", at=T0, **spent(0.25))
        db.message("f1", "fork", "assistant", "One", at=T0, **spent(1.0))
        db.message("f2", "fork", "assistant", "Two", at=T0 + HOUR, **spent(2.0))
        db.message("f3", "fork", "assistant", "Three", at=T0 + 24 * HOUR, **spent(0.5))
        db.message("a1", "a", "assistant", "A", at=T0, **spent(0.125))
        db.message("b1", "b", "assistant", "B", at=T0, **spent(0.0625))
        db.message("b2", "b", "user", "A prompt costs nothing and is not unpriced", at=T0)
    return sync_dir(tmp_path / "history.db", tmp_path / "data")


def test_own_and_total_costs_of_every_session(index: Path) -> None:
    found = rows(
        index,
        "SELECT id, own_cost, total_cost, own_tokens, total_tokens, own_not_priced, "
        "total_not_priced, recorded_cost, difference FROM session_costs ORDER BY id",
    )
    assert found == [
        ("a", 0.125, 0.1875, 20, 40, 0, 0, None, None),
        ("b", 0.0625, 0.1875, 20, 40, 0, 0, None, None),
        ("child", 0.0, 0.25, 20, 40, 1, 1, None, None),
        ("fork", 0.5, 0.5, 20, 20, 0, 0, 3.5, 0.0),
        ("grand", 0.25, 0.25, 20, 20, 0, 0, None, None),
        ("root", 3.0, 3.25, 40, 80, 0, 1, 3.02, 0.02),
    ]


def test_every_view_and_query_gives_the_same_sum(index: Path) -> None:
    assert sums(index) == dict.fromkeys(sums(index), 3.9375)


def sums(index: Path) -> dict[str, float]:
    """The cost of all that is indexed, as each way of asking has it, to the cent of a cent."""
    statistics = {row["statistic"]: row["value"] for row in run(index, "statistics")}
    found = {
        name: sum(row["cost"] for row in run(index, name))
        for name in (
            "cost_per_day", "cost_per_project", "cost_per_model", "cost_per_end_user",
            "sessions_by_agent", "sessions_by_model",
        )
    }  # fmt: skip
    found["sessions_by_cost"] = sum(row["own_cost"] for row in run(index, "sessions_by_cost"))
    found["statistics"] = statistics["Cost in US dollars"]
    found["session_costs"] = rows(index, "SELECT sum(own_cost) FROM session_costs")[0]
    found["messages"] = rows(index, "SELECT sum(cost) FROM messages WHERE copied = 0")[0]
    return {name: round(value, 4) for name, value in found.items()}


def test_answers_without_a_price_are_counted_as_such(index: Path) -> None:
    assert [row["not_priced"] for row in run(index, "cost_per_day", timezone="UTC")] == [0, 1]
    assert sum(row["not_priced"] for row in run(index, "cost_per_model")) == 1
    by_id = {row["session_id"]: row["not_priced"] for row in run(index, "sessions_by_cost")}
    assert by_id == {"root": 1, "child": 1, "fork": 0, "grand": 0, "a": 0, "b": 0}
    statistics = {row["statistic"]: row["value"] for row in run(index, "statistics")}
    assert statistics["Answers not priced"] == 1


@pytest.mark.parametrize(
    ("timezone", "days"),
    [
        pytest.param("UTC", [("2026-12-02", 0.5), ("2026-12-01", 3.4375)], id="utc"),
        # 01:00 and 02:00 UTC are still the day before.
        pytest.param(
            "America/New_York", [("2026-12-01", 0.5), ("2026-11-30", 3.4375)], id="new-york"
        ),
        # 01:00 UTC is 23:30 the day before, 02:00 is 00:30.
        pytest.param(
            "America/St_Johns", [("2026-12-01", 0.5), ("2026-11-30", 3.4375)], id="half-hour-zone"
        ),
        pytest.param(
            "Etc/GMT+2", [("2026-12-01", 2.5), ("2026-11-30", 1.4375)], id="two-hours-behind"
        ),
    ],
)
def test_days_are_cut_at_midnight_where_the_reader_lives(
    index: Path, timezone: str, days: list[tuple[str, float]]
) -> None:
    found = run(index, "cost_per_day", timezone=timezone)
    assert [(row["day"], row["cost"]) for row in found] == days


def test_a_day_of_25_hours_is_one_day() -> None:
    start = datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin"))
    first = round(start.timestamp() * 1000)
    days = [local_day(first + minute * MINUTE, "Europe/Berlin") for minute in (-1, 0, 1499, 1500)]
    assert days == ["2026-10-24", "2026-10-25", "2026-10-25", "2026-10-26"]
    assert local_day(None, "UTC") is None
    assert local_day(10**17, "") is None


@pytest.mark.asyncio
async def test_datasette_knows_local_days(index: Path) -> None:
    datasette = Datasette([str(index)])
    answer = await datasette.client.get(
        "/history/cost_per_day.json?timezone=America/New_York&_shape=array"
    )
    assert [(row["day"], row["cost"]) for row in answer.json()] == [
        ("2026-12-01", 0.5), ("2026-11-30", 3.4375),
    ]  # fmt: skip
    unknown = await datasette.client.get(
        "/history/cost_per_day.json?timezone=Mars/Base&_shape=array"
    )
    assert [row["day"] for row in unknown.json()] == ["no time zone named Mars/Base"]


# The recorded mixed store: figures read from the stores by plain means


def answers_of_database(path: Path) -> Iterator[tuple[str, str, int, float]]:
    """Session, message, time and cost of every answer in V1's and V2's rows."""
    with closing(sqlite3.connect(path)) as conn:
        for sql in (
            "SELECT session_id, id, data FROM message",
            "SELECT session_id, id, data FROM session_message WHERE type = 'assistant'",
        ):
            for session_id, message_id, raw in conn.execute(sql):
                data = json.loads(raw)
                if data.get("cost") is not None:
                    yield session_id, message_id, data["time"]["created"], data["cost"]


def answers_of_files(storage: Path) -> Iterator[tuple[str, str, int, float]]:
    for path in storage.glob("message/*/*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("cost") is not None:
            yield data["sessionID"], data["id"], data["time"]["created"], data["cost"]


def test_the_mixed_store_costs_what_its_answers_cost(samples: Path, tmp_path: Path) -> None:
    data = copied(samples, "mixed", tmp_path)
    answers = {one[1]: one for one in answers_of_database(data / "opencode.db")}
    listed = {path.stem for path in (data / "storage/session").glob("*/*.json")}
    for one in answers_of_files(data / "storage"):
        if one[0] in listed:
            answers.setdefault(one[1], one)
    # What a fork has from before it was made was paid for in its origin.
    with closing(sqlite3.connect(data / "opencode.db")) as conn:
        made = dict(conn.execute("SELECT id, time_created FROM session").fetchall())
    expected: defaultdict[str, float] = defaultdict(float)
    for session_id, _message_id, time_ms, cost in answers.values():
        if session_id in MIXED_FORKS and time_ms < made[session_id]:
            continue
        expected[datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()] += cost
    index = sync(tmp_path / "history.db", *sources_of(data))
    found = {row["day"]: row["cost"] for row in run(index, "cost_per_day", timezone="UTC")}
    assert found == {day: pytest.approx(cost, abs=1e-6) for day, cost in expected.items()}
    # The same, added up by hand.
    assert found == {"2026-12-01": pytest.approx(0.390438, abs=1e-6)}
    rounded = {name: round(value, 3) for name, value in sums(index).items()}
    assert rounded == dict.fromkeys(rounded, 0.39)


def test_the_mixed_store_has_seventy_sessions_of_which_seven_are_stranded(
    samples: Path, tmp_path: Path
) -> None:
    data = copied(samples, "mixed", tmp_path)
    with closing(sqlite3.connect(data / "opencode.db")) as conn:
        in_database = {i for (i,) in conn.execute("SELECT id FROM session")}
        (upgrade,) = conn.execute("SELECT min(applied_at) FROM __drizzle_migrations").fetchone()
    upgraded_ms = datetime.fromisoformat(upgrade).timestamp() * 1000
    created = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))["time"]["created"]
        for path in (data / "storage/session").glob("*/*.json")
    }
    left = {name: time_ms for name, time_ms in created.items() if name not in in_database}
    index = sync(tmp_path / "history.db", *sources_of(data))
    assert rows(index, "SELECT count(*) FROM sessions") == [70]
    assert len(in_database | created.keys()) == 70
    stranded = "SELECT id, stranded FROM sessions WHERE stranded IS NOT NULL"
    assert dict(rows(index, stranded)) == {
        name: "after-import" if time_ms > upgraded_ms else "perhaps-deleted"
        for name, time_ms in left.items()
    }
    counts = "SELECT stranded, count(*) FROM sessions GROUP BY 1 ORDER BY 1"
    assert rows(index, counts) == [(None, 63), ("after-import", 5), ("perhaps-deleted", 2)]
    ghosts = "SELECT title FROM sessions WHERE stranded = 'perhaps-deleted' ORDER BY 1"
    assert rows(index, ghosts) == ["Old idea: static site", "Wrong API key"]


def test_the_mixed_store_has_the_messages_that_the_downgrade_wrote(
    samples: Path, tmp_path: Path
) -> None:
    index = sync(tmp_path / "history.db", *sources_of(copied(samples, "mixed", tmp_path)))
    count = "SELECT count(*) FROM messages WHERE session_title = ?"
    assert rows(index, count, "Refactor token refresh") == [10]
    assert rows(index, count, "CSV of the hosting bill") == [4]
