"""``database=all``: one question to every attached index, such as those of several machines.

Each result says in ``database`` which index, and so which machine, it is from. A session that
several machines hold is returned once for each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from datasette import Forbidden

from datasette_history.database import attached_indexes
from datasette_history.errors import HistoryError, IndexMismatch, NotInIndex, TimeLimitExceeded
from datasette_history.parameters import PROJECTS_CAP
from datasette_history.permissions import can_view
from datasette_history.render import Json, as_json
from datasette_history.results import Answer
from datasette_history.text import as_text
from datasette_history.tools import TOOLS
from datasette_history.web import Call, Index, open_index

if TYPE_CHECKING:
    from datasette.app import Datasette
    from datasette.utils.asgi import Request

EVERYWHERE: Final = "all"

ORDER: Final[Mapping[str, str]] = {
    "sessions": "updated", "edits": "timestamp", "projects": "sessions",
}  # fmt: skip
"""The lists of results, and what each is sorted by, largest first."""

Ask = Callable[[Index, str, Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The answers by index, in the order in which the indexes are attached.

    unavailable: what kept others from answering, by the index's name.
    """

    answers: Sequence[tuple[Index, Answer]]
    unavailable: Mapping[str, str]


def is_everywhere(datasette: Datasette, wanted: Call) -> bool:
    """Tell whether every index is asked; a database of that name goes before."""
    return wanted.database == EVERYWHERE and EVERYWHERE not in datasette.databases


async def ask_everywhere(
    datasette: Datasette, request: Request, tool: str, wanted: Call, ask: Ask
) -> Everywhere:
    """Ask all indexes that the actor may see; one that cannot answer keeps no other from it.

    Raises Forbidden where the actor may see none, and what the first raised where all failed.
    """
    answers: list[tuple[Index, Answer]] = []
    unavailable: dict[str, str] = {}
    absent: HistoryError | None = None
    visible = 0
    for name in await attached_indexes(datasette):
        if not await can_view(datasette, request.actor, name):
            continue
        visible += 1
        index = await open_index(datasette, request, name)
        try:
            answers.append((index, await ask(index, tool, wanted)))
        except NotInIndex as error:
            absent = absent or error
        except (IndexMismatch, TimeLimitExceeded) as error:
            unavailable[name] = str(error)
    if not visible:
        raise Forbidden("view-database")
    if not answers and absent is not None:
        raise absent
    if not answers:
        raise IndexMismatch(*(f"{name}: {error}" for name, error in unavailable.items()))
    return Everywhere(answers, unavailable)


def merged_json(tool: str, wanted: Call, found: Everywhere) -> Json:
    """Return one answer: newest first, no more than the limit, each result with its database.

    Of `read`, the answer of the machine whose copy of the session was active last.
    """
    bodies = [(index.database, as_json(answer, index.url_for)) for index, answer in found.answers]
    if tool == "read":
        name, body = max(bodies, key=lambda pair: pair[1]["updated"])
        return {**body, "database": name}
    merged: Json = dict(bodies[0][1])
    limit = _limit(tool, wanted)
    for key, order in ORDER.items():
        if key not in merged:
            continue
        items: list[dict[str, Any]] = [
            {**item, "database": name} for name, body in bodies for item in body[key]
        ]
        items.sort(key=lambda item: item[order], reverse=True)
        more = any(body["hasMore"] for _, body in bodies) or len(items) > limit
        merged |= {key: items[:limit], "hasMore": more}
        break
    merged["databases"] = [name for name, _ in bodies]
    if found.unavailable:
        merged["unavailable"] = dict(found.unavailable)
    return merged


def merged_text(found: Everywhere) -> str:
    """Return the answers as texts, one machine's after the other's."""
    pieces = [f"# {index.database}\n\n{as_text(answer)}" for index, answer in found.answers]
    pieces += [f"# {name}\n\n{error}\n" for name, error in found.unavailable.items()]
    return "\n".join(pieces)


def _limit(tool: str, wanted: Call) -> int:
    if wanted.inputs.get("show") == "projects":
        default, cap = PROJECTS_CAP, PROJECTS_CAP
    else:
        limit = next(p for p in TOOLS[tool].parameters if p.name == "limit")
        default, cap = int(limit.default or 0), limit.cap or 0
    return min(int(wanted.inputs.get("limit") or default), cap)
