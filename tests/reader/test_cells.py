"""Cells of Datasette's tables: readable, linked, and left alone in other databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from datasette.app import Datasette

from sync.model import Part
from tests.builders import T0, assistant, copy, fill, session, user
from tests.reader.test_pages import get

TIME = '<time datetime="2026-12-01T01:00:00.000Z" title="1796086800000 ms, UTC">2026-12-01 01:00:00'


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return fill(
        tmp_path / "history.db",
        copy(
            session("ses_a", "A <b>title</b>", at=T0),
            user("msg_1", "x" * 400),
            assistant("msg_2", Part(kind="text", text="ok"), cost=0.125, edits=["/a b/<i>.ts"]),
        ),
        copy(session("ses_b", "Child", parent_id="ses_a", at=T0)),
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "cell"),
    [
        pytest.param("/history/sessions", TIME, id="time"),
        pytest.param(
            "/history/sessions",
            '<a href="/-/history/session/ses_a"><bdi>A &lt;b&gt;title&lt;/b&gt;</bdi></a>',
            id="title",
        ),
        pytest.param("/history/sessions", 'href="/-/history/project/prj"', id="project"),
        pytest.param(
            "/history/documents", 'href="/-/history/session/ses_b" title="ses_b">', id="session"
        ),
        pytest.param(
            "/history/messages", 'href="/-/history/session/ses_a?at=msg_1#msg_1"', id="message"
        ),
        pytest.param("/history/messages", '<span title="0.125 US dollars">$0.1250', id="cost"),
        pytest.param("/history/messages", "all 400 characters</a>", id="long-text"),
        pytest.param(
            "/history/file_edits",
            'href="/-/history/file?path=%2Fa+b%2F%3Ci%3E.ts"><bdi>/a b/&lt;i&gt;.ts</bdi>',
            id="path",
        ),
        pytest.param(
            "/history/session_costs", 'href="/-/history/session/ses_a"', id="session-of-a-view"
        ),
        pytest.param(
            "/history/recent_sessions?hours=999999",
            'href="/-/history/session/ses_a"',
            id="canned-query",
        ),
    ],
)
async def test_cells_are_readable_and_lead_to_the_pages(index: Path, path: str, cell: str) -> None:
    response = await get(Datasette([str(index)]), path)
    assert response.status_code == 200
    assert cell in response.text


@pytest.mark.asyncio
async def test_data_stays_as_it_is(index: Path) -> None:
    response = await get(Datasette([str(index)]), "/history/sessions.json?_shape=objects")
    assert {row["updated"] for row in response.json()["rows"]} == {T0}


@pytest.mark.asyncio
async def test_other_databases_are_left_alone(index: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as conn, conn:
        conn.execute("CREATE TABLE sessions (id TEXT, updated INTEGER, path TEXT)")
        conn.execute("INSERT INTO sessions VALUES ('ses_a', 1796086800000, '/a')")
    ds = Datasette([str(index), str(other)])
    response = await get(ds, "/other/sessions")
    assert "/-/history/session/" not in response.text
    assert "<time" not in response.text
    assert "/-/history/file" not in response.text
    assert (
        'href="/-/history/session/ses_a?database=history"'
        in (await get(ds, "/history/sessions")).text
    )


@pytest.mark.asyncio
async def test_tables_of_the_index_have_a_style_and_others_do_not(
    index: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as conn, conn:
        conn.execute("CREATE TABLE sessions (id TEXT)")
    ds = Datasette([str(index), str(other)])
    style = "/-/static-plugins/datasette_history/tables.css"
    assert style in (await get(ds, "/history/sessions")).text
    assert style not in (await get(ds, "/other/sessions")).text
    assert (await get(ds, style)).status_code == 200
