"""Every canned query on an index whose numbers were computed by hand."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from datasette.app import Datasette

from datasette_history.local_days import add_functions
from datasette_history.queries import QUERIES, for_hook
from sync.model import Part, SessionCopy, Todo
from tests.builders import MINUTE, T0, assistant, copy, fill, session, tokens, tool, user

DAY = 24 * 60 * MINUTE
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
TIME_COLUMNS = {
    "created",
    "first_call",
    "last_activity",
    "last_answer",
    "last_call",
    "last_used",
    "time",
}


def login_sessions() -> tuple[SessionCopy, ...]:
    """A session with a subagent that has one itself, and a fork that copied an answer."""
    answer = {"agent": "build", "provider": "acme", "model": "large"}
    root = copy(
        session(
            "ses_root", "Fix the LOGIN", updated_ms=T0 + 9 * MINUTE, agent="build", model="large",
            todos=(Todo(content="Find it", status="completed", priority="high"),
                Todo(content="Fix it", status="pending", priority="low"),),
        ),
        user("msg_1", "The login fails"),
        assistant(
            "msg_2",
            "Looking.",
            tool(
                "bash", call=0, error="exit 1", status="error",
                started_ms=T0 + MINUTE, ended_ms=T0 + MINUTE + 4000, command="npm test",
            ),
            tool(
                "read", call=1, output="code",
                started_ms=T0 + MINUTE, ended_ms=T0 + MINUTE + 500, filePath="a.ts",
            ),
            at=T0 + MINUTE, cost=0.5, tokens=tokens(100, 20, 3), **answer,
        ),
        assistant(
            "msg_3",
            tool(
                "bash", call=0, output="ok",
                started_ms=T0 + 2 * MINUTE, ended_ms=T0 + 2 * MINUTE + 2000, command="git push",
            ),
            at=T0 + 2 * MINUTE, cost=0.25, tokens=tokens(10, 5), **answer,
        ),
    )  # fmt: skip
    child = copy(
        session("ses_child", "Look around", at=T0 + MINUTE, parent_id="ses_root", agent="explore"),
        assistant(
            "msg_4", "Found.", at=T0 + MINUTE, cost=1.0, tokens=tokens(7, 1),
            agent="explore", provider="acme", model="small",
        ),
    )  # fmt: skip
    grandchild = copy(
        session("ses_grand", "Look deeper", at=T0 + 2 * MINUTE, parent_id="ses_child"),
        assistant("msg_5", at=T0 + 2 * MINUTE, cost=0.125, agent="explore", model="small"),
    )
    fork = copy(
        session("ses_fork", "Fix the login (fork #1)", at=T0 + 5 * MINUTE),
        assistant(
            "msg_6",
            tool("bash", error="exit 1", status="error", command="npm test"),
            at=T0 + MINUTE, cost=0.5, tokens=tokens(100, 20, 3), **answer,
        ),
        assistant("msg_7", "Again.", at=T0 + 5 * MINUTE, cost=0.0625, **answer),
    )  # fmt: skip
    return root, child, grandchild, fork


def import_sessions() -> tuple[SessionCopy, ...]:
    """A session run for an end user the day before, with a subagent, in another project."""
    values = {"project_id": "prj_two", "directory": "/home/dev/two"}
    own = copy(
        session("ses_anna", "[anna] Import rows", at=T0 - DAY, archived_ms=T0, **values),
        assistant("msg_8", at=T0 - DAY, cost=2.0, agent="build", provider="acme", model="large"),
        user(
            "msg_9",
            Part(kind="command", text="ls -la", status="completed", started_ms=T0 - DAY + MINUTE),
            at=T0 - DAY + MINUTE,
        ),
    )
    child = copy(
        session("ses_anna_child", "Read them", at=T0 - DAY, parent_id="ses_anna", **values),
        assistant("msg_10", at=T0 - DAY, cost=0.75, agent="explore", model="small"),
    )
    return own, child


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = fill(tmp_path / "history.db", *login_sessions(), *import_sessions())
    with closing(sqlite3.connect(path)) as conn:
        conn.row_factory = sqlite3.Row
        add_functions(conn)
        conn.execute("UPDATE documents SET copied = message_id = 'msg_6'")
        yield conn


def run(conn: sqlite3.Connection, name: str, **params: str) -> list[dict[str, Any]]:
    """Run a query as Datasette does: every parameter is there, empty unless given."""
    [query] = [q for q in QUERIES if q.name == name]
    assert params.keys() <= set(query.params)
    values = dict.fromkeys(query.params, "") | params
    return [dict(row) for row in conn.execute(query.sql, values)]


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_recent_sessions_are_those_with_activity_in_the_last_hours(tmp_path: Path) -> None:
    now = int(time.time() * 1000)
    path = fill(
        tmp_path / "history.db",
        copy(session("ses_hour", at=now - 60 * MINUTE), user("msg_1", "hello")),
        copy(session("ses_day", at=now - 30 * 60 * MINUTE)),
        copy(session("ses_month", at=now - 30 * DAY)),
    )
    with closing(sqlite3.connect(path)) as conn:
        conn.row_factory = sqlite3.Row
        add_functions(conn)
        assert columns(run(conn, "recent_sessions"), "session_id", "messages") == [("ses_hour", 1)]
        assert columns(run(conn, "recent_sessions", hours="48"), "session_id") == [
            ("ses_hour",),
            ("ses_day",),
        ]
        assert run(conn, "recent_sessions", hours="0.5") == []


def test_sessions_by_title_ignores_case_and_takes_wildcards_literally(
    conn: sqlite3.Connection,
) -> None:
    found = run(conn, "sessions_by_title", title="fix the login")
    assert columns(found, "session_id", "last_activity") == [
        ("ses_root", "2026-12-01T01:09:00.000Z"),
        ("ses_fork", "2026-12-01T01:05:00.000Z"),
    ]
    assert run(conn, "sessions_by_title", title="fix%login") == []
    assert len(run(conn, "sessions_by_title")) == 6


def test_sessions_by_cost_counts_subagents_in_and_copies_out(conn: sqlite3.Connection) -> None:
    rows = run(conn, "sessions_by_cost")
    assert columns(rows, "session_id", "total_cost", "own_cost") == [
        ("ses_anna", 2.75, 2.0),
        ("ses_root", 1.875, 0.75),
        ("ses_child", 1.125, 1.0),
        ("ses_anna_child", 0.75, 0.75),
        ("ses_grand", 0.125, 0.125),
        ("ses_fork", 0.0625, 0.0625),
    ]


def test_sessions_by_tokens_counts_subagents_in_and_copies_out(conn: sqlite3.Connection) -> None:
    rows = run(conn, "sessions_by_tokens")
    assert columns(rows, "session_id", "total_tokens", "own_tokens")[:2] == [
        ("ses_root", 146, 138),
        ("ses_child", 8, 8),
    ]
    assert {row["total_tokens"] for row in rows[2:]} == {0}


def test_sessions_by_agent_shows_what_the_agent_spent_in_each(conn: sqlite3.Connection) -> None:
    assert columns(
        run(conn, "sessions_by_agent", agent="build"), "session_id", "answers", "cost"
    ) == [("ses_fork", 1, 0.0625), ("ses_root", 2, 0.75), ("ses_anna", 1, 2.0)]
    assert len(run(conn, "sessions_by_agent")) == 6


def test_sessions_by_model_shows_what_the_model_spent_in_each(conn: sqlite3.Connection) -> None:
    assert columns(
        run(conn, "sessions_by_model", model="small"), "provider", "session_id", "cost"
    ) == [(None, "ses_grand", 0.125), ("acme", "ses_child", 1.0), (None, "ses_anna_child", 0.75)]
    assert len(run(conn, "sessions_by_model")) == 6


def test_children_of_a_session_come_with_their_depth(conn: sqlite3.Connection) -> None:
    rows = run(conn, "child_sessions", session_id="ses_root")
    assert columns(rows, "depth", "session_id", "parent_id", "own_cost") == [
        (1, "ses_child", "ses_root", 1.0),
        (2, "ses_grand", "ses_child", 0.125),
    ]
    assert run(conn, "child_sessions", session_id="ses_fork") == []
    assert run(conn, "child_sessions") == []


def test_children_end_where_bad_data_makes_a_cycle(conn: sqlite3.Connection) -> None:
    conn.execute("UPDATE sessions SET parent_id = 'ses_grand' WHERE id = 'ses_root'")
    rows = run(conn, "child_sessions", session_id="ses_root")
    assert columns(rows, "depth", "session_id") == [(1, "ses_child"), (2, "ses_grand")]


def test_tools_of_a_session_come_with_failures_and_time(conn: sqlite3.Connection) -> None:
    assert run(conn, "session_tools", session_id="ses_root") == [
        {
            "tool": "bash",
            "calls": 2,
            "failed": 1,
            "failed_percent": 50.0,
            "total_seconds": 6.0,
            "mean_seconds": 3.0,
            "last_used": "2026-12-01T01:02:00.000Z",
        },
        {
            "tool": "read",
            "calls": 1,
            "failed": 0,
            "failed_percent": 0.0,
            "total_seconds": 0.5,
            "mean_seconds": 0.5,
            "last_used": "2026-12-01T01:01:00.000Z",
        },
    ]
    assert run(conn, "session_tools", session_id="ses_child") == []


def test_tools_used_leaves_out_calls_that_a_fork_copied(conn: sqlite3.Connection) -> None:
    rows = run(conn, "tools_used")
    assert columns(rows, "tool", "calls", "sessions", "failed", "failed_percent") == [
        ("bash", 2, 1, 1, 50.0),
        ("read", 1, 1, 0, 0.0),
    ]


def test_shell_commands_are_those_of_tools_and_of_the_user(conn: sqlite3.Connection) -> None:
    wanted = ("time", "command", "run_by", "status", "seconds", "session_id", "message_id")
    assert columns(run(conn, "shell_commands"), *wanted) == [
        ("2026-12-01T01:02:00.000Z", "git push", "bash", "completed", 2.0, "ses_root", "msg_3"),
        ("2026-12-01T01:01:00.000Z", "npm test", "bash", "error", 4.0, "ses_root", "msg_2"),
        ("2026-11-30T01:01:00.000Z", "ls -la", "user", "completed", None, "ses_anna", "msg_9"),
    ]
    assert columns(run(conn, "shell_commands", text="GIT "), "command") == [("git push",)]
    assert columns(run(conn, "shell_commands", text="ls"), "command") == [("ls -la",)]
    assert run(conn, "shell_commands", text='"push"') == []
    # "exit 1" is what a command printed, not a command.
    assert run(conn, "shell_commands", text="exit 1") == []


def test_text_of_a_session_is_in_its_order(conn: sqlite3.Connection) -> None:
    rows = run(conn, "session_text", session_id="ses_root")
    assert columns(rows, "seq", "role", "kind", "name", "text") == [
        (0, "user", "text", None, "The login fails"),
        (1, "assistant", "text", None, "Looking."),
        (1, "assistant", "tool", "bash", "bash"),
        (1, "assistant", "input", "command", "npm test"),
        (1, "assistant", "error", None, "exit 1"),
        (1, "assistant", "tool", "read", "read"),
        (1, "assistant", "input", "filePath", "a.ts"),
        (1, "assistant", "output", None, "code"),
        (2, "assistant", "tool", "bash", "bash"),
        (2, "assistant", "input", "command", "git push"),
        (2, "assistant", "output", None, "ok"),
    ]


def test_todo_lists_keep_their_order(conn: sqlite3.Connection) -> None:
    wanted = ("session_id", "position", "content", "status", "priority")
    items = [
        ("ses_root", 0, "Find it", "completed", "high"),
        ("ses_root", 1, "Fix it", "pending", "low"),
    ]
    assert columns(run(conn, "todo_lists"), *wanted) == items
    assert columns(run(conn, "todo_lists", session_id="ses_root"), *wanted) == items
    assert run(conn, "todo_lists", session_id="ses_child") == []


def test_sessions_with_a_tool_leave_out_copied_calls(conn: sqlite3.Connection) -> None:
    wanted = ("tool", "session_id", "calls", "failed", "first_call", "last_call")
    assert columns(run(conn, "sessions_with_tool", tool="bash"), *wanted) == [
        ("bash", "ses_root", 2, 1, "2026-12-01T01:01:00.000Z", "2026-12-01T01:02:00.000Z")
    ]
    assert columns(run(conn, "sessions_with_tool"), "tool") == [("bash",), ("read",)]


@pytest.fixture
def auckland(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("auckland")
def test_days_are_local_ones(conn: sqlite3.Connection) -> None:
    conn.execute(f"UPDATE sessions SET created = {T0 - 720 * MINUTE} WHERE id = 'ses_fork'")
    assert columns(run(conn, "sessions_per_day"), "day", "sessions", "subagents", "projects") == [
        ("2026-12-01", 2, 2, 1),
        ("2026-11-30", 1, 1, 1),
    ]
    conn.execute(f"UPDATE sessions SET created = {T0 + 720 * MINUTE} WHERE id = 'ses_fork'")
    assert columns(run(conn, "sessions_per_day"), "day", "sessions") == [
        ("2026-12-02", 1),
        ("2026-12-01", 1),
        ("2026-11-30", 1),
    ]


@pytest.mark.usefixtures("auckland")
def test_cost_per_day_adds_up(conn: sqlite3.Connection) -> None:
    wanted = ("day", "cost", "tokens_input", "tokens_output", "tokens_reasoning", "sessions")
    assert columns(run(conn, "cost_per_day"), *wanted) == [
        ("2026-12-01", 1.9375, 117, 26, 3, 4),
        ("2026-11-30", 2.75, 0, 0, 0, 2),
    ]


def test_cost_per_project_adds_up(conn: sqlite3.Connection) -> None:
    assert columns(
        run(conn, "cost_per_project"), "project_id", "cost", "tokens", "sessions", "last_activity"
    ) == [
        ("prj_two", 2.75, 0, 2, "2026-11-30T01:00:00.000Z"),
        ("prj", 1.9375, 146, 4, "2026-12-01T01:09:00.000Z"),
    ]


def test_cost_per_model_adds_up(conn: sqlite3.Connection) -> None:
    assert columns(
        run(conn, "cost_per_model"), "provider", "model", "cost", "answers", "sessions"
    ) == [
        ("acme", "large", 2.8125, 4, 3),
        ("acme", "small", 1.0, 1, 1),
        (None, "small", 0.875, 2, 2),
    ]


def test_a_subagent_spends_for_its_parents_end_user(conn: sqlite3.Connection) -> None:
    assert columns(run(conn, "cost_per_end_user"), "end_user", "cost", "sessions") == [
        ("anna", 2.75, 2),
        (None, 1.9375, 4),
    ]


def test_statistics_describe_the_whole_index(conn: sqlite3.Connection) -> None:
    assert [tuple(row.values()) for row in run(conn, "statistics")] == [
        ("Sessions", 6),
        ("of them subagents", 3),
        ("of them archived", 1),
        ("Projects", 2),
        ("Messages", 9),
        ("of them prompts", 2),
        ("of them answers", 7),
        ("Tool calls", 3),
        ("of them failed", 1),
        ("Edited files", 0),
        ("Tokens", 146),
        ("Cost in US dollars", 4.6875),
        ("Answers not priced", 0),
        ("First session begun", "2026-11-30T01:00:00.000Z"),
        ("Last activity", "2026-12-01T01:09:00.000Z"),
    ]


@pytest.mark.parametrize(
    "name", ["cost_per_day", "cost_per_project", "cost_per_model", "cost_per_end_user"]
)
def test_costs_agree_with_the_view_to_the_cent(conn: sqlite3.Connection, name: str) -> None:
    own, roots = conn.execute(
        "SELECT sum(own_cost), (SELECT sum(c.total_cost) FROM session_costs c"
        " JOIN sessions s USING (id) WHERE s.parent_id IS NULL) FROM session_costs"
    ).fetchone()
    assert own == roots == 4.6875
    assert round(sum(row["cost"] for row in run(conn, name)), 2) == round(own, 2)


@pytest.mark.parametrize("name", [query.name for query in QUERIES])
def test_query_answers_on_an_index_without_sessions(tmp_path: Path, name: str) -> None:
    path = fill(tmp_path / "history.db")
    with closing(sqlite3.connect(path)) as conn:
        conn.row_factory = sqlite3.Row
        add_functions(conn)
        rows = run(conn, name)
    assert name == "statistics" or rows == []


@pytest.mark.parametrize("name", [query.name for query in QUERIES])
def test_every_time_is_readable_and_no_column_holds_milliseconds(
    conn: sqlite3.Connection, name: str
) -> None:
    [query] = [q for q in QUERIES if q.name == name]
    params = {"session_id": "ses_root", "hours": "1000000"}
    rows = run(conn, name, **{k: v for k, v in params.items() if k in query.params})
    assert rows
    for row in rows:
        for column, value in row.items():
            if column in TIME_COLUMNS:
                assert ISO.fullmatch(value), column
            else:
                assert not (isinstance(value, int) and value > 10**11), column


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> Datasette:
    """Datasette as it comes, with a limit of one second per query; nobody may write SQL."""
    index = fill(tmp_path / "history.db", *login_sessions(), *import_sessions())
    ds = Datasette([str(index)], settings={"default_allow_sql": False})
    await ds.invoke_startup()
    return ds


@pytest.mark.asyncio
@pytest.mark.parametrize("name", [query.name for query in QUERIES])
async def test_query_has_a_page_of_its_own_on_either_datasette(
    served: Datasette, name: str
) -> None:
    [query] = [q for q in QUERIES if q.name == name]
    page = await served.client.get(f"/history/{name}")
    assert page.status_code == 200
    assert query.title in page.text
    assert query.description.split("'")[0] in page.text
    for param in query.params:
        assert f'name="{param}"' in page.text


@pytest.mark.asyncio
async def test_query_answers_over_http_with_its_parameter(served: Datasette) -> None:
    url = "/history/child_sessions.json?_shape=array&session_id=ses_root"
    rows = (await served.client.get(url)).json()
    assert columns(rows, "depth", "session_id") == [(1, "ses_child"), (2, "ses_grand")]


@pytest.mark.asyncio
async def test_other_databases_get_no_canned_queries(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as conn:
        conn.execute("CREATE TABLE notes (text)")
    ds = Datasette([str(fill(tmp_path / "history.db")), str(other)])
    await ds.invoke_startup()
    assert (await ds.client.get("/history/statistics")).status_code == 200
    assert (await ds.client.get("/other/statistics")).status_code == 404


def test_every_query_says_what_it_does() -> None:
    assert len({query.title for query in QUERIES}) == len(QUERIES)
    for query in QUERIES:
        assert re.fullmatch(r"[a-z_]+", query.name)
        assert query.title.strip()
        assert query.description.endswith(".")
        named = set(re.findall(r"(?<![\w':]):([a-z_]+)", query.sql))
        assert named == set(query.params), query.name
        assert for_hook()[query.name]["sql"] == query.sql
