"""Which of the matching sessions are listed, and which stand behind another one.

A fork that matches only by what it copied says nothing that its origin does not say, so it
stands behind the origin. Where that is asked for, subagents stand behind their root.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from datasette_history.matching import Criteria, Matcher, PathFilter
from datasette_history.paths import spellings
from datasette_history.schema import session_range

_FORKS = """
SELECT s.num, o.num FROM sessions s INDEXED BY sessions_forked
JOIN sessions o ON o.id = s.forked_from WHERE s.forked_from IS NOT NULL
"""

_CHILDREN = """
SELECT s.num, p.num FROM sessions s INDEXED BY sessions_parent
JOIN sessions p ON p.id = s.parent_id WHERE s.parent_id IS NOT NULL
"""

# A title's words are the origin's where the origin has the same title, the fork's number apart.
_DOCUMENTS = """
SELECT o.num, d.message_id = '', d.message_id <> '' AND d.copied = 0
FROM json_each(:ids) wanted CROSS JOIN documents d ON d.id = wanted.value
LEFT JOIN sessions o ON o.id = d.copied_from
"""

_TITLES = "SELECT num, title FROM sessions WHERE num IN (?, ?)"

_EDITS = """
SELECT e.document_id, e.path FROM document_paths e WHERE e.document_id BETWEEN ? AND ?
"""

_IDS = "SELECT id FROM sessions WHERE num IN (SELECT value FROM json_each(?)) ORDER BY id"


@dataclass(frozen=True, slots=True)
class Behind:
    """Ids of the matching sessions that stand behind a listed one.

    shown: number of the session whose messages are its hits: itself, or where it does not
    match, the subagent last active.
    """

    shown: int
    forks: tuple[str, ...] = ()
    subagents: tuple[str, ...] = ()


class Groups:
    """The matching sessions of a search, grouped. fold_subagents: list roots for them."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        matcher: Matcher,
        criteria: Criteria,
        *,
        fold_subagents: bool = False,
    ) -> None:
        self._conn = conn
        self._matcher = matcher
        self._criteria = criteria
        self._fold = fold_subagents
        self._targets: dict[int, int | None] = {}
        self._shown: dict[int, int] = {}

    def heads(self) -> Iterator[int]:
        """Yield the numbers of the listed sessions, the newest match first."""
        for num in self._matcher.newest_first():
            if self.origin(num) is not None:
                continue
            head = self._root(num)
            if head not in self._shown:
                self._shown[head] = head if head in self._matcher.matching([head]) else num
                yield head

    def behind(self, head: int) -> Behind:
        """Return what stands behind a session that heads() has yielded."""
        forks = self._matching(_below(head, self._forks_of)) if self._forks_of else []
        forks = [num for num in forks if self.origin(num) == head]
        agents = self._matching(_below(head, self._children_of)) if self._fold else []
        agents = [num for num in agents if self.origin(num) is None]
        return Behind(self._shown.get(head, head), self._ids(forks), self._ids(agents))

    def origin(self, num: int) -> int | None:
        """Return the listed session that says all that a matching fork was found by.

        None for other sessions, and where the origin itself does not match or is not searched.
        """
        if num not in self._fork_of or not (self._criteria.words or self._criteria.path):
            return None
        if num not in self._targets:
            self._targets[num] = self._find_origin(num)
        return self._targets[num]

    def _find_origin(self, num: int) -> int | None:
        chain = list(_above(num, self._fork_of))
        if chain[-1] in self._fork_of:
            return None  # a circle, as bad data can hold
        origins: set[int | None] = set()
        for ids in self._found_by(num):
            for origin, is_title, is_own in self._conn.execute(_DOCUMENTS, {"ids": ids}):
                if is_own or (is_title and not self._has_title_of(num, chain[-1])):
                    return None
                origins |= set() if is_title else {origin}
        for place in reversed(range(len(chain))):
            if origins <= set(chain[place:]):
                top = chain[place]
                return (self.origin(top) or top) if self._is_found(top) else None
        return None

    def _found_by(self, num: int) -> Iterator[str]:
        """Yield the documents, as JSON, by which each word and the path matched."""
        for word in self._criteria.words:
            yield json.dumps(self._matcher.documents(num, word))
        if path := self._criteria.path:
            edits = self._conn.execute(_EDITS, session_range(num))
            yield json.dumps([i for i, edited in edits if _is_path(path, edited)])

    def _has_title_of(self, num: int, origin: int) -> bool:
        titles = dict(self._conn.execute(_TITLES, (num, origin)).fetchall())
        return len({title.partition(" (fork #")[0] for title in titles.values()}) == 1

    def _is_found(self, num: int) -> bool:
        return num in self._matcher.matching([num]) and self._matcher.in_scope(num)

    def _matching(self, nums: Iterable[int]) -> list[int]:
        asked = [num for num in nums if self._matcher.in_scope(num)]
        return sorted(self._matcher.matching(asked))

    def _root(self, num: int) -> int:
        """Return the topmost ancestor in scope; in a circle of parents, num itself."""
        root = num
        if self._fold:
            for ancestor in _above(num, self._parent_of):
                if self._matcher.in_scope(ancestor):
                    root = ancestor
        return root

    def _ids(self, nums: list[int]) -> tuple[str, ...]:
        return tuple(i for (i,) in self._conn.execute(_IDS, (json.dumps(nums),))) if nums else ()

    @cached_property
    def _fork_of(self) -> Mapping[int, int]:
        return dict(self._conn.execute(_FORKS).fetchall())

    @cached_property
    def _forks_of(self) -> Mapping[int, list[int]]:
        return _turned(self._fork_of)

    @cached_property
    def _parent_of(self) -> Mapping[int, int]:
        return dict(self._conn.execute(_CHILDREN).fetchall())

    @cached_property
    def _children_of(self) -> Mapping[int, list[int]]:
        return _turned(self._parent_of)


def _is_path(path: PathFilter, edited: str) -> bool:
    if path.absolute:
        return edited in spellings(path.path)
    return edited == path.path or edited.endswith(f"/{path.path}")


def _turned(links: Mapping[int, int]) -> Mapping[int, list[int]]:
    turned: defaultdict[int, list[int]] = defaultdict(list)
    for below, above in links.items():
        turned[above].append(below)
    return turned


def _above(num: int, links: Mapping[int, int]) -> Iterator[int]:
    """Yield what stands above, nearest first; a circle, as bad data can hold, ends it."""
    seen = {num}
    while (num := links.get(num, num)) not in seen:
        seen.add(num)
        yield num


def _below(num: int, links: Mapping[int, list[int]]) -> Iterator[int]:
    seen = {num}
    waiting = [num]
    while waiting:
        for below in links.get(waiting.pop(), ()):
            if below not in seen:
                seen.add(below)
                waiting.append(below)
                yield below
