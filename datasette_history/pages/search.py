"""The routes of the search page: the whole of it, and its results alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from datasette import Response

from datasette_history.errors import InvalidInput
from datasette_history.pages.controls import Control, load_controls
from datasette_history.pages.results import Found, search
from datasette_history.pages.site import Site, argument, with_site
from datasette_history.pages.wanted import NAMES, Wanted
from datasette_history.web import context

Outcome = tuple[Found | None, tuple[str, ...]]


@with_site
async def search_page(site: Site) -> Response:
    """Answer ``/-/history``: controls and results, which work without scripts."""
    given = _given(site)

    def question(conn: sqlite3.Connection) -> tuple[dict[str, Control], Outcome]:
        return load_controls(conn, given), _search(conn, given)

    controls, outcome = await site.ask(question)
    found, problems = outcome
    filters = sum(bool(given[name]) for name in (*controls, "from", "to"))
    values = {
        **_values(site, given, found, problems),
        "controls": controls,
        "filters": filters,
    }
    return await site.page("history_search.html", values, 400 if problems else 200)


@with_site
async def results(site: Site) -> Response:
    """Answer ``/-/history/results``: the results alone, as a piece of the page."""
    given = _given(site)
    found, problems = await site.ask(lambda conn: _search(conn, given))
    values = _values(site, given, found, problems)
    return await site.page("history_results.html", values, 400 if problems else 200)


def _given(site: Site) -> dict[str, str]:
    return {name: argument(site.request, name) for name in NAMES}


def _search(conn: sqlite3.Connection, given: Mapping[str, str]) -> Outcome:
    """Return what was found, or what is wrong with the inputs, which the page then shows."""
    asked_from = context()
    try:
        return search(conn, Wanted.of(given), asked_from.now, asked_from.home), ()
    except InvalidInput as error:
        return None, error.messages


def _values(
    site: Site, given: Mapping[str, str], found: Found | None, problems: tuple[str, ...]
) -> dict[str, Any]:
    def link(**changed: str | int) -> str:
        """Return the address of this search with some inputs changed; "" leaves one out."""
        values = {**given, "timezone": "", "limit": "", **changed}
        return site.url("", **{name: value for name, value in values.items() if value})

    offset = datetime.now().astimezone().utcoffset()
    return {
        "given": given,
        "found": found,
        "problems": problems,
        "link": link,
        # Days are the machine's own until a script says whose calendar is meant.
        "utc_offset": round(offset.total_seconds() / 60) if offset else 0,
    }
