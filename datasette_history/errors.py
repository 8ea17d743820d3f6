"""Errors of the reading side.

HistoryError
├── InvalidInput         an input cannot be used (HTTP 400)
│   └── InvalidQuery     the query text, by the piece that is wrong
├── NotInIndex           a session, message or database that is not there (404)
├── IndexMismatch        no index, or one that this version cannot read (503)
└── TimeLimitExceeded    the question took too long and was stopped (503)
"""

from __future__ import annotations

from typing import ClassVar


class HistoryError(Exception):
    """Base of everything the reading side raises on purpose.

    messages: what is wrong, which value, and what to do; at least one.
    status: the HTTP status that fits.
    """

    status: ClassVar[int] = 500

    def __init__(self, *messages: str) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


class InvalidInput(HistoryError):
    """One or more inputs cannot be used."""

    status = 400


class InvalidQuery(InvalidInput):
    """The query text does not follow the query syntax."""


class NotInIndex(HistoryError):
    """What was asked for by name is not in the index."""

    status = 404


class IndexMismatch(HistoryError):
    """There is no index to read, or it is of another version."""

    status = 503


class TimeLimitExceeded(HistoryError):
    """The question was stopped at the time limit."""

    status = 503
