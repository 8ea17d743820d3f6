"""Paths as OpenCode's tools name them, worked on as text: no file system is asked.

Windows paths (``C:\\...`` or ``\\\\server\\...``) are written with ``/``; in all others a
backslash is an ordinary character.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from urllib.parse import unquote, urlsplit

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_PATCH_HEADER = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to):(.*)$", re.MULTILINE)


@lru_cache(maxsize=4096)
def absolute_path(path: str, directory: str | None) -> str:
    """Return path joined to directory, without ``.``, ``..`` and doubled slashes.

    Absolute paths stay themselves; without a directory a relative path stays relative. The
    result of the function given to it again is the same.
    """
    if is_windows(path):
        return _normal_windows(path)
    if path.startswith("/"):
        return posixpath.normpath(path)
    if directory and is_windows(directory):
        return _normal_windows(f"{directory}/{path}")
    if directory:
        return posixpath.normpath(f"{directory}/{path}")
    return posixpath.normpath(path) if path else ""


def is_windows(path: str) -> bool:
    return bool(_DRIVE.match(path)) or path.startswith("\\\\")


def basename(path: str) -> str:
    """Return what follows the last separator; of a Windows path, the last of either kind."""
    if is_windows(path):
        path = path.replace("\\", "/")
    return path.rstrip("/").rpartition("/")[2]


def uri_basename(uri: str) -> str:
    """Return the file name in a URI or path; empty for ``data:`` URIs, which have none."""
    if uri.startswith("data:"):
        return ""
    if "://" not in uri:
        return basename(uri)
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return basename(unquote(parts.path)) or parts.netloc


def patch_paths(patch: str) -> list[str]:
    """Return the files that the headers of an ``*** Begin Patch`` text name, in their order."""
    # Stripped here: the pattern would look at every run of blanks again and again.
    return [path for found in _PATCH_HEADER.findall(patch) if (path := found.strip(" \t\r"))]


def _normal_windows(path: str) -> str:
    path = path.replace("\\", "/")
    if path.startswith("//"):
        return posixpath.normpath("//" + path.lstrip("/"))
    return path[:2] + posixpath.normpath("/" + path[2:].lstrip("/"))
