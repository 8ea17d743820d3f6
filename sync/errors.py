"""Errors of the writing side.

SyncError
├── IndexUnusable       the index file is not ours, or cannot be opened or written
└── SourceError
    ├── SourceUnavailable   the place cannot be read at all now; its sessions stay as they are
    └── UnknownLayout       the place holds something, but nothing that this version can read
"""

from __future__ import annotations


class SyncError(Exception):
    """Base of everything the writing side raises on purpose."""


class IndexUnusable(SyncError):
    """The index file cannot be used; the message says why and what to do."""


class SourceError(SyncError):
    """A source as a whole could not be read."""


class SourceUnavailable(SourceError):
    """The source cannot be read now: missing, locked, refused or down."""


class UnknownLayout(SourceError):
    """The source is there, but of no layout that this version knows."""
