"""Paths as people and agents write them, compared without touching a file system.

Windows paths (``C:\\...``, ``C:/...``, ``\\\\server\\...``) compare without regard to the
direction of slashes and the case of the drive letter.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")


def is_windows(path: str) -> bool:
    return bool(_DRIVE.match(path)) or path.startswith("\\\\")


def is_absolute(path: str) -> bool:
    return path.startswith("/") or is_windows(path)


def comparable(path: str) -> str:
    """Return the one spelling of an absolute path under which equal paths are equal.

    The index collapses ``.``, ``..`` and repeated slashes, so this does too.
    """
    windows = is_windows(path)
    if windows:
        path = path.replace("\\", "/")
        if path[1] == ":":
            path = path[0].upper() + path[1:]
    collapsed = posixpath.normpath(path)
    # POSIX lets two leading slashes mean something else; only Windows does so.
    return "/" + collapsed.lstrip("/") if path.startswith("/") and not windows else collapsed


def spellings(path: str) -> tuple[str, ...]:
    """Return the ways in which the index may hold an absolute path.

    Two leading slashes are a Windows network path's there, or those of a path of POSIX.
    """
    same = posixpath.normpath(path) if path.startswith("//") else comparable(path)
    if same.startswith("//"):
        return (same, same[1:])
    return (same, same[0].lower() + same[1:]) if same[1:2] == ":" else (same,)


def expand_home(path: str, home: str | None) -> str:
    """Return path with a leading ``~`` replaced by home, where home is known."""
    if home is not None and (path == "~" or path.startswith(("~/", "~\\"))):
        return home.rstrip("/\\") + path[1:]
    return path


def is_within(path: str, directory: str) -> bool:
    """Tell whether a comparable path is directory, also comparable, or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
