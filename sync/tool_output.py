"""The whole of outputs that were cut: OpenCode keeps them in files for seven days.

A message names the file, and what a message says may come from a model. So the path in it is
never followed: only a plain file of that name, right inside the folder of the store that is being
read, is opened, and no link of any kind.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from sync.model import Message, Part
from sync.values import filled, sequence, shrink

FOLDER = "tool-output"

MAX_OUTPUT_CHARS = 1_000_000
"""Code points of one output that are indexed; what a message itself shows of it always is."""

_PATH = re.compile(r"(?:.*[/\\])?tool-output[/\\](tool_[A-Za-z0-9]{1,100})", re.DOTALL)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def output_file(notes: Iterable[Mapping[str, object]]) -> str | None:
    """Return the name of the file that a tool call's notes say its output went to."""
    for note in notes:
        for path in (note.get("outputPath"), *sequence(note.get("outputPaths"))):
            match = _PATH.fullmatch(filled(path) or "")
            if match is not None:
                return match[1]
    return None


class ToolOutputs:
    """The folder ``tool-output`` of one data directory, which need not be there."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER

    def fill(self, message: Message) -> Message:
        """Return a message with its cut outputs whole, as far as their files are still there.

        A whole output is named after its file; one that stays cut has no name.
        """
        if not any(part.cut_to for part in message.parts):
            return message
        return replace(message, parts=tuple(map(self._filled, message.parts)))

    def _filled(self, part: Part) -> Part:
        whole = None if part.cut_to is None else self._read(part.cut_to)
        if whole is None:
            return part
        whole = shrink(whole)
        lines = set(whole.splitlines())
        # The note that it was cut, and what lies beyond the limit.
        more = [line for line in part.text.splitlines() if line.strip() and line not in lines]
        return replace(part, text="\n".join([whole, *more]), name=part.cut_to)

    def _read(self, name: str) -> str | None:
        try:
            if self._folder.is_symlink():
                return None
            path = self._folder / name
            before = path.lstat()
            if not stat.S_ISREG(before.st_mode) or before.st_nlink != 1:
                return None
            with os.fdopen(os.open(path, os.O_RDONLY | _NO_LINK), "rb") as file:
                opened = os.fstat(file.fileno())
                if (opened.st_dev, opened.st_ino) != (before.st_dev, before.st_ino):
                    return None
                data = file.read(4 * MAX_OUTPUT_CHARS)
        except OSError:
            # Deleted, as every such file is after a while; what the message shows remains.
            return None
        return data.decode("utf-8", "replace")[:MAX_OUTPUT_CHARS]
