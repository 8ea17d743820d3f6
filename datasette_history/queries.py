"""The canned queries over the index, as data, and how either Datasette learns of them.

Datasette 0.65 asks a hook for them on every request; 1.0 keeps them in a table of its own and
is told once, at startup.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from datasette_history.database import attached_indexes

if TYPE_CHECKING:
    from datasette.app import Datasette


@dataclass(frozen=True, slots=True, kw_only=True)
class CannedQuery:
    """One query under ``/<database>/<name>``.

    params: names of its parameters in the order of the form; each may be empty.
    """

    name: str
    title: str
    description: str
    params: tuple[str, ...]
    sql: str


def _load() -> tuple[CannedQuery, ...]:
    text = files(__package__).joinpath("queries.toml").read_text(encoding="utf-8")
    return tuple(
        CannedQuery(
            name=name,
            title=entry["title"],
            description=entry["description"],
            params=tuple(entry["params"]),
            sql=entry["sql"].strip(),
        )
        for name, entry in tomllib.loads(text).items()
    )


QUERIES: Final = _load()


def for_hook() -> dict[str, dict[str, Any]]:
    """Return the queries as the hook ``canned_queries`` of Datasette 0.65 wants them."""
    return {
        query.name: {
            "title": query.title,
            "description": query.description,
            "params": list(query.params),
            "sql": query.sql,
        }
        for query in QUERIES
    }


async def register_all(datasette: Datasette) -> None:
    """Tell Datasette of the queries for every attached index."""
    for name in await attached_indexes(datasette):
        await register(datasette, name)


async def register(datasette: Datasette, database: str) -> None:
    """Tell Datasette 1.0 of the queries for one database; nothing to do for 0.65.

    They are trusted: who may see a query may run it, as on 0.65, without the right to run
    SQL of their own.
    """
    if not hasattr(datasette, "add_query"):
        return
    for query in QUERIES:
        await datasette.add_query(
            database,
            query.name,
            query.sql,
            title=query.title,
            description=query.description,
            parameters=query.params,
            is_trusted=True,
        )
