"""metadata.yml describes the index as it is: nothing left out, nothing that is not there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from datasette.app import Datasette

from datasette_history import schema
from datasette_history.resources import metadata_path
from sync.model import FileEdit
from tests.builders import assistant, copy, fill, session, tool, user

TABLE_SETTINGS = {"title", "description", "columns", "label_column", "sort_desc", "size", "facets"}


@pytest.fixture(scope="module")
def metadata() -> dict[str, Any]:
    loaded = yaml.safe_load(metadata_path().read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.fixture(scope="module")
def tables(metadata: dict[str, Any]) -> dict[str, dict[str, Any]]:
    described = metadata["databases"]["history"]["tables"]
    assert isinstance(described, dict)
    return described


@pytest.fixture(scope="module")
def columns() -> Iterator[dict[str, list[str]]]:
    """Columns of every table and view of the schema but the full-text index's own tables."""
    with closing(sqlite3.connect(":memory:")) as conn:
        conn.executescript(schema.ddl())
        names = [
            name
            for name, kind in conn.execute("SELECT name, type FROM pragma_table_list")
            if kind != "shadow" and not name.startswith("sqlite_")
        ]
        yield {
            name: [c for (c,) in conn.execute("SELECT name FROM pragma_table_info(?)", (name,))]
            for name in names
        }


def test_every_table_and_view_is_described_and_no_other(
    tables: dict[str, dict[str, Any]], columns: dict[str, list[str]]
) -> None:
    assert sorted(tables) == sorted(columns)
    for table in tables.values():
        assert table["title"].strip()
        assert table["description"].strip().endswith(".")


def test_every_column_is_described_in_its_order_and_no_other(
    tables: dict[str, dict[str, Any]], columns: dict[str, list[str]]
) -> None:
    assert {name: list(table["columns"]) for name, table in tables.items()} == columns
    for table in tables.values():
        assert all(isinstance(text, str) and text.strip() for text in table["columns"].values())


def test_settings_name_columns_that_exist(
    tables: dict[str, dict[str, Any]], columns: dict[str, list[str]]
) -> None:
    for name, table in tables.items():
        assert table.keys() <= TABLE_SETTINGS
        for column in (table.get("label_column"), table.get("sort_desc"), *table.get("facets", ())):
            assert column is None or column in columns[name]


@pytest.mark.asyncio
async def test_every_table_and_view_opens_with_its_description(
    tmp_path: Path, metadata: dict[str, Any], tables: dict[str, dict[str, Any]]
) -> None:
    index = fill(
        tmp_path / "history.db",
        copy(
            session("ses_a", "Fix the login"),
            user("msg_1", "The login fails"),
            assistant(
                "msg_2",
                tool("edit", output="ok", filePath="a.ts"),
                edits=[FileEdit(path="a.ts", tool="edit")],
            ),
        ),
    )
    ds = Datasette([str(index)], metadata=metadata)
    await ds.invoke_startup()
    for name, table in tables.items():
        response = await ds.client.get(f"/history/{name}")
        assert response.status_code == 200, name
        assert table["title"] in response.text
        for description in table["columns"].values():
            assert description.split("'")[0] in response.text or name == "documents_fts"


@pytest.mark.asyncio
async def test_only_the_index_of_the_text_is_hidden(
    tmp_path: Path, metadata: dict[str, Any], tables: dict[str, dict[str, Any]]
) -> None:
    index = fill(tmp_path / "history.db")
    ds = Datasette([str(index)], metadata=metadata)
    await ds.invoke_startup()
    listed = (await ds.client.get("/history.json")).json()
    shown = {table["name"] for table in listed["tables"] if not table["hidden"]}
    views = {view["name"] for view in listed["views"]}
    assert views == {"messages", "tool_calls", "file_edits", "session_costs"}
    assert shown == tables.keys() - views - {"documents_fts"}
