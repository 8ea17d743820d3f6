"""Paths as history records them, of whatever system they came from."""

from __future__ import annotations

import posixpath
import re

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def absolute_path(path: str, directory: str | None) -> str:
    """Return path with / separators, joined to directory where it is relative and collapsed."""
    path = _slashes(path)
    directory = _slashes(directory) if directory else None
    if directory and not _is_absolute(path):
        if _WINDOWS.match(directory):
            path = path.replace("\\", "/")
        path = f"{directory.rstrip('/')}/{path}"
    collapsed = posixpath.normpath(path)
    return collapsed[1:] if collapsed.startswith("//") and not path.startswith("//") else collapsed


def basename(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or bool(_WINDOWS.match(path))


def _slashes(path: str) -> str:
    return path.replace("\\", "/") if _WINDOWS.match(path) else path
