"""How values are spelled for people: times, spans, sizes, money, and text that plays tricks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from datasette_history.paths import is_absolute, is_windows

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Controls that are no layout, and the marks that reorder what stands around them.
# Joiners (U+200C, U+200D) stay: emoji and several scripts are written with them.
_TRICKS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LINE_ENDS: Final = re.compile(r"\r\n?")


def visible(text: str) -> str:
    """Return text with control characters and reordering marks shown instead of obeyed.

    Tabs and line feeds stay; carriage returns count as ends of lines.
    """
    return _TRICKS.sub(_sign, _LINE_ENDS.sub("\n", text))


def one_line(text: str, length: int = 200) -> str:
    """Return text in one line of at most length code points, marked where it is cut."""
    line = visible(" ".join(text[: length * 4].split()))
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def plain_terminal(text: str) -> str:
    """Return what a terminal would show of text: without colours, and each line as it was
    last overwritten."""
    lines = _ANSI.sub("", text).replace("\r\n", "\n").split("\n")
    return visible("\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines))


def moment(ms: int, tz: tzinfo | None) -> datetime | None:
    """Return a time in milliseconds as a date in tz (None: the machine's own zone).

    None for years that a date cannot hold.
    """
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone(tz)
    except (OverflowError, ValueError, OSError):
        return None


def day_and_time(ms: int, tz: tzinfo | None = None) -> str:
    """Return ``2026-11-30 14:05``, as long for every time."""
    when = moment(ms, tz)
    return when.strftime("%Y-%m-%d %H:%M") if when else f"{ms} ms"


def duration(ms: int | None) -> str:
    """Return ``350 ms``, ``4.2 s``, ``3 min 5 s``, ``2 h 10 min`` or ``3 days``; "" for None."""
    if ms is None or ms < 0:
        return ""
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def money(dollars: float | None) -> str:
    """Return US dollars with as many digits as say something; "" for None."""
    if dollars is None:
        return ""
    if dollars == 0:
        return "$0"
    return f"${dollars:,.2f}" if abs(dollars) >= 1 else f"${dollars:.4f}"


def number(value: int) -> str:
    """Return ``950``, ``12.3k`` or ``4.1M``."""
    if abs(value) < 1_000:
        return str(value)
    if abs(value) < 999_950:
        return f"{value / 1_000:.1f}k"
    return f"{value / 1_000_000:.1f}M"


def size(length: int) -> str:
    """Return a length in code points as ``120 characters`` or ``12.3k characters``."""
    return f"{number(length)} character{'' if length == 1 else 's'}"


def count(value: int, what: str) -> str:
    """Return ``1 session`` or ``1,234 sessions``."""
    return f"{value:,} {what}" if value == 1 else f"{value:,} {what}s"


def short_path(path: str, directory: str | None) -> str:
    """Return path relative to directory where it lies inside."""
    if directory and path.startswith(directory.rstrip("/") + "/"):
        return path[len(directory.rstrip("/")) + 1 :]
    return path


def base_name(path: str) -> str:
    """Return the last segment of a path, or the path where it has none."""
    return path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or path


def full_path(path: str, directory: str | None) -> str:
    """Return path as the index spells it: absolute where the directory is known."""
    path = path.replace("\\", "/") if is_windows(path) or not is_absolute(path) else path
    if not directory or is_absolute(path):
        return path
    return f"{directory.replace(chr(92), '/').rstrip('/')}/{path.removeprefix('./')}"


def _sign(match: re.Match[str]) -> str:
    # Fonts seldom have the control pictures of Unicode.
    return f"⟨U+{ord(match[0]):04X}⟩"
