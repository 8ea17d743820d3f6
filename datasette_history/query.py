"""The query syntax: words, phrases, exclusions, ``path:`` and ``project:``.

Nothing else is syntax. A quote opens a phrase only at the start of a word (or right after
``-``, ``path:`` or ``project:``), so that code such as ``print("x")`` can be typed as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from datasette_history.errors import InvalidQuery
from datasette_history.folding import fold

MIN_WORD: Final = 3
"""Code points of the shortest word or phrase that the index can match."""

MAX_WORDS: Final = 32
"""Words, phrases and exclusions in one query."""

MAX_QUERY: Final = 4_000
"""Code points of the longest query."""

_PREFIX: Final = re.compile(r"(-?)(?:(path|project):)?")
_BARE: Final = re.compile(r"\S*")
_SPACE: Final = re.compile(r"\s*")
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """What a query asks for. Words and phrases are as typed, each once whatever its case.

    path: edited file; project: ID, path or ``all``; None where the query does not say.
    """

    words: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    path: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """One piece of a query; source is how it was typed."""

    source: str
    negated: bool
    qualifier: str | None
    value: str


def parse_query(text: str) -> ParsedQuery:
    """Parse a query of at most MAX_QUERY code points and MAX_WORDS words.

    Raises InvalidQuery, whose message names the offending piece and the remedy.
    """
    if len(text) > MAX_QUERY:
        raise InvalidQuery(
            f"the query has {len(text)} characters, more than the {MAX_QUERY} allowed; "
            "keep the few words that matter"
        )
    words: dict[str, str] = {}
    excluded: dict[str, str] = {}
    qualifiers: dict[str, str] = {}
    for piece in _pieces(text):
        if piece.qualifier:
            qualifiers[piece.qualifier] = _qualifier(piece, qualifiers)
        else:
            found = excluded if piece.negated else words
            found.setdefault(fold(piece.value), _word(piece))
    if len(words) + len(excluded) > MAX_WORDS:
        raise InvalidQuery(
            f"the query has {len(words) + len(excluded)} words, more than the {MAX_WORDS} allowed; "
            'keep fewer, or put them in quotes as one "phrase"'
        )
    return ParsedQuery(
        words=tuple(words.values()),
        excluded=tuple(excluded.values()),
        path=qualifiers.get("path"),
        project=qualifiers.get("project"),
    )


def _pieces(text: str) -> list[_Piece]:
    pieces = []
    position = _end(_SPACE, text, 0)
    while position < len(text):
        start = position
        prefix = _PREFIX.match(text, position)
        assert prefix is not None  # every part of it is optional
        position = prefix.end()
        if text.startswith('"', position):
            close = text.find('"', position + 1)
            if close < 0:
                raise InvalidQuery(
                    f"{_shown(text[start:])} has an unclosed quote; "
                    'add the closing " or leave the quote out'
                )
            value, position = text[position + 1 : close], close + 1
        else:
            end = _end(_BARE, text, position)
            value, position = text[position:end], end
        pieces.append(_Piece(text[start:position], bool(prefix[1]), prefix[2], value))
        position = _end(_SPACE, text, position)
    return pieces


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _word(piece: _Piece) -> str:
    if len(piece.value) < MIN_WORD:
        raise InvalidQuery(
            f"{_shown(piece.source)} is shorter than {MIN_WORD} characters, the least that the "
            "index can match; use a longer word or a quoted phrase"
        )
    return piece.value


def _qualifier(piece: _Piece, seen: dict[str, str]) -> str:
    name = f"{piece.qualifier}:"
    if piece.negated:
        raise InvalidQuery(
            f"{_shown(piece.source)}: {name} cannot be negated; leave out the minus, "
            f"or quote it to exclude the text itself"
        )
    if piece.qualifier in seen:
        raise InvalidQuery(f"{_shown(piece.source)}: only one {name} is allowed; keep one of them")
    value = piece.value.strip()
    if not value:
        raise InvalidQuery(
            f"{_shown(piece.source)} is empty; write a value right after {name}, without a space"
        )
    if piece.qualifier == "path" and value.endswith(("/", "\\")):
        raise InvalidQuery(
            f"{_shown(piece.source)} names a folder; path: takes a file, "
            "and project: a folder's sessions"
        )
    return value


def _shown(source: str) -> str:
    return repr(source if len(source) <= _SHOWN else source[:_SHOWN] + "…")
