"""What Datasette's own pages show of ours: a link in the menu, a word about the sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datasette import Forbidden

from datasette_history.config import Config
from datasette_history.database import viewable_index
from datasette_history.errors import HistoryError
from datasette_history.pages.cells import holds_index
from datasette_history.pages.site import STATIC
from datasette_history.permissions import Actor

if TYPE_CHECKING:
    from datasette.app import Datasette


async def menu(datasette: Datasette, actor: Actor) -> list[dict[str, str]]:
    """Return the link to the search page, for those who may see an index."""
    try:
        await viewable_index(datasette, actor, Config.from_datasette(datasette), None)
    except (Forbidden, HistoryError):
        return []
    return [{"href": datasette.urls.path("/-/history"), "label": "Search sessions"}]


def template_variables(datasette: Datasette) -> dict[str, bool]:
    return {"history_sample": Config.from_datasette(datasette).sample}


def styles(datasette: Datasette, database: str | None) -> list[str]:
    """Return the addresses of styles for a page of Datasette's own."""
    names = ["sample.css"] if Config.from_datasette(datasette).sample else []
    if database is not None and holds_index(datasette, database):
        names.append("tables.css")
    return [datasette.urls.static_plugins(STATIC, name) for name in names]
