"""The one matching step behind the three searches: which sessions match.

Sessions are walked newest first, in blocks that grow, and each word is looked up for the
sessions of the block that are still in question; so a page costs the same however many
sessions match. Words that few documents hold are looked up whole, and only their sessions
are walked.
"""

from __future__ import annotations

import json
import posixpath
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from datasette_history.dates import DateRange
from datasette_history.excerpts import find
from datasette_history.paths import expand_home, is_absolute, spellings
from datasette_history.postings import RARE, Postings
from datasette_history.results import Scope
from datasette_history.schema import SLOT_BITS, session_range

FIRST_BLOCK: Final = 64
"""Sessions that are judged at once to begin with: a little more than a page."""

DATED_PER_RARE: Final = 20
"""A date narrows the search down to its own sessions up to this many messages per rare word."""

LARGEST_BLOCK: Final = 4_096

EVERYTHING: Final = Scope()

ALWAYS: Final = DateRange(-(2**63), 2**63 - 1)
"""Every instant that the index can hold."""

_ADMITTED = """
SELECT d.id FROM json_each(:ids) wanted CROSS JOIN documents d ON d.id = wanted.value
WHERE (:role IS NULL OR d.role IN (:role, 'title'))
  AND d.timestamp >= :start AND d.timestamp < :end
"""

_IN_ORDER = """
SELECT d.id, d.message_id, d.role, d.timestamp, d.copied, d.reverted
FROM json_each(:ids) wanted CROSS JOIN documents d ON d.id = wanted.value
ORDER BY d.role = 'title',
  EXISTS (SELECT 1 FROM parts p WHERE p.document_id = d.id AND p.kind = 'summary'), d.seq, d.id
"""

_DATED = """
SELECT 1 FROM documents
WHERE id BETWEEN :low AND :high
  AND (:role IS NULL OR role IN (:role, 'title'))
  AND timestamp >= :start AND timestamp < :end LIMIT 1
"""

_OWN_TEXT = "SELECT substr(text, 1, own_length) FROM documents WHERE id = ?"
_WHOLE_TEXT = "SELECT text FROM documents WHERE id = ?"

_EDITED_ABSOLUTE = """
SELECT DISTINCT document_id >> :bits FROM document_paths
WHERE path IN (SELECT value FROM json_each(:paths))
"""

_EDITED_RELATIVE = """
SELECT DISTINCT document_id >> :bits FROM document_paths
WHERE basename = :basename AND (path = :path OR substr(path, -length(:path) - 1) = '/' || :path)
"""

_DATED_MESSAGES = """
SELECT id >> :bits FROM documents INDEXED BY documents_timestamp
WHERE message_id <> '' AND timestamp >= :start AND timestamp < :end LIMIT :limit
"""

# A title is dated by its session's last activity.
_DATED_TITLES = "SELECT num FROM sessions WHERE updated >= :start AND updated < :end"

_IN_SCOPE = """
SELECT s.num FROM sessions s
WHERE (:projects IS NULL
    OR s.project_id IN (SELECT value FROM json_each(:projects))
    OR coalesce(s.project_id, 'global') = 'global'
      AND s.directory IN (SELECT value FROM json_each(:directories)))
ORDER BY s.updated DESC, s.id DESC
"""

_CANDIDATES_IN_SCOPE = """
SELECT s.num FROM json_each(:nums) wanted JOIN sessions s ON s.num = wanted.value
WHERE (:projects IS NULL
    OR s.project_id IN (SELECT value FROM json_each(:projects))
    OR coalesce(s.project_id, 'global') = 'global'
      AND s.directory IN (SELECT value FROM json_each(:directories)))
ORDER BY s.updated DESC, s.id DESC
"""


