"""Markdown of conversations as HTML that can do no harm.

HTML in it is shown as text. Only links to the web and to mail addresses are links; a
relative one would lead into this site, and never to what its author meant. Images are
never loaded: they are named, with a link.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

from datasette_history.pages.code import highlight
from datasette_history.pages.shown import visible

MAX_RENDERED: Final = 60_000
"""Code points of the longest text that is treated as Markdown; longer ones stay plain."""

_LINK: Final = re.compile(r"https?://[^/\s]|mailto:[^\s]", re.IGNORECASE)
_DEEPER: Final = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6"}

Env = MutableMapping[str, Any]


class _Renderer(RendererHTML):
    """Renderer of the pages: coloured code, named images, headings below the page's own."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return str(escape(visible(tokens[idx].content)))

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        language = tokens[idx].info.strip().split(maxsplit=1)[:1]
        return _code(tokens[idx].content, language[0] if language else None)

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return _code(tokens[idx].content, None)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return f"<code>{escape(visible(tokens[idx].content))}</code>"

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        token = tokens[idx]
        name = escape(visible(token.content) or "image")
        source = str(token.attrs.get("src", ""))
        if not _LINK.match(source):
            return f'<span class="image">image: {name}</span>'
        href = escape(source)
        return f'<a class="image" rel="noreferrer noopener" href="{href}">image: {name}</a>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        tokens[idx].attrSet("rel", "noreferrer noopener")
        return self.renderToken(tokens, idx, options, env)

    def heading_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env
    ) -> str:
        tokens[idx].tag = _DEEPER.get(tokens[idx].tag, tokens[idx].tag)
        return self.renderToken(tokens, idx, options, env)

    heading_close = heading_open

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        # Alignment comes as an inline style, which the policy of the page forbids.
        return f'<th class="{_alignment(tokens[idx])}" scope="col">'

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return f'<td class="{_alignment(tokens[idx])}">'


def render_markdown(text: str, *, breaks: bool = False) -> Markup:
    """Return text as HTML. breaks: every line end is one, as in what people type."""
    if len(text) > MAX_RENDERED:
        return Markup('<pre class="plain">{}</pre>').format(visible(text))
    # HTML in the text is off, and the rules above escape what they show.
    renderer = _TYPED if breaks else _WRITTEN
    return Markup(renderer.render(text))


def _code(text: str, language: str | None) -> str:
    shown = highlight(text.removesuffix("\n"), language)
    label = f' data-language="{escape(language)}"' if language else ""
    return f'<pre class="code"{label}><code>{shown}</code></pre>\n'


def _alignment(token: Token) -> str:
    return str(token.attrs.get("style", "")).replace("text-align:", "align-")


def _parser(*, breaks: bool) -> MarkdownIt:
    parser = MarkdownIt(
        "commonmark", {"html": False, "breaks": breaks}, renderer_cls=_Renderer
    ).enable(["table", "strikethrough"])
    parser.validateLink = _is_link  # type: ignore[method-assign]
    return parser


def _is_link(url: str) -> bool:
    return _LINK.match(url) is not None


_TYPED: Final = _parser(breaks=True)
_WRITTEN: Final = _parser(breaks=False)
