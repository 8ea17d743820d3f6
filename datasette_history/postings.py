"""Where one word occurs, asked for the sessions that matter and no more.

FTS5 can begin to read at a document id, but reads on to the next match however far away that
is. So a word is never looked up session by session: sessions that stand close together are
read in one go, and what was seen to hold no match is remembered.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from typing import Final

from datasette_history.folding import variants
from datasette_history.schema import SLOT_BITS, session_range

RARE: Final = 1_000
"""Documents up to which a word is looked up whole, once."""

CLOSE: Final = 24
"""Sessions between two wanted ones that are cheaper to read over than to jump over."""

_FROM_START = """
SELECT rowid FROM documents_fts WHERE documents_fts MATCH :phrase ORDER BY rowid LIMIT :limit
"""

_FROM = """
SELECT rowid FROM documents_fts
WHERE documents_fts MATCH :phrase AND rowid >= :low ORDER BY rowid
"""

_SESSIONS = """
SELECT DISTINCT rowid >> :bits FROM documents_fts WHERE documents_fts MATCH :phrase
"""

# Beyond every document id.
_END: Final = 2**63 - 1


class Postings:
    """The documents that hold a word, whatever its case.

    rare: up to how many are looked up at once; the answers do not depend on it.
    """

    def __init__(self, conn: sqlite3.Connection, word: str, *, rare: int = RARE) -> None:
        self.word = word
        self._conn = conn
        self._phrase = phrase(word)
        self._gap = (0, 0)
        rows = conn.execute(_FROM_START, {"phrase": self._phrase, "limit": rare + 1}).fetchall()
        self._all = None if len(rows) > rare else _by_session(i for (i,) in rows)

    def everywhere(self) -> set[int]:
        """Return the numbers of all sessions with such a document, however many."""
        if self._all is not None:
            return set(self._all)
        rows = self._conn.execute(_SESSIONS, {"phrase": self._phrase, "bits": SLOT_BITS})
        return {num for (num,) in rows}

    @property
    def sessions(self) -> Collection[int] | None:
        """Numbers of all sessions with such a document; None for a common word."""
        return None if self._all is None else self._all.keys()

    def within(self, nums: Collection[int]) -> dict[int, list[int]]:
        """Return the ids of the word's documents in those sessions, by session, ascending."""
        if self._all is not None:
            return {num: self._all[num] for num in nums if num in self._all}
        found = _by_session(
            document_id for first, last in _runs(nums) for document_id in self._read(first, last)
        )
        return {num: ids for num, ids in found.items() if num in nums}

    def _read(self, first: int, last: int) -> Iterator[int]:
        """Yield the documents of the sessions from first to last."""
        low, high = session_range(first)[0], session_range(last)[1]
        # From the gap's start up to its end, which is a match, nothing else matches.
        if self._gap[0] <= low <= self._gap[1]:
            low = self._gap[1]
        if low > high:
            return
        with closing(self._conn.execute(_FROM, {"phrase": self._phrase, "low": low})) as rows:
            for (document_id,) in rows:
                if document_id > high:
                    self._gap = (low, document_id)
                    return
                low = document_id + 1
                yield document_id
        self._gap = (low, _END)


def phrase(word: str) -> str:
    """Return the full-text query for a literal word, in whatever case it stands."""
    return " OR ".join('"' + one.replace('"', '""') + '"' for one in variants(word))


def _by_session(ids: Iterable[int]) -> dict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for document_id in ids:
        found[document_id >> SLOT_BITS].append(document_id)
    return dict(found)


def _runs(nums: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of each run of session numbers that stand close together."""
    ordered = sorted(nums)
    if not ordered:
        return
    first = ordered[0]
    for one, following in pairwise(ordered):
        if following - one > CLOSE:
            yield first, one
            first = following
    yield first, ordered[-1]
