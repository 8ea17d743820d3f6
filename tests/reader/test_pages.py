"""The pages over HTTP: what they show, to whom, and that nothing in them is more than text."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from datasette.app import Datasette

from datasette_history.pages.conversation import BEFORE_ANCHOR, WINDOW
from sync.model import Part, Revert, Todo
from tests.builders import MINUTE, T0, assistant, copy, fill, session, text, tokens, tool, user

HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><b>bold</b> \" ' & "
    "[click](javascript:alert(3)) ![pixel](https://evil.example/x.png) "
    "\u202egnp.exe\u202c \x1b[31mred\x1b[0m \x07"
)
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
FILE = "/home/dev/app/src/login.ts"
PAGES = (
    "/-/history",
    "/-/history?query=login",
    "/-/history?tab=edits",
    "/-/history?tab=projects",
    "/-/history/results?query=login",
    "/-/history/session/ses_a",
    "/-/history/session/ses_a.md",
    "/-/history/session/ses_a.json",
    "/-/history/session/ses_a/messages",
    "/-/history/session/ses_a/find?find=login",
    "/-/history/session/ses_a/text/msg_a1/0",
    f"/-/history/file?path={FILE}",
    "/-/history/project/prj",
)


INLINE = {"a", "bdi", "code", "mark", "span", "strong", "time"}


class Page(HTMLParser):
    """A page as its tags and texts; every attribute that could run or load something is kept."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.text += "" if tag in INLINE else " "

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, tag: str, name: str) -> list[str]:
        return [attrs[name] or "" for found, attrs in self.tags if found == tag and name in attrs]

    @property
    def ids(self) -> list[str]:
        return self.values("article", "id")

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def small(folder: Path) -> Path:
    return fill(
        folder / "history.db",
        copy(
            session(
                "ses_a",
                "Fix the login",
                at=T0 + MINUTE,
                agent="build",
                model="sonnet",
                todos=(Todo(content="Write a test", status="pending", priority="high"),),
            ),
            user("msg_a1", "Please fix the **login**"),
            assistant(
                "msg_a2",
                Part(kind="reasoning", text="Thinking aloud"),
                "Done, see `login.ts`.\n\n```python\nprint('hi')\n```",
                tool("edit", filePath=FILE, oldString="a\nb\n", newString="a\nc\n", output="ok"),
                tool("bash", call=1, command="npm test", output="\x1b[32mPASS\x1b[0m\n" * 40),
                at=T0 + MINUTE,
                agent="build",
                model="sonnet",
                cost=0.0123,
                tokens=tokens(1200, 300),
                finish="tool-calls",
                edits=[FILE],
            ),
        ),
        copy(
            session("ses_child", "Look around (@explore subagent)", parent_id="ses_a"),
            user("msg_c1", "Look"),
            assistant("msg_c2", "Looked.", cost=0.5),
        ),
    )


@pytest.fixture
def ds(tmp_path: Path) -> Datasette:
    return Datasette([str(small(tmp_path))])


async def get(ds: Datasette, path: str, **options: Any) -> Any:
    await ds.invoke_startup()
    return await ds.client.get(path, **options)


async def page(ds: Datasette, path: str) -> Page:
    response = await get(ds, path)
    assert response.status_code == 200, response.text
    return Page(response.text)


@pytest.mark.asyncio
@pytest.mark.parametrize("path", PAGES)
async def test_every_page_answers_and_sends_a_strict_policy(ds: Datasette, path: str) -> None:
    response = await get(ds, path)
    assert response.status_code == 200
    assert response.headers["content-security-policy"] == CSP
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "private, no-store"


@pytest.mark.asyncio
@pytest.mark.parametrize("path", PAGES)
async def test_no_page_is_shown_to_who_may_not_see_the_database(tmp_path: Path, path: str) -> None:
    private = Datasette(
        [str(small(tmp_path))], metadata={"databases": {"history": {"allow": {"id": "root"}}}}
    )
    response = await get(private, path)
    assert response.status_code == 403
    assert "login" not in response.text.lower().replace("log in", "")
    cookies = {"ds_actor": private.sign({"a": {"id": "root"}}, "actor")}
    assert (await get(private, path, cookies=cookies)).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("path", PAGES)
