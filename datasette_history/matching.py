"""The one matching step behind the three searches: which sessions match.

A word that few documents hold is looked up once, and its sessions are intersected. For a
word that many hold, sessions are walked newest first and the full-text index is asked
session by session (each is one range of document ids), so that the first page costs the
same however many sessions match.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from datasette_history.dates import DateRange
from datasette_history.excerpts import find
from datasette_history.folding import variants
from datasette_history.paths import comparable, expand_home, is_absolute, spellings
from datasette_history.results import Scope
from datasette_history.schema import SLOT_BITS, session_range

POSTINGS_BOUND: Final = 3_000
"""Documents up to which a word counts as rare and is looked up whole."""

EVERYTHING: Final = Scope()

ALWAYS: Final = DateRange(-(2**63), 2**63 - 1)
"""Every instant that the index can hold."""

_POSTINGS = """
SELECT rowid FROM documents_fts WHERE documents_fts MATCH :phrase ORDER BY rowid LIMIT :limit
"""

# CROSS JOIN keeps the full-text index in the outer loop.
_FILTERED_POSTINGS = """
SELECT d.id FROM json_each(:ids) wanted CROSS JOIN documents d ON d.id = wanted.value
WHERE (:role IS NULL OR d.role IN (:role, 'title'))
  AND d.timestamp >= :start AND d.timestamp < :end
"""

_PROBE = """
SELECT 1 FROM documents_fts
WHERE documents_fts MATCH :phrase AND rowid BETWEEN :low AND :high LIMIT 1
"""

_FILTERED_PROBE = """
SELECT d.id FROM documents_fts f CROSS JOIN documents d ON d.id = f.rowid
WHERE documents_fts MATCH :phrase AND f.rowid BETWEEN :low AND :high
  AND (:role IS NULL OR d.role IN (:role, 'title'))
  AND d.timestamp >= :start AND d.timestamp < :end
"""

_FIRST_MATCHES = """
SELECT d.id, d.message_id, d.role, d.timestamp, d.copied, d.reverted
FROM documents_fts f CROSS JOIN documents d ON d.id = f.rowid
WHERE documents_fts MATCH :phrase AND f.rowid BETWEEN :low AND :high
  AND (:role IS NULL OR d.role IN (:role, 'title'))
  AND d.timestamp >= :start AND d.timestamp < :end
ORDER BY d.role = 'title', d.seq, d.id
"""

_DATED = """
SELECT 1 FROM documents
WHERE id BETWEEN :low AND :high
  AND (:role IS NULL OR role IN (:role, 'title'))
  AND timestamp >= :start AND timestamp < :end LIMIT 1
"""

_OWN_TEXT = "SELECT role, substr(text, 1, own_length) FROM documents WHERE id = ?"
_WHOLE_TEXT = "SELECT text FROM documents WHERE id = ?"

_EDITED_ABSOLUTE = """
SELECT DISTINCT document_id >> :bits FROM document_paths
WHERE path IN (SELECT value FROM json_each(:paths))
"""

_EDITED_RELATIVE = """
SELECT DISTINCT document_id >> :bits FROM document_paths
WHERE basename = :basename AND (path = :path OR substr(path, -length(:path) - 1) = '/' || :path)
"""

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
            return cls(comparable(path), True)
        path = path.replace("\\", "/")
        while path.startswith("./"):
            path = path[2:]
        return cls(path, False)

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
    dates without words admit the sessions with any such message.
    """

    scope: Scope = EVERYTHING
    words: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    path: PathFilter | None = None
    role: str | None = None
    dates: DateRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstMatch:
    """text: all of the document that the word could match in."""

    message_id: str
    role: str
    timestamp_ms: int
    copied: bool
    reverted: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Postings:
    """Where a word occurs: document ids by session number, or None for a common word."""

    word: str
    phrase: str
    documents: Mapping[int, list[int]] | None


