"""Code in colours: class names only, so that the page's Content-Security-Policy can hold."""

from __future__ import annotations

from functools import cache
from typing import Final

from markupsafe import Markup, escape
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

from datasette_history.pages.shown import visible

MAX_HIGHLIGHTED: Final = 30_000
"""Code points of the longest text that gets colours; they cost more than all the rest."""

MAX_LINE: Final = 2_000
"""A text with a longer line is data or minified, and lexers can be very slow on it."""

_FORMATTER: Final = HtmlFormatter(nowrap=True)


def highlight(text: str, language: str | None) -> Markup:
    """Return code as HTML, coloured where its language is known; never more than the text."""
    text = visible(text)
    lexer = _lexer(language) if language else None
    if lexer is None or len(text) > MAX_HIGHLIGHTED or _longest_line(text) > MAX_LINE:
        return escape(text)
    html: str = pygments_highlight(text, lexer, _FORMATTER)
    # The formatter ends its last line, whether the text did or not.
    return Markup(html if text.endswith("\n") else html.removesuffix("\n"))


def language_of(path: str) -> str | None:
    """Return the language that a file's name tells, None where it tells none."""
    return _language(path.rsplit("/", 1)[-1][-60:])


@cache
def _language(name: str) -> str | None:
    try:
        aliases = get_lexer_for_filename(name).aliases
    except ClassNotFound:
        return None
    return str(aliases[0]) if aliases else None


def _lexer(language: str) -> Lexer | None:
    return _named(language.strip().lower()[:40])


@cache
def _named(language: str) -> Lexer | None:
    try:
        # Neither adding nor removing line ends, so that the text stays what it was.
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _longest_line(text: str) -> int:
    return max(map(len, text.split("\n")))
