"""V2's paged lists: cursors that never come with an order, and pages that fail as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sync.errors import SourceUnavailable
from sync.sources.api_client import ApiClient, ServiceFault
from sync.values import filled, mapping

PAGE = 200
"""Items asked for at once, the most that the service allows."""


class Stuck(Exception):
    """A page of a single item answers 500: it holds what the service cannot decode."""

    def __init__(self, fault: ServiceFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(slots=True)
class WholeList:
    """missing: why something was not answered that stands after the first `before` items."""

    items: list[object] = field(default_factory=list)
    missing: ServiceFault | None = None
    before: int = 0


def pages(client: ApiClient, path: str, order: str) -> Iterator[object]:
    """Yield every item of a list, asking for ever smaller pages where one answers 500.

    Raises Stuck at an item that cannot be had, SourceUnavailable where a cursor comes twice.
    """
    limit, cursor, seen = PAGE, "", set[str]()
    while True:
        params = {"limit": str(limit)}
        params |= {"cursor": cursor} if cursor else {"order": order}
        try:
            answer = mapping(client.get(path, params).data)
        except ServiceFault as fault:
            if limit == 1:
                raise Stuck(fault) from fault
            limit //= 2
            continue
        items = answer.get("data")
        if not isinstance(items, list):
            raise SourceUnavailable(
                f"{client.name} answered {path} with something else than a page"
            )
        # A cursor comes with every page that holds something: only an empty page is the end.
        if not items:
            return
        yield from items
        cursor = filled(mapping(answer.get("cursor")).get("next")) or ""
        if not cursor:
            return
        if cursor in seen:
            raise SourceUnavailable(
                f"{client.name} answered {path} with the same cursor twice: its list has no end"
            )
        seen.add(cursor)


def whole_list(client: ApiClient, path: str) -> WholeList:
    """Read a list oldest first; where an item cannot be had, go on from the other end.

    So everything before the first and after the last such item is read.
    """
    found = WholeList()
    try:
        for item in pages(client, path, "asc"):
            found.items.append(item)
        return found
    except Stuck as stuck:
        found.missing = stuck.fault
        found.before = len(found.items)
    read = {_id(item) for item in found.items}
    rest: list[object] = []
    try:
        for item in pages(client, path, "desc"):
            if _id(item) in read:
                break
            rest.append(item)
        # Both ends have met: the fault has passed.
        found.missing = None
    except Stuck as stuck:
        found.missing = stuck.fault
    found.items += reversed(rest)
    return found


def _id(item: object) -> str | None:
    return filled(mapping(item).get("id"))
