"""The dashboard of metadata.yml: every chart's question, with and without its filters."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from datasette.app import Datasette

from datasette_history.resources import metadata_path
from sync.index import Index
from sync.model import Project
from tests.builders import T0, assistant, copy, fill, session, tokens, tool, user

dashboards = pytest.importorskip(
    "datasette_dashboards", reason="datasette-dashboards is not installed"
)

DAY = 24 * 60 * 60_000
APP, SITE = "/home/dev/app", "/home/dev/site"
EDITED = f"{APP}/a.ts"


@pytest.fixture(scope="module")
def metadata() -> Any:
    return yaml.safe_load(metadata_path().read_text(encoding="utf-8"))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    noon = T0 + 11 * 60 * 60_000  # the same day in every zone that tests run in
    path = fill(
        tmp_path / "history.db",
        copy(
            session("ses_a", at=noon, project_id="app"),
            user("msg_1", "Go", at=noon),
            assistant(
                "msg_2",
                tool("bash", output="ok", started_ms=noon, ended_ms=noon + 3000),
                tool("bash", call=1, error="no", status="error", started_ms=noon, ended_ms=noon),
                cost=1.0, model="sonnet", tokens=tokens(100, 10), edits=[EDITED], at=noon,
            ),
        ),
        copy(
            session("ses_sub", at=noon, project_id="app", parent_id="ses_a"),
            assistant("msg_3", cost=0.5, model="opus", tokens=tokens(7), at=noon),
        ),
        copy(
            session("ses_b", at=noon + 2 * DAY, project_id="site", directory=SITE),
            assistant("msg_4", cost=0.25, model="opus", tokens=tokens(1), at=noon + 2 * DAY),
        ),
    )  # fmt: skip
    with Index.open(path) as opened, opened.transaction():
        opened.save_projects([Project(id="app", directory=APP), Project(id="site", directory=SITE)])
    return path


@pytest.fixture
def rows(index: Path, metadata: Any) -> Iterator[Any]:
    charts = metadata["plugins"]["datasette-dashboards"]["history"]["charts"]
    with closing(sqlite3.connect(index)) as conn:

        def answer(chart: str, **filters: str) -> list[tuple[Any, ...]]:
            query = dashboards.replace_opts_in_query(charts[chart]["query"], filters)
            return conn.execute(query, filters).fetchall()

        yield answer


def test_charts_count_what_happened_once(rows: Any) -> None:
    assert rows("sessions") == [
        ("2026-12-01", "main", 1), ("2026-12-01", "subagents", 1), ("2026-12-03", "main", 1),
    ]  # fmt: skip
    assert rows("cost") == [("2026-12-01", 1.5), ("2026-12-03", 0.25)]
    assert rows("projects") == [(APP, 1.5), (SITE, 0.25)]
    assert sorted(rows("tokens")) == [
        ("2026-12-01", "opus", 7), ("2026-12-01", "sonnet", 110), ("2026-12-03", "opus", 1),
    ]  # fmt: skip
    assert sorted(rows("calls")) == [("bash", "completed", 1), ("bash", "failed", 1)]
    assert rows("failures") == [("bash", 50.0, 2)]
    assert rows("times") == [("bash", 1.5, 2)]
    assert rows("files") == [(EDITED, 1)]
    assert [(day, n) for _, day, _, n in rows("activity")] == [("Tuesday", 1)]


def test_filters_choose_project_and_days(rows: Any) -> None:
    assert rows("cost", project=SITE) == [("2026-12-03", 0.25)]
    assert rows("cost", from_day="2026-12-02") == [("2026-12-03", 0.25)]
    assert rows("cost", to_day="2026-12-01", project=APP) == [("2026-12-01", 1.5)]
    assert rows("files", project=SITE) == []


def test_every_chart_takes_every_filter(rows: Any, metadata: Any) -> None:
    board = metadata["plugins"]["datasette-dashboards"]["history"]
    filters = {"project": APP, "from_day": "2026-11-01", "to_day": "2026-12-31"}
    assert set(board["filters"]) == set(filters)
    for chart in board["charts"]:
        assert rows(chart, **filters), chart
    laid_out = {chart for row in board["layout"] for chart in row}
    assert laid_out == set(board["charts"])


@pytest.mark.asyncio
async def test_the_dashboard_is_served(index: Path, metadata: Any) -> None:
    if not hasattr(Datasette, "permission_allowed"):
        pytest.skip("not applicable: datasette-dashboards does not work with Datasette 1.0")
    ds = Datasette([str(index)], metadata=metadata)
    await ds.invoke_startup()
    page = await ds.client.get("/-/dashboards/history")
    assert page.status_code == 200
    assert f'<option value="{APP}"' in page.text
    chart = await ds.client.get("/-/dashboards/history/cost")
    assert "View and edit SQL" in chart.text
