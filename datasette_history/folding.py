"""Case folding as the index does it: one code point to one code point.

SQLite's trigram tokenizer folds by the simple case folding of Unicode, which keeps every
position; Python's casefold does not (``ß`` becomes ``ss``). Here both are made to agree, so
that a match found by the index can be found again in the text.
"""

from __future__ import annotations

import re
from typing import Final

# Every code point whose full case folding is longer than one code point lies in here.
_MAY_EXPAND: Final = re.compile(
    "([\u00df\u0130\u0149\u01f0\u0390\u03b0\u0587\u1e96-\u1e9e\u1f50-\u1fff\ufb00-\ufb17])"
)

# Letters that got their case after Unicode 6.1, which is as far as SQLite's table goes:
# there only one of the two cases is known, so the index keeps them as they were written.
_UNFOLDED_BY_SQLITE: Final = re.compile(
    "[\u0250-\u02a0\u037f\u03f3\u0528-\u052f\u10d0-\u10ff\u13a0-\u13fd\u1c80-\u1cbf\u1d79\u1d8e"
    "\u2c2f\u2c5f\ua698-\ua69b\ua794-\ua7f6\uab53\uab70-\uabbf"
    "\U000104b0-\U000104fb\U00010570-\U000105bc\U00010c80-\U00010cf2\U000118a0-\U000118df"
    "\U00016e40-\U00016e7f\U0001e900-\U0001e943]"
)


def fold(text: str) -> str:
    """Return text with every code point folded on its own; the length stays the same."""
    folded = text.casefold()
    if len(folded) == len(text):
        return folded
    pieces = _MAY_EXPAND.split(text)
    return "".join(
        _fold_one(piece) if place % 2 else piece.casefold() for place, piece in enumerate(pieces)
    )


def variants(word: str) -> tuple[str, ...]:
    """Return the spellings to look for so that the index finds a word in any case.

    One for nearly all words. Words with letters that the index cannot fold come as typed,
    in small letters, in capitals and capitalised.
    """
    if not _UNFOLDED_BY_SQLITE.search(word):
        return (word,)
    capitals = "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in word)
    small = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in word)
    return tuple(dict.fromkeys((word, small, capitals, capitals[:1] + small[1:])))


def _fold_one(letter: str) -> str:
    for candidate in (letter.casefold(), letter.lower()):
        if len(candidate) == 1:
            return candidate
    return letter
