"""Marking what was found, by the same folding of case that found it."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from datasette_history.folding import fold
from datasette_history.pages.shown import visible


def mark(text: str, words: Iterable[str]) -> Markup:
    """Return text as HTML with every occurrence of the words in ``<mark>``."""
    html = Markup("")
    position = 0
    for start, end in _spans(fold(text), {fold(word) for word in words if word}):
        html += escape(visible(text[position:start]))
        html += Markup("<mark>{}</mark>").format(visible(text[start:end]))
        position = end
    return html + escape(visible(text[position:]))


def _spans(text: str, words: Iterable[str]) -> list[tuple[int, int]]:
    """Return where the words stand in text; those that touch are one."""
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append((at, at + len(word)))
            at = text.find(word, at + len(word))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
