"""Short pieces of long texts, cut between code points and marked where they are cut."""

from __future__ import annotations

from typing import Final

from datasette_history.folding import fold

EXCERPT_LENGTH: Final = 300
"""Code points of the longest excerpt, its ellipsis marks included."""

ELLIPSIS: Final = "…"


def find(text: str, word: str) -> int:
    """Return where word first stands in text, whatever the case; -1 where it does not."""
    return fold(text).find(fold(word))


def excerpt(text: str, word: str, length: int = EXCERPT_LENGTH) -> str:
    """Return up to length code points of text around the first match of word.

    The match stands in the middle where the text goes on to both sides. Where the word is
    not found, or is longer than the excerpt, its beginning (or the text's) is what is shown.
    """
    if len(text) <= length:
        return text
    at = max(find(text, word), 0)
    room = length - 2
    start = min(max(at - max(room - len(word), 0) // 2, 0), len(text) - room)
    end = start + room
    # A side that is not cut needs no mark and can show one code point more.
    if start <= 1:
        start, end = 0, length - 1
    elif end >= len(text) - 1:
        start, end = len(text) - length + 1, len(text)
    return (ELLIPSIS if start else "") + text[start:end] + (ELLIPSIS if end < len(text) else "")


def clip(text: str, length: int = EXCERPT_LENGTH) -> tuple[str, bool]:
    """Return the first length code points of text, and whether any were cut off."""
    return text[:length], len(text) > length


def clip_utf16(text: str, units: int) -> tuple[str, bool]:
    """Return as much of text as fits into that many UTF-16 code units, never half a pair."""
    if len(text) * 2 <= units:
        return text, False
    encoded = text.encode("utf-16-le", "surrogatepass")
    if len(encoded) <= units * 2:
        return text, False
    # The byte limit can only cut a pair in two, and then the whole pair has to go.
    return encoded[: units * 2].decode("utf-16-le", "ignore"), True
