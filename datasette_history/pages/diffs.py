"""Diffs, made from what an edit's call was given."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from datasette_history.pages.shown import visible

MAX_COMPARED: Final = 3_000
"""Lines, old and new together, up to which the two are compared line by line."""

MAX_LINES: Final = 400
"""Lines of a diff that are shown at once."""

MAX_LINE: Final = 1_000
"""Code points of a line that are shown."""

LineKind = Literal["add", "remove", "same", "skip"]

_HEADER: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE: Final = re.compile(r"\*\*\* Move to: (.+)")
_SIGNS: Final[dict[str, LineKind]] = {"+": "add", "-": "remove"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line; text is as it is shown, sign included."""

    kind: LineKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Changes of one file. omitted: lines beyond MAX_LINES. what: edited, added, deleted."""

    path: str
    what: str
    lines: tuple[Line, ...]
    added: int
    removed: int
    omitted: int = 0


def compare(path: str, old: str, new: str) -> Diff:
    """Return the diff of one replacement."""
    before, after = _lines(old), _lines(new)
    if len(before) + len(after) > MAX_COMPARED:
        lines = [Line("remove", f"-{line}") for line in before]
        lines += [Line("add", f"+{line}") for line in after]
    else:
        lines = list(_unified(before, after))
    return _diff(path, "edited", lines)


def added(path: str, content: str) -> Diff:
    """Return the diff of a file that was written whole."""
    return _diff(path, "written", [Line("add", f"+{line}") for line in _lines(content)])


def of_patch(text: str) -> list[Diff]:
    """Return the diffs of a patch text, one for each of its files."""
    diffs: list[Diff] = []
    path, what = "", "patched"
    lines: list[Line] = []
    for line in text.split("\n"):
        if header := _HEADER.match(line):
            if path or lines:
                diffs.append(_diff(path, what, lines))
            path, what, lines = header[2].strip(), _what(header[1]), []
        elif move := _MOVE.match(line):
            what = f"moved to {move[1].strip()}"
        elif not line.startswith(("*** Begin Patch", "*** End")):
            lines.append(_patch_line(line))
    if path or any(line.text.strip() for line in lines):
        diffs.append(_diff(path, what, lines))
    return diffs


def _patch_line(line: str) -> Line:
    if line.startswith("@@"):
        return Line("skip", line)
    return Line(_SIGNS.get(line[:1], "same"), line)


def _what(verb: str) -> str:
    return {"Add": "added", "Update": "edited", "Delete": "deleted"}[verb]


def _unified(before: Sequence[str], after: Sequence[str]) -> Iterator[Line]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for place, group in enumerate(matcher.get_grouped_opcodes(3)):
        if place:
            yield Line("skip", "⋯")
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                yield from (Line("same", f" {line}") for line in before[start:end])
                continue
            yield from (Line("remove", f"-{line}") for line in before[start:end])
            yield from (Line("add", f"+{line}") for line in after[new_start:new_end])


def _diff(path: str, what: str, lines: Sequence[Line]) -> Diff:
    shown = tuple(Line(line.kind, _cut(line.text)) for line in lines[:MAX_LINES])
    return Diff(
        path=path,
        what=what,
        lines=shown,
        added=_count(lines, "add"),
        removed=_count(lines, "remove"),
        omitted=max(len(lines) - MAX_LINES, 0),
    )


def _count(lines: Iterable[Line], kind: LineKind) -> int:
    return sum(line.kind == kind for line in lines)


def _cut(text: str) -> str:
    return visible(text if len(text) <= MAX_LINE else text[:MAX_LINE] + "…")


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
