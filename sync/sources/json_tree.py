"""The files of a JSON store: where they lie, and how they are read while OpenCode writes them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

from sync.model import BadRecord
from sync.values import decode_json

T = TypeVar("T")

RETRY_S = 0.05
FRESH_S = 2.0
"""A file written this lately may be half-written; it is read once more after RETRY_S."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as a listing of its folder tells it: changed if any of this has changed."""

    path: Path
    size: int
    mtime_ns: int

    @property
    def stem(self) -> str:
        return self.path.stem

    @property
    def mark(self) -> str:
        return f"{self.stem}:{self.size}:{self.mtime_ns}"


@dataclass(frozen=True, slots=True)
class Tree:
    """One JSON store. Folders may be missing.

    sessions: the folders that hold session files. nested: part folders lie in folders named
    after their session (before 0.6), not side by side. pause: waits a number of seconds.
    """

    sessions: tuple[Path, ...]
    messages: Path
    parts: Path
    todos: Path | None = None
    projects: Path | None = None
    nested: bool = False
    pause: Callable[[float], None] = time.sleep

    def part_folder(self, session_id: str, message_id: str) -> Path:
        parts = self.parts / session_id if self.nested else self.parts
        return parts / message_id

    def session_files(self, session_id: str) -> Iterator[File]:
        """Yield the session's file; more than one where it was copied to another project."""
        for folder in self.sessions:
            found = file_or_none(folder / f"{session_id}.json")
            if found is not None:
                yield found

    def read_json(self, file: File) -> object:
        """Return what a file holds; one that was written just now gets a second chance.

        Raises ValueError or OSError where it cannot be read.
        """
        try:
            return decode_json(file.path.read_bytes())
        except ValueError:
            if time.time() - file.mtime_ns / 1e9 > FRESH_S:
                raise
        self.pause(RETRY_S)
        return decode_json(file.path.read_bytes())

    def read_object(self, file: File) -> Mapping[str, object]:
        """Return the JSON object in a file; raises as read_json, ValueError for anything else."""
        value = self.read_json(file)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return value


def tree_of_storage(storage: Path) -> Tree:
    """Return the store of 0.6 to 1.1 in ``storage/``."""
    return Tree(
        sessions=tuple(folders(storage / "session")),
        messages=storage / "message",
        parts=storage / "part",
        todos=storage / "todo",
        projects=storage / "project",
    )


def trees_of_projects(projects: Path) -> Iterator[Tree]:
    """Yield the stores before 0.6, one for each folder in ``project/``."""
    for folder in folders(projects):
        base = folder / "storage" / "session"
        if (base / "info").is_dir():
            yield Tree(
                sessions=(base / "info",),
                messages=base / "message",
                parts=base / "part",
                nested=True,
            )


class Closed:
    """Looks into folders, and keeps in mind those that cannot be looked into."""

    def __init__(self) -> None:
        self._met: dict[Path, OSError] = {}

    @property
    def count(self) -> int:
        return len(self._met)

    def folders(self, parent: Path) -> list[Path]:
        return self._look(folders, parent)

    def files(self, parent: Path | None) -> list[File]:
        return [] if parent is None else self._look(json_files, parent)

    def records(self, *, hide_sessions: bool) -> Iterator[BadRecord]:
        """Yield a record for each. hide_sessions: whether sessions may lie in them."""
        for path, error in self._met.items():
            yield bad_record(path, error, hides_session=hide_sessions)

    def _look(self, look: Callable[[Path], list[T]], parent: Path) -> list[T]:
        try:
            return look(parent)
        except OSError as error:
            self._met[parent] = error
            return []


def bad_record(
    path: Path,
    error: Exception,
    *,
    session_id: str | None = None,
    message_id: str | None = None,
    hides_session: bool = False,
) -> BadRecord:
    """Return a record of a file or folder that cannot be read."""
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return BadRecord(
        item=str(path),
        reason=reason,
        session_id=session_id,
        message_id=message_id,
        hides_session=hides_session,
    )


def folders(parent: Path) -> list[Path]:
    """Return the folders in a folder by name; none where it is missing. May raise OSError."""
    try:
        with os.scandir(parent) as entries:
            return [Path(e.path) for e in sorted(entries, key=_name) if _is_folder(e)]
    except FileNotFoundError:
        return []


def json_files(parent: Path) -> list[File]:
    """Return the JSON files in a folder by name; none where it is missing. May raise OSError."""
    found = []
    try:
        with os.scandir(parent) as entries:
            for entry in sorted(entries, key=_name):
                if entry.name.endswith(".json"):
                    file = file_or_none(Path(entry.path))
                    if file is not None:
                        found.append(file)
    except FileNotFoundError:
        return []
    return found


def file_or_none(path: Path) -> File | None:
    """Return a file; None for whatever else stands there, a link to nowhere among it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return File(path, found.st_size, found.st_mtime_ns) if S_ISREG(found.st_mode) else None


def folder_mtime_ns(path: Path) -> int:
    """Return when a file was last added to or taken from a folder, 0 where it is missing."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself
