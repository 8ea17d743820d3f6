"""What holds for every page: width, contrast, names for screen readers, and hostile text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from datasette.app import Datasette

from sync.backfill import Silent, run_backfill
from sync.hookspecs import SyncConfig
from sync.index import Index
from sync.plugins import make_plugin_manager, probe_sources
from tests.pages.conftest import FILE
from tests.reader.test_pages import HOSTILE
from tests.servers import running

OpenPage = Callable[..., Any]

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "screenshots"

PAGES = {
    "recent": "/-/history",
    "messages": "/-/history?query=login",
    "sessions": "/-/history?query=login&tab=sessions",
    "projects": "/-/history?tab=projects",
    "edits": "/-/history?tab=edits",
    "nothing": "/-/history?query=nowhere",
    "mistake": "/-/history?query=ab",
    "session": "/-/history/session/ses_login",
    "found": "/-/history/session/ses_login?find=login",
    "child": "/-/history/session/ses_child",
    "fork": "/-/history/session/ses_fork",
    "long": "/-/history/session/ses_long?at=msg_150#msg_150",
    "hostile": "/-/history/session/ses_odd",
    "file": f"/-/history/file?path={FILE}",
    "hostile-file": f"/-/history/file?path={quote(f'/tmp/{HOSTILE}/{HOSTILE}', safe='')}",
    "project": "/-/history/project/prj",
    "missing": "/-/history/session/nope",
}

UNFOLD = "for (const one of document.querySelectorAll('main details')) one.open = true"


@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_wider_than_a_phone_or_runs_what_it_shows(
    open_page: OpenPage, name: str
) -> None:
    page = open_page(PAGES[name], width=390, height=844)
    page.evaluate(UNFOLD)
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # The fixture fails the test for a dialog, an error, or a request to another host.
    assert page.evaluate("document.querySelectorAll('img, iframe, object, embed').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    open_page: OpenPage, axe: str, address: str, scheme: str
) -> None:
    page = open_page("/-/history", color_scheme=scheme)
    findings = []
    for name, path in PAGES.items():
        page.goto(address + path)
        page.evaluate(UNFOLD)
        page.evaluate(axe)
        result = page.evaluate("axe.run({ resultTypes: ['violations'] })")
        findings += [
            (name, found["id"], node["html"][:120], node["failureSummary"][:300])
            for found in result["violations"]
            if found["impact"] in ("serious", "critical")
            for node in found["nodes"]
        ]
    assert findings == []


@pytest.fixture(scope="module")
def recorded(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server over all recorded histories, and one over an index with nothing in it."""
    folder = tmp_path_factory.mktemp("recorded")
    sets = tuple(samples / name / "data" for name in ("1.1.53", "1.18.33", "1.18.33-v2", "mixed"))
    config = SyncConfig(data_dirs=sets, explicit=True)
    sources = [p.source for p in probe_sources(make_plugin_manager(), config) if p.source]
    with Index.open(folder / "history.db") as index:
        run_backfill(index, sources, progress=Silent())
    with Index.open(folder / "empty.db"):
        pass
    full = Datasette([str(folder / "history.db")])
    none = Datasette([str(folder / "empty.db")])
    with running(full.app()) as one, running(none.app()) as other:
        yield {"recorded": one, "none": other}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_pictures_of_recorded_histories(
    browser: Any, recorded: dict[str, str], width: int, scheme: str
) -> None:
    """Leaves pictures in screenshots/ for people to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)
    context = browser.new_context(
        viewport={"width": width, "height": 1000}, color_scheme=scheme, timezone_id="UTC"
    )
    page = context.new_page()

    def picture(name: str, *, unfold: bool = False) -> None:
        page.wait_for_load_state("networkidle")
        if unfold:
            page.evaluate(UNFOLD)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{scheme}.png")

    start = recorded["recorded"] + "/-/history"
    for name, query in (
        ("recent", ""), ("messages", "?query=token"), ("edits", "?tab=edits"),
        ("projects", "?tab=projects"),
    ):  # fmt: skip
        page.goto(start + query)
        assert page.locator(".result").count() > 0
        picture(name)
    page.goto(f"{start}?query=project:all&tab=projects")
    page.locator(".title").first.click()
    picture("project")
    page.locator(".path").first.click()
    picture("file")
    page.goto(f"{start}?query=refreshSession&tab=sessions")
    page.locator(".title").last.click()
    picture("session", unfold=True)
    page.goto(recorded["none"] + "/-/history")
    assert "The index is empty" in page.locator("main").inner_text()
    picture("none")
    context.close()
