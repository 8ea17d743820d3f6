"""Reading values that other programs wrote: tolerant of every type, exact about text."""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """Return text with lone surrogates and NUL replaced by U+FFFD, one for one."""
    if "\0" not in text:
        if text.isascii():
            return text
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            pass
        else:
            return text
    return "".join(
        REPLACEMENT if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text
    )