async def test_pages_work_below_a_base_url(tmp_path: Path, path: str) -> None:
    ds = Datasette([str(small(tmp_path))], settings={"base_url": "/data/"})
    response = await get(ds, path)  # the client puts the base URL before it
    assert response.status_code == 200
    if "html" in response.headers["content-type"]:
        shown = Page(response.text)
        links = [
            *shown.values("a", "href"),
            *shown.values("link", "href"),
            *shown.values("script", "src"),
            *shown.values("form", "action"),
        ]
        own = [link for link in links if not link.startswith(("https://datasette.io/", "#"))]
        assert own or "/results" in path
        assert [link for link in own if not link.startswith("/data/")] == []


@pytest.mark.asyncio
async def test_static_files_of_a_page_exist(ds: Datasette) -> None:
    for path in ("/-/history", "/-/history/session/ses_a", "/-/history/project/prj"):
        shown = await page(ds, path)
        for url in [*shown.values("script", "src"), *shown.values("link", "href")]:
            assert (await get(ds, url)).status_code == 200, url


@pytest.mark.asyncio
async def test_a_session_shows_its_conversation_its_facts_and_its_family(ds: Datasette) -> None:
    shown = await page(ds, "/-/history/session/ses_a")
    assert shown.ids == ["msg_a1", "msg_a2"]
    for expected in (
        "Fix the login",
        "/home/dev/app",
        "1.5k tok · $0.0123",
        "$0.0123, $0.5123 with subagents",
        "cd /home/dev/app && opencode -s ses_a",
        "Reasoning 14 characters",
        "edit src/login.ts",
        "+1 −1",
        "npm test",
        "Show all: 16 more lines, 560 characters",
        "pending: Write a test high",
        "Prompts 1 Please fix the **login** 1 step · 1.5k tokens · $0.0123",
        "Subagents 1 Look around (@explore subagent)",
    ):
        assert expected in shown.words, expected
    assert ("strong", {}) in shown.tags
    assert ("span", {"class": "remove"}) in shown.tags
    child = await page(ds, "/-/history/session/ses_child")
    assert "Subagent of Fix the login" in child.words
    assert "/-/history/session/ses_a" in child.values("a", "href")


@pytest.mark.asyncio
async def test_hostile_text_is_shown_as_text_on_every_page(tmp_path: Path) -> None:
    path = fill(
        tmp_path / "history.db",
        copy(
            session(
                "ses_x", HOSTILE, directory=f"/tmp/{HOSTILE}", agent=HOSTILE, model=HOSTILE,
                version=HOSTILE, todos=(Todo(content=HOSTILE, status=HOSTILE),),
                project_id=HOSTILE,
            ),
            user(f"msg_{HOSTILE}", HOSTILE, Part(kind="file", text=HOSTILE, name=HOSTILE)),
            assistant(
                "msg_2",
                HOSTILE,
                f"```{HOSTILE}\n{HOSTILE}\n```",
                tool("bash", command=HOSTILE, output=HOSTILE, error=HOSTILE),
                tool("edit", call=1, filePath=HOSTILE, oldString=HOSTILE, newString="x" * 200_000),
                tool("todowrite", call=2, **{"todos[0].content": HOSTILE}),
                tool(HOSTILE, call=3, **{HOSTILE: HOSTILE}),
                tool("apply_patch", call=4, patchText=f"*** Update File: {HOSTILE}\n+{HOSTILE}"),
                Part(kind="synthetic", text=HOSTILE, own=False),
                Part(kind="error", text=HOSTILE),
                Part(kind="summary", text=HOSTILE),
                model=HOSTILE, agent=HOSTILE, finish=HOSTILE, edits=[HOSTILE],
                at=T0 + 1,
            ),
        ),
    )  # fmt: skip
    ds = Datasette([str(path)])
    query = quote('"onerror=alert"')
    file = quote(f"/tmp/{HOSTILE}/{HOSTILE}", safe="")
    for address in (
        "/-/history",
        f"/-/history?query={query}&agent={quote(HOSTILE)}&model={quote(HOSTILE)}",
        f"/-/history?query={quote(chr(34) + HOSTILE)}&project={quote(HOSTILE)}",
        "/-/history?tab=edits",
        "/-/history?tab=projects",
        "/-/history/session/ses_x",
        "/-/history/session/ses_x?find=onerror",
        f"/-/history/session/{quote(HOSTILE, safe='')}",
        f"/-/history/file?path={file}",
        f"/-/history/project/{quote(HOSTILE, safe='')}",
        "/history/sessions",
        "/history/documents",
        "/history/file_edits",
    ):
        response = await get(ds, address)
        assert response.status_code in (200, 400, 404), address
        assert_harmless(response.text, address, own=address.startswith("/-/"))