@dataclass(frozen=True, slots=True)
class PathFilter:
    """The file of ``path:``. Absolute paths must be equal; of others, whole trailing
    segments must be. Both are spelled as the index spells them, with ``/``."""

    path: str
    absolute: bool

    @classmethod
    def of(cls, text: str, home: str | None) -> PathFilter:
        path = expand_home(text, home)
        if is_absolute(path):
            # As the index spells network paths, and so answers, they can be asked for.
            return cls(spellings(path)[0], True)
        return cls(posixpath.normpath(path.replace("\\", "/")), False)

    @property
    def basename(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def parameters(self) -> dict[str, object]:
        """Return what the statements on document_paths want to know of the filter."""
        return {
            "paths": json.dumps(spellings(self.path)),
            "path": self.path,
            "basename": self.basename,
            "bits": SLOT_BITS,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What a session must fulfil to match.

    words must all occur, each in a message that role and dates admit, or in the title.
    excluded must not occur anywhere, whatever the role and date.
    sessions: numbers of the only sessions that can match, None for all.
    dates without words admit the sessions with any such message.
    """

    scope: Scope = EVERYTHING
    words: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    path: PathFilter | None = None
    role: str | None = None
    dates: DateRange | None = None
    sessions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstMatch:
    """text: all of the document that the word could match in."""

    message_id: str
    role: str
    timestamp_ms: int
    copied: bool
    reverted: bool
    text: str


class Matcher:
    """Answers which sessions match, for some of them or for all, newest first.

    rare: up to how many documents a word is looked up whole; the answers do not depend on it.
    candidates: numbers of the only sessions that can match, None where that can be any.
    """

    def __init__(self, conn: sqlite3.Connection, criteria: Criteria, *, rare: int = RARE) -> None:
        self._conn = conn
        self._criteria = criteria
        dates = criteria.dates or ALWAYS
        self._filter = {"role": criteria.role, "start": dates.start_ms, "end": dates.end_ms}
        self._is_filtered = criteria.role is not None or criteria.dates is not None
        self._words = _rarest_first(Postings(conn, word, rare=rare) for word in criteria.words)
        self._excluded = _rarest_first(Postings(conn, w, rare=rare) for w in criteria.excluded)
        self._verdicts: dict[int, bool] = {}
        self._documents: dict[tuple[int, str], list[int]] = {}
        self._few_dated = rare * DATED_PER_RARE
        self._scope: frozenset[int] | None = None
        self.candidates = self._candidates()

    def newest_first(self) -> Iterator[int]:
        """Yield the numbers of the matching sessions in scope, last activity first."""
        scope = scope_parameters(self._criteria.scope)
        if self.candidates is None:
            rows = self._conn.execute(_IN_SCOPE, scope)
        else:
            nums = json.dumps(sorted(self.candidates))
            rows = self._conn.execute(_CANDIDATES_IN_SCOPE, {**scope, "nums": nums})
        size = FIRST_BLOCK
        while block := [num for (num,) in rows.fetchmany(size)]:
            matching = self.matching(block)
            yield from (num for num in block if num in matching)
            size = min(size * 2, LARGEST_BLOCK)

    def all(self) -> Iterator[int]:
        """Yield the same, for a caller who wants every one and in no particular order."""
        if self._is_filtered or self.candidates is not None:
            yield from self.newest_first()
            return
        scope = scope_parameters(self._criteria.scope)
        left = {num for (num,) in self._conn.execute(_IN_SCOPE, scope)}
        for postings in self._words:
            left &= postings.everywhere()
        for postings in self._excluded:
            left -= postings.everywhere()
        yield from left

    def in_scope(self, num: int) -> bool:
        """Tell whether the session of that number belongs to what is searched."""
        if self._criteria.scope.projects is None:
            return True
        if self._scope is None:
            rows = self._conn.execute(_IN_SCOPE, scope_parameters(self._criteria.scope))
            self._scope = frozenset(num for (num,) in rows)
        return num in self._scope

    def matching(self, nums: Iterable[int]) -> set[int]:
        """Return those of the sessions that match, scope apart."""
        asked = set(nums)
        new = asked - self._verdicts.keys()
        matching = self._judge(new)
        self._verdicts |= {num: num in matching for num in new}
        return {num for num in asked if self._verdicts[num]}

    def first_match(self, num: int, word: str) -> FirstMatch:
        """Return the first message of a matching session that holds a word.

        A compaction's summary comes after what it may sum up, and the title comes last.
        """
        ids = json.dumps(self._documents[num, word])
        rows = self._conn.execute(_IN_ORDER, {"ids": ids}).fetchall()
        row = next(row for row in rows if self._is_own(row[0], word))
        document_id, message_id, role, timestamp_ms, copied, reverted = row
        return FirstMatch(
            message_id=message_id,
            role=role,
            timestamp_ms=timestamp_ms,
            copied=bool(copied),
            reverted=bool(reverted),
            text=self._text(document_id),
        )

    def documents(self, num: int, word: str) -> list[int]:
        """Return the ids of all documents by which a matching session holds a word."""
        return [i for i in self._documents[num, word] if self._is_own(i, word)]

    def _candidates(self) -> set[int] | None:
        sets = [set(p.sessions) for p in self._words if p.sessions is not None]
        if path := self._criteria.path:
            sql = _EDITED_ABSOLUTE if path.absolute else _EDITED_RELATIVE
            sets.append({num for (num,) in self._conn.execute(sql, path.parameters())})
        if self._criteria.sessions is not None:
            sets.append(set(self._criteria.sessions))
        if (dated := self._dated_sessions()) is not None:
            sets.append(dated)
        return set.intersection(*sets) if sets else None

    def _dated_sessions(self) -> set[int] | None:
        """Return the sessions with a message or title of the days asked for, None where those
        are so many that walking the sessions finds a page of them sooner."""
        if self._criteria.dates is None:
            return None
        parameters = {**self._filter, "bits": SLOT_BITS, "limit": self._few_dated + 1}
        messages = self._conn.execute(_DATED_MESSAGES, parameters).fetchall()
        if len(messages) > self._few_dated:
            return None
        titles = self._conn.execute(_DATED_TITLES, self._filter)
        return {num for (num,) in messages} | {num for (num,) in titles}

    def _judge(self, nums: Collection[int]) -> set[int]:
        left = set(nums) if self.candidates is None else self.candidates.intersection(nums)
        occurrences = []
        for postings in self._words:
            found = self._admitted(postings, left)
            left &= found.keys()
            occurrences.append((postings.word, found))
        for postings in self._excluded:
            left -= postings.within(left).keys()
        if not self._words and self._criteria.dates is not None:
            left = {num for num in left if self._has_message(num)}
        for word, found in occurrences:
            self._documents |= {(num, word): found[num] for num in left}
        return left

    def _admitted(self, postings: Postings, nums: Collection[int]) -> dict[int, list[int]]:
        """Return the documents that hold a word and that role and dates admit, by session."""
        found = postings.within(nums)
        if not self._is_filtered:
            return found
        ids = json.dumps([document_id for ids in found.values() for document_id in ids])
        admitted = {i for (i,) in self._conn.execute(_ADMITTED, {"ids": ids, **self._filter})}
        found = {num: [i for i in ids if i in admitted] for num, ids in found.items()}
        return {
            num: ids
            for num, ids in found.items()
            if any(self._is_own(document_id, postings.word) for document_id in ids)
        }

    def _is_own(self, document_id: int, word: str) -> bool:
        """Tell whether a word is the role's own, where a role is asked for: synthetic text
        that OpenCode put into a message is nobody's."""
        return self._criteria.role is None or find(self._text(document_id), word) >= 0

    def _text(self, document_id: int) -> str:
        """Return the text of a document that words can match in."""
        sql = _WHOLE_TEXT if self._criteria.role is None else _OWN_TEXT
        return str(self._conn.execute(sql, (document_id,)).fetchone()[0])

    def _has_message(self, num: int) -> bool:
        low, high = session_range(num)
        where = {"low": low, "high": high, **self._filter}
        return self._conn.execute(_DATED, where).fetchone() is not None


def _rarest_first(words: Iterable[Postings]) -> list[Postings]:
    return sorted(
        words, key=lambda word: float("inf") if word.sessions is None else len(word.sessions)
    )


def scope_parameters(scope: Scope) -> dict[str, str | None]:
    """Return a scope as the parameters ``projects`` and ``directories`` of a statement."""
    return {
        "projects": None if scope.projects is None else json.dumps(scope.projects),
        "directories": json.dumps(scope.directories),
    }
