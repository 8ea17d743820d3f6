"""Who may see the index: Datasette's own permission ``view-database``.

With queries.py the only place that differs between Datasette 0.65 and 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datasette import Forbidden

if TYPE_CHECKING:
    from datasette.app import Datasette

Actor = dict[str, Any] | None


async def can_view(datasette: Datasette, actor: Actor, database: str) -> bool:
    """Tell whether the actor may see the database."""
    if hasattr(datasette, "ensure_permissions"):
        try:
            # As Datasette 0.65 guards its own pages: a rule for the database goes before one
            # for the instance.
            await datasette.ensure_permissions(
                actor, [("view-database", database), "view-instance"]
            )
        except Forbidden:
            return False
        return True
    # Only Datasette 1.0 has this module.
    from datasette.resources import DatabaseResource  # noqa: PLC0415

    return bool(
        await datasette.allowed(
            action="view-database", resource=DatabaseResource(database), actor=actor
        )
    )
