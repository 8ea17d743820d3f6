"""A real Chromium over a real server, for the tests of the pages.

The browser is Debian's chromium, or the one that CHROMIUM names; it talks to no host but the
server, and a test fails where a page tries to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from datasette.app import Datasette

from sync.model import Part, Todo
from tests.builders import MINUTE, T0, assistant, copy, fill, session, tokens, tool, user
from tests.reader.test_pages import HOSTILE
from tests.servers import running

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)
AXE = "axe-core@4.10"
FILE = "/home/dev/app/src/auth/login.ts"
LONG = 330
"""Messages of the long session: more than three windows."""


# Of the package: Playwright keeps an event loop running, and other tests need their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium: install Debian's chromium, or name one in CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    """The source of axe-core, installed once with npm."""
    folder = Path(request.config.cache.mkdir("axe-core"))  # type: ignore[union-attr]
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm to install axe-core with")
        command = [npm, "install", "--no-save", "--no-audit", "--prefix", str(folder), AXE]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            pytest.skip(f"npm cannot install axe-core: {done.stderr.strip()[-300:]}")
    return script.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over a history that has something for every page."""
    ds = Datasette([str(history(tmp_path_factory.mktemp("pages")))])
    with running(ds.app()) as url:
        yield url


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open a path in a browser of its own; complain about whatever a page should not do."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def watch(page: Any) -> None:
        def request(sent: Any) -> None:
            if sent.url.startswith(("data:", "blob:")):
                return
            if urlsplit(sent.url).netloc != urlsplit(address).netloc:
                complaints.append(f"a request to another host: {sent.url}")

        def console(message: Any) -> None:
            if message.type == "error" and "status of 4" not in message.text:
                complaints.append(f"console: {message.text}")

        def dialog(shown: Any) -> None:
            complaints.append(f"a dialog: {shown.message}")
            shown.dismiss()

        page.on("request", request)
        page.on("console", console)
        page.on("dialog", dialog)
        page.on("pageerror", lambda error: complaints.append(f"an error: {error}"))

    def opener(path: str, *, width: int = 1440, height: int = 900, **options: Any) -> Any:
        options.setdefault("timezone_id", "UTC")
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        watch(page)
        page.goto(address + path)
        return page

    yield opener
    for context in contexts:
        context.close()
    assert complaints == []


def history(folder: Path) -> Path:
    return fill(
        folder / "history.db",
        copy(
            session(
                "ses_login", "Fix the login of the shop", at=T0, agent="build", model="sonnet",
                todos=(
                    Todo(content="Find it", status="completed", priority="high"),
                    Todo(content="Fix it", status="in_progress"),
                ),
            ),
            user("msg_l1", "The login fails with **mixed case** mail addresses", at=T0),
            assistant(
                "msg_l2",
                Part(kind="reasoning", text="Perhaps the comparison."),
                "It compares as typed:\n\n```python\nif user == 'x':\n    pass\n```\n\n"
                "| a | b |\n| - | - |\n| 1 | 2 |",
                tool(
                    "edit", filePath=FILE, oldString="a = 1\n", newString="a = 2\n", output="Edited"
                ),
                tool("bash", call=1, command="npm test", output="ok line\n" * 60 + "last needle"),
                tool("read", call=2, filePath=FILE, error="no such file", status="error"),
                tool(
                    "task", call=3, description="Look around", subagent_type="explore",
                    prompt="Look", output="done",
                ),
                at=T0 + MINUTE, agent="build", model="sonnet", cost=0.01,
                tokens=tokens(1000, 50), finish="stop", edits=[FILE],
            ),
        ),
        copy(
            session("ses_child", "Look around (@explore subagent)", parent_id="ses_login"),
            user("msg_c1", "Look"),
        ),
        copy(
            session("ses_fork", "Fix the login of the shop (fork #1)", at=T0 - MINUTE,
                    forked_from="ses_login", archived_ms=T0),
            user("msg_f1", "Another way for the login", at=T0 - MINUTE),
        ),
        copy(session("ses_long", "A long session", at=T0 - 60 * MINUTE), *long_session()),
        copy(
            session("ses_odd", HOSTILE, directory=f"/tmp/{HOSTILE}", at=T0 - 5 * MINUTE),
            user(f"msg_{HOSTILE}", HOSTILE, Part(kind="file", text=HOSTILE, name=HOSTILE)),
            assistant(
                "msg_o2", HOSTILE,
                tool("bash", command=HOSTILE, output=HOSTILE + "x" * 50_000),
                tool(HOSTILE, call=1, **{HOSTILE: HOSTILE}),
                edits=[HOSTILE], at=T0 + 1,
            ),
        ),
    )  # fmt: skip


def long_session() -> Iterator[Any]:
    for number in range(LONG):
        when = T0 - 60 * MINUTE + number
        if number % 10 == 0:
            yield user(f"msg_{number}", f"Prompt number {number}", at=when)
        else:
            output = f"output {number}\n" * 3 + ("hidden treasure" if number == 205 else "")
            called = tool("bash", command=f"echo {number}", output=output)
            yield assistant(f"msg_{number}", f"Answer {number}", called, at=when)
