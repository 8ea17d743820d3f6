"""The addresses of the pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from datasette_history.pages import file, project, search, session

_SESSION: Final = r"^/-/history/session/(?P<session_id>[^/]+?)"

ROUTES: Final[list[tuple[str, Callable[..., Any]]]] = [
    (r"^/-/history$", search.search_page),
    (r"^/-/history/results$", search.results),
    (r"^/-/history/file$", file.file_page),
    (r"^/-/history/project/(?P<project_id>[^/]+)$", project.project_page),
    (rf"{_SESSION}(\.(?P<format>md|json))?$", session.session_page),
    (rf"{_SESSION}/messages$", session.messages),
    (rf"{_SESSION}/find$", session.found),
    (rf"{_SESSION}/text/(?P<message_id>[^/]+)/(?P<part>[0-9]{{1,6}})$", session.whole_text),
]