def assert_harmless(html: str, address: str, *, own: bool) -> None:
    shown = Page(html)
    assert not [tag for tag, _ in shown.tags if tag in ("img", "b", "iframe", "object")], address
    for tag, attrs in shown.tags:
        handlers = [name for name in attrs if name.startswith("on" if own else "onerror")]
        assert not handlers, (address, tag)
        for name in ("href", "src", "action"):
            assert not (attrs.get(name) or "").lower().lstrip().startswith("javascript:"), address
    if own:
        assert [attrs for tag, attrs in shown.tags if tag == "script" and "src" not in attrs] == []
        assert [tag for tag, attrs in shown.tags if tag == "style" or "style" in attrs] == []
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", shown.text), address
        assert all(
            not url or url.startswith(("/", "#", "https://datasette.io/"))
            or url == "https://evil.example/x.png"
            for url in shown.values("a", "href")
        )  # fmt: skip


def many(folder: Path, count: int) -> Path:
    messages = [
        user(f"msg_{i}", f"Prompt {i}", at=T0 + i)
        if i % 10 == 0
        else assistant(f"msg_{i}", f"Answer {i}", at=T0 + i)
        for i in range(count)
    ]
    return fill(folder / "history.db", copy(session("ses_big", "Big"), *messages))


def numbers(ids: Sequence[str]) -> list[int]:
    return [int(one.removeprefix("msg_")) for one in ids]


@pytest.mark.asyncio
async def test_a_session_of_9000_messages_comes_in_pages_around_the_anchor(
    tmp_path: Path,
) -> None:
    ds = Datasette([str(many(tmp_path, 9_000))])
    first = await page(ds, "/-/history/session/ses_big")
    assert numbers(first.ids) == list(range(WINDOW))
    assert "Prompts 900" in first.words
    around = await page(ds, "/-/history/session/ses_big?at=msg_4567")
    start = 4567 - BEFORE_ANCHOR
    assert numbers(around.ids) == list(range(start, start + WINDOW))
    # Following the links in both directions meets every message once.
    seen = numbers(around.ids)
    later = [h for h in around.values("a", "href") if "from=" in h]
    earlier = [h for h in around.values("a", "href") if "before=" in h]
    assert (len(later), len(earlier)) == (1, 1)
    after = await page(ds, later[0])
    before = await page(ds, earlier[0])
    seen = numbers(before.ids) + seen + numbers(after.ids)
    assert seen == list(range(start - WINDOW, start + 2 * WINDOW))
    last = await page(ds, "/-/history/session/ses_big?at=msg_8999")
    assert numbers(last.ids)[-1] == 8999
    assert [h for h in last.values("a", "href") if "from=" in h] == []


@pytest.mark.asyncio
async def test_a_window_of_messages_comes_alone_with_what_lies_around_it(tmp_path: Path) -> None:
    ds = Datasette([str(many(tmp_path, 250))])
    window = await page(ds, "/-/history/session/ses_big/messages?from=100")
    assert numbers(window.ids) == list(range(100, 160))
    (attributes,) = [a for tag, a in window.tags if tag == "div" and a.get("class") == "window"]
    assert (attributes["data-earlier"], attributes["data-later"]) == ("100", "160")
    assert [tag for tag, _ in window.tags if tag in ("html", "main", "script")] == []
    rest = await page(ds, "/-/history/session/ses_big/messages?from=200")
    assert numbers(rest.ids) == list(range(200, 250))


@pytest.mark.asyncio
async def test_finding_in_a_session_looks_into_all_of_it(tmp_path: Path) -> None:
    ds = Datasette([str(many(tmp_path, 300))])
    found = await page(ds, "/-/history/session/ses_big/find?find=ANSWER+29")
    assert "10 messages with “ANSWER 29”" in found.words
    assert found.values("a", "href")[0] == "/-/history/session/ses_big?at=msg_29#msg_29"
    assert found.text.count("Answer 29") == 10
    short = await page(ds, "/-/history/session/ses_big/find?find=99")
    assert "3 messages with “99”" in short.words
    nothing = await page(ds, "/-/history/session/ses_big/find?find=nowhere")
    assert "No message holds “nowhere”" in nothing.words
    whole = await page(ds, "/-/history/session/ses_big?find=Answer+299")
    assert "1 message with “Answer 299”" in whole.words