class Matcher:
    """Answers which sessions match, one by one or newest first.

    bound: up to how many documents a word is looked up whole; the answers do not depend
        on it.
    """

    def __init__(
        self, conn: sqlite3.Connection, criteria: Criteria, *, bound: int = POSTINGS_BOUND
    ) -> None:
        self._conn = conn
        self._criteria = criteria
        dates = criteria.dates or ALWAYS
        self._filter = {"role": criteria.role, "start": dates.start_ms, "end": dates.end_ms}
        self._filtered = criteria.role is not None or criteria.dates is not None
        self._words = sorted(
            (self._postings(word, bound, filtered=self._filtered) for word in criteria.words),
            key=lambda postings: postings.documents is None,
        )
        self._excluded = [self._postings(word, bound) for word in criteria.excluded]
        self._verdicts: dict[int, bool] = {}
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
        return (num for (num,) in rows if self.matches(num))

    def in_scope(self, num: int) -> bool:
        """Tell whether the session of that number belongs to what is searched."""
        if self._criteria.scope.projects is None:
            return True
        if self._scope is None:
            rows = self._conn.execute(_IN_SCOPE, scope_parameters(self._criteria.scope))
            self._scope = frozenset(num for (num,) in rows)
        return num in self._scope

    def matches(self, num: int) -> bool:
        """Tell whether the session of that number matches, scope apart."""
        if num not in self._verdicts:
            self._verdicts[num] = self._judge(num)
        return self._verdicts[num]

    def first_match(self, num: int, word: str) -> FirstMatch | None:
        """Return the first message of a session that word matches in, else its title."""
        rows = self._conn.execute(
            _FIRST_MATCHES, {"phrase": phrase(word), **_range(num), **self._filter}
        )
        for document_id, message_id, role, timestamp_ms, copied, reverted in rows:
            if self._criteria.role is None:
                text = self._conn.execute(_WHOLE_TEXT, (document_id,)).fetchone()[0]
            else:
                text = self._own_text(document_id)
                if find(text, word) < 0:
                    continue
            return FirstMatch(
                message_id=message_id,
                role=role,
                timestamp_ms=timestamp_ms,
                copied=bool(copied),
                reverted=bool(reverted),
                text=text,
            )
        return None

    def _candidates(self) -> set[int] | None:
        """Return the only sessions that can match, None where that can be any."""
        sets = [set(p.documents) for p in self._words if p.documents is not None]
        if path := self._criteria.path:
            sql = _EDITED_ABSOLUTE if path.absolute else _EDITED_RELATIVE
            sets.append({num for (num,) in self._conn.execute(sql, path.parameters())})
        return set.intersection(*sets) if sets else None

    def _judge(self, num: int) -> bool:
        if self.candidates is not None and num not in self.candidates:
            return False
        if any(self._occurs(postings, num) for postings in self._excluded):
            return False
        if not self._words and self._criteria.dates is not None:
            return bool(self._conn.execute(_DATED, {**_range(num), **self._filter}).fetchone())
        return all(self._occurs_filtered(postings, num) for postings in self._words)

    def _occurs(self, postings: _Postings, num: int) -> bool:
        if postings.documents is not None:
            return num in postings.documents
        parameters = {"phrase": postings.phrase, **_range(num)}
        return self._conn.execute(_PROBE, parameters).fetchone() is not None

    def _occurs_filtered(self, postings: _Postings, num: int) -> bool:
        if not self._filtered:
            return self._occurs(postings, num)
        documents: Iterable[int]
        if postings.documents is not None:
            documents = postings.documents.get(num, ())
        else:
            parameters = {"phrase": postings.phrase, **_range(num), **self._filter}
            documents = (i for (i,) in self._conn.execute(_FILTERED_PROBE, parameters))
        if self._criteria.role is None:
            return any(True for _ in documents)
        return any(find(self._own_text(i), postings.word) >= 0 for i in documents)

    def _own_text(self, document_id: int) -> str:
        """Return what the role itself said; synthetic text stands behind it."""
        _, text = self._conn.execute(_OWN_TEXT, (document_id,)).fetchone()
        return str(text)

    def _postings(self, word: str, bound: int, *, filtered: bool = False) -> _Postings:
        match = phrase(word)
        rows = self._conn.execute(_POSTINGS, {"phrase": match, "limit": bound + 1}).fetchall()
        if len(rows) > bound:
            return _Postings(word, match, None)
        ids: Iterable[int] = (i for (i,) in rows)
        if filtered:
            parameters = {"ids": json.dumps(list(ids)), **self._filter}
            ids = (i for (i,) in self._conn.execute(_FILTERED_POSTINGS, parameters))
        documents: defaultdict[int, list[int]] = defaultdict(list)
        for document_id in ids:
            documents[document_id >> SLOT_BITS].append(document_id)
        return _Postings(word, match, dict(documents))


def phrase(word: str) -> str:
    """Return the full-text query for a literal word, in whatever case it stands."""
    return " OR ".join('"' + one.replace('"', '""') + '"' for one in variants(word))


def scope_parameters(scope: Scope) -> dict[str, str | None]:
    """Return a scope as the parameters ``projects`` and ``directories`` of a statement."""
    return {
        "projects": None if scope.projects is None else json.dumps(scope.projects),
        "directories": json.dumps(scope.directories),
    }


def _range(num: int) -> dict[str, int]:
    low, high = session_range(num)
    return {"low": low, "high": high}