@pytest.mark.asyncio
async def test_forks_reverts_and_subagents_are_marked(tmp_path: Path) -> None:
    path = fill(
        tmp_path / "history.db",
        copy(
            session("ses_p", "Parent"),
            user("msg_p1", "Go"),
            assistant(
                "msg_p2",
                tool("task", description="Explore lib", subagent_type="explore", output="done"),
            ),
        ),
        copy(session("ses_c", "Explore lib (@explore subagent)", parent_id="ses_p")),
        copy(session("ses_other", "Something else (@explore subagent)", parent_id="ses_p")),
        copy(
            session(
                "ses_f", "Parent (fork #1)", forked_from="ses_p", archived_ms=T0,
                revert=Revert(message_id="msg_f2"),
            ),
            user("msg_f1", "Go"),
            assistant("msg_f2", "Undone"),
        ),
    )  # fmt: skip
    ds = Datasette([str(path)])
    parent = await page(ds, "/-/history/session/ses_p")
    assert "Subagent: Explore lib (@explore subagent)" in parent.words
    assert "Forks: Parent (fork #1)" in parent.words
    fork = await page(ds, "/-/history/session/ses_f")
    assert "Forked from Parent" in fork.words
    assert "archived fork" in fork.words
    classes = dict(zip(fork.ids, fork.values("article", "class"), strict=True))
    assert "reverted" not in classes["msg_f1"]
    assert "reverted" in classes["msg_f2"]


@pytest.mark.asyncio
async def test_what_only_older_copies_have_and_what_has_no_price_is_said(tmp_path: Path) -> None:
    path = fill(
        tmp_path / "history.db",
        copy(
            session("ses_1"),
            user("msg_1", "Go"),
            assistant("msg_2", "One", tokens=tokens(5, 5), cost=0.0),
            assistant("msg_3", "Two", tokens=tokens(5, 5), cost=0.5),
        ),
    )
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("UPDATE documents SET only_in = 'v1' WHERE message_id = 'msg_1'")
        conn.execute(
            "UPDATE parts SET only_in = 'json' WHERE document_id ="
            " (SELECT id FROM documents WHERE message_id = 'msg_2')"
        )
    shown = await page(Datasette([str(path)]), "/-/history/session/ses_1")
    assert shown.words.count("only in v1") == 1
    assert shown.words.count("partly only in json") == 1
    assert "Not priced 1 answer with tokens and no cost" in shown.words


@pytest.mark.asyncio
async def test_a_long_output_is_cut_and_its_whole_text_is_one_link_away(ds: Datasette) -> None:
    shown = await page(ds, "/-/history/session/ses_a")
    (link,) = [href for href in shown.values("a", "href") if "/text/" in href]
    response = await get(ds, link)
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == "\x1b[32mPASS\x1b[0m\n" * 40


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        pytest.param("/session/nope", 404, "not in the index", id="session"),
        pytest.param("/session/ses_a?at=nope", 404, "not in session", id="message"),
        pytest.param("/session/ses_a?from=x", 400, "whole number", id="position"),
        pytest.param("/session/ses_a/messages?at=", 200, "", id="empty-anchor"),
        pytest.param("/session/ses_a/text/msg_a1/99", 404, "no part 99", id="part"),
        pytest.param("/file", 400, "path must name a file", id="no-path"),
        pytest.param("/file?path=/nope.ts", 404, "no edit of", id="file"),
        pytest.param("/file?path=/a&limit=x", 400, "limit cannot be", id="limit"),
        pytest.param("/project/nope", 404, "not in the index", id="project"),
        pytest.param("?query=ab", 400, "shorter than 3", id="short-word"),
        pytest.param("?from=2026-02-30", 400, "is no day", id="no-day"),
        pytest.param("?from=2026-02-03&to=2026-02-01", 400, "is reversed", id="reversed"),
        pytest.param("?tab=nope", 400, "tab cannot be", id="tab"),
        pytest.param("?timezone=Mars", 400, "is not known", id="timezone"),
        pytest.param("?database=nope", 404, "not an attached index", id="database"),
    ],
)
async def test_what_cannot_be_shown_says_why(
    ds: Datasette, path: str, status: int, said: str
) -> None:
    response = await get(ds, f"/-/history{path}")
    assert response.status_code == status
    assert said in Page(response.text).words


@pytest.mark.asyncio
async def test_the_life_of_a_file_has_prompts_diffs_and_its_first_edit(tmp_path: Path) -> None:
    path = fill(
        tmp_path / "history.db",
        copy(
            session("ses_1", "First"),
            user("msg_1", "Make the file"),
            assistant(
                "msg_2", tool("write", filePath=FILE, content="one\n"), edits=[FILE], at=T0 + 1
            ),
        ),
        copy(
            session("ses_2", "Second", at=T0 + MINUTE),
            user("msg_3", "Change the file", at=T0 + MINUTE),
            assistant(
                "msg_4",
                tool("edit", filePath="src/login.ts", oldString="one", newString="two"),
                tool("edit", call=1, filePath="/home/dev/app/other.ts", newString="not this"),
                edits=[FILE, "/home/dev/app/other.ts"],
                at=T0 + MINUTE + 1,
            ),
        ),
    )
    ds = Datasette([str(path)])
    shown = await page(ds, f"/-/history/file?path={FILE}")
    assert "not this" not in shown.text
    assert shown.words.index("Second") < shown.words.index("First Make")
    for expected in ("Change the file -one +two", "Make the file +one", "first edit First"):
        assert expected in shown.words, expected
    ending = await page(ds, "/-/history/file?path=login.ts")
    assert FILE in ending.words


@pytest.mark.asyncio
async def test_a_project_shows_its_worktrees_files_models_and_cost(tmp_path: Path) -> None:
    week = 7 * 24 * 60 * MINUTE
    path = fill(
        tmp_path / "history.db",
        copy(
            session("ses_1", "Main work", at=T0 + 3 * week),
            user("msg_1", "Go"),
            assistant("msg_2", "On it", model="sonnet", cost=0.5, tokens=tokens(1000, 100)),
            assistant("msg_3", "Done", model="opus", cost=1.25, at=T0 + 3 * week, edits=[FILE]),
        ),
        copy(session("ses_2", "In a worktree", directory="/home/dev/app-wt")),
        copy(session("ses_3", "Elsewhere", project_id="other"), user("msg_x", "x", at=T0)),
    )
    ds = Datasette([str(path)])
    shown = await page(ds, "/-/history/project/prj")
    for expected in (
        "Sessions 2",
        "Cost $1.75",
        "/home/dev/app-wt 1 session",
        f"{FILE} 1 edit",
        "opus 1 0 $1.25",
        "sonnet 1 1.1k $0.5000",
        "Main work",
    ):
        assert expected in shown.words, expected
    assert "Elsewhere" not in shown.words
    assert len([tag for tag, _ in shown.tags if tag == "rect"]) == 4


@pytest.mark.asyncio
async def test_the_sample_is_named_on_every_page(tmp_path: Path) -> None:
    said = "Sample data: no OpenCode history was found on this machine."
    plugins = {"datasette-history": {"sample": True}}
    sample = Datasette([str(small(tmp_path))], metadata={"plugins": plugins})
    own = Datasette([str(tmp_path / "history.db")])
    for path in ("/-/history", "/-/history/session/ses_a", "/", "/history", "/history/sessions"):
        assert (await get(sample, path)).text.count(said) == 1, path
        assert said not in (await get(own, path)).text, path


@pytest.mark.asyncio
async def test_the_menu_leads_those_who_may_see_the_index_to_the_search(tmp_path: Path) -> None:
    link = '<a href="/-/history">Search sessions</a>'
    open_to_all = Datasette([str(small(tmp_path))])
    assert link in (await get(open_to_all, "/")).text
    closed = Datasette(
        [str(tmp_path / "history.db")],
        metadata={"databases": {"history": {"allow": {"id": "root"}}}},
    )
    assert link not in (await get(closed, "/")).text


@pytest.mark.asyncio
async def test_links_keep_to_the_index_that_was_chosen(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    one = small(tmp_path)
    two = fill(tmp_path / "two.db", copy(session("ses_z", "Only in two"), user("msg_z", "zebra")))
    ds = Datasette([str(one), str(two)])
    shown = await page(ds, "/-/history?query=zebra&database=two")
    assert "/-/history/session/ses_z?at=msg_z&database=two#msg_z" in shown.values("a", "href")
    assert ("input", {"type": "hidden", "name": "database", "value": "two"}) in shown.tags
    assert (await get(ds, "/-/history/session/ses_z")).status_code == 404


@pytest.mark.asyncio
async def test_an_index_of_another_version_says_what_to_do(tmp_path: Path) -> None:
    path = small(tmp_path)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA user_version = 99")
    response = await get(Datasette([str(path)]), "/-/history/session/ses_a")
    assert response.status_code == 503
    assert "opencode-history rebuild" in response.text


@pytest.mark.asyncio
async def test_text_in_other_scripts_keeps_its_joiners(tmp_path: Path) -> None:
    family = "👨\u200d👩\u200d👧 نامه\u200cها"
    path = fill(tmp_path / "history.db", copy(session("ses_1", family), user("m1", text(family))))
    shown = await page(Datasette([str(path)]), "/-/history/session/ses_1")
    assert shown.text.count(family) >= 3
