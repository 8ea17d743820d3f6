"""The search page: tabs and their counts, filters, days, and its states."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from datasette.app import Datasette

from sync.index import Index
from tests.builders import MINUTE, T0, assistant, copy, fill, session, user
from tests.reader.test_pages import Page, get

DAY = 24 * 60 * MINUTE


@pytest.fixture
def ds(tmp_path: Path) -> Datasette:
    return Datasette(
        [
            str(
                fill(
                    tmp_path / "history.db",
                    copy(
                        session(
                            "ses_new", "Login work", at=T0, agent="build", model="sonnet",
                            directory="/home/dev/app",
                        ),
                        user("msg_1", "fix LOGIN and login"),
                        assistant("msg_2", "login fixed", edits=["/home/dev/app/src/login.ts"]),
                    ),
                    copy(
                        session("ses_sub", "Helper", at=T0 - MINUTE, parent_id="ses_new"),
                        user("msg_3", "login helper", at=T0 - MINUTE),
                    ),
                    copy(
                        session(
                            "ses_old", "Old login", at=T0 - 3 * DAY, archived_ms=T0, agent="plan",
                            project_id="other", directory="/home/dev/site",
                        ),
                        user("msg_4", "old login", at=T0 - 3 * DAY),
                        assistant(
                            "msg_5", "ok", at=T0 - 3 * DAY, edits=["/home/dev/site/login.ts"]
                        ),
                    ),
                    copy(session("ses_none", "Unrelated", at=T0 - 4 * DAY), user("msg_6", "x")),
                )
            )
        ]
    )  # fmt: skip


async def search(ds: Datasette, **given: str) -> Page:
    given.setdefault("timezone", "UTC")
    response = await get(ds, f"/-/history?{urlencode(given)}")
    assert response.status_code == 200, response.text
    return Page(response.text)


def counts(shown: Page) -> dict[str, str]:
    """The tabs' counts by name; those that cannot be chosen are left out."""
    names = shown.values("a", "data-tab")
    words = shown.words.split()
    return {name: words[words.index(name.capitalize()) + 1] for name in names}


def found(shown: Page) -> list[str]:
    """Ids of the sessions that results lead to, in order."""
    return [
        attrs["href"].removeprefix("/-/history/session/")
        for tag, attrs in shown.tags
        if tag == "a" and attrs.get("class") == "title result" and attrs["href"]
    ]


@pytest.mark.asyncio
async def test_an_empty_box_lists_recent_sessions_by_day_without_subagents(ds: Datasette) -> None:
    shown = await search(ds)
    assert found(shown) == ["ses_new", "ses_old", "ses_none"]
    labels = [a for tag, a in shown.tags if tag == "section" and a.get("class") == "day"]
    days = [label["aria-label"] for label in labels]
    assert [day.split(", ")[1] for day in days if day] == ["2026-12-01", "2026-11-28", "2026-11-27"]
    assert found(await search(ds, subagents="all")) == ["ses_new", "ses_sub", "ses_old", "ses_none"]


@pytest.mark.asyncio
async def test_days_are_those_of_the_time_zone_that_is_named(ds: Datasette) -> None:
    shown = await search(ds, timezone="America/Los_Angeles")
    labels = [a["aria-label"] for tag, a in shown.tags if tag == "section" and "aria-label" in a]
    assert labels[0] is not None
    assert labels[0].endswith("2026-11-30")


@pytest.mark.asyncio
async def test_tabs_count_messages_sessions_projects_and_edits(ds: Datasette) -> None:
    shown = await search(ds, query="login")
    assert counts(shown) == {"messages": "4", "sessions": "3", "projects": "2", "edits": "2"}
    assert counts(await search(ds)) == {"sessions": "3", "projects": "2", "edits": "2"}
    dated = await search(ds, query="login", date="2026-12-01")
    assert counts(dated) == {"messages": "3", "sessions": "2", "projects": "1", "edits": "1"}
    path = await search(ds, query="path:src/login.ts")
    assert counts(path) == {"sessions": "1", "projects": "1", "edits": "1"}


@pytest.mark.asyncio
async def test_every_match_in_an_excerpt_is_marked(ds: Datasette) -> None:
    shown = await search(ds, query="login")
    assert found(shown) == ["ses_new", "ses_sub", "ses_old"]
    response = await get(ds, "/-/history?query=login")
    assert "fix <mark>LOGIN</mark> and <mark>login</mark>" in response.text
    assert "/-/history/session/ses_new?at=msg_1#msg_1" in shown.values("a", "href")


@pytest.mark.asyncio
async def test_an_excerpt_that_shows_two_words_is_shown_once(ds: Datasette) -> None:
    shown = await search(ds, query="fix login")
    assert [a["href"] for _, a in shown.tags if a.get("class") == "hit result"] == [
        "/-/history/session/ses_new?at=msg_1#msg_1"
    ]
    response = await get(ds, "/-/history?query=fix+login")
    assert "<mark>fix</mark> <mark>LOGIN</mark> and <mark>login</mark>" in response.text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"project": "other"}, ["ses_old"], id="project"),
        pytest.param({"agent": "build"}, ["ses_new"], id="agent"),
        pytest.param({"model": "sonnet"}, ["ses_new"], id="model"),
        pytest.param({"archived": "hide"}, ["ses_new", "ses_sub"], id="not-archived"),
        pytest.param({"archived": "only"}, ["ses_old"], id="archived"),
        pytest.param({"subagents": "hide"}, ["ses_new", "ses_old"], id="no-subagents"),
        pytest.param({"subagents": "only"}, ["ses_sub"], id="subagents"),
        pytest.param({"role": "assistant"}, ["ses_new", "ses_old"], id="role-and-titles"),
        pytest.param({"from": "2026-11-30"}, ["ses_new", "ses_sub"], id="from"),
        pytest.param({"to": "2026-11-29"}, ["ses_old"], id="to"),
        pytest.param({"from": "2026-11-28", "to": "2026-11-28"}, ["ses_old"], id="range"),
        pytest.param({"agent": "build", "project": "other"}, [], id="nothing"),
        pytest.param({"agent": "nobody"}, [], id="unknown-agent"),
    ],
)
async def test_filters_choose_sessions(
    ds: Datasette, given: dict[str, str], expected: list[str]
) -> None:
    shown = await search(ds, query="login", tab="sessions", **given)
    assert found(shown) == expected
    assert counts(shown)["sessions"] == str(len(expected))
    assert ("Nothing matches" in shown.words) is not bool(expected)


@pytest.mark.asyncio
async def test_edits_and_projects_have_tabs_of_their_own(ds: Datasette) -> None:
    edits = await search(ds, tab="edits")
    assert [h for h in edits.values("a", "href") if "/file?" in h] == [
        "/-/history/file?path=%2Fhome%2Fdev%2Fapp%2Fsrc%2Flogin.ts",
        "/-/history/file?path=%2Fhome%2Fdev%2Fsite%2Flogin.ts",
    ]
    assert edits.words.count("first edit") == 2
    only = await search(ds, tab="edits", agent="plan")
    assert [h for h in only.values("a", "href") if "/file?" in h] == [
        "/-/history/file?path=%2Fhome%2Fdev%2Fsite%2Flogin.ts"
    ]
    projects = await search(ds, tab="projects", query="login")
    assert [h for h in projects.values("a", "href") if "/project/" in h] == [
        "/-/history/project/prj",
        "/-/history/project/other",
    ]


@pytest.mark.asyncio
async def test_controls_keep_what_was_chosen(ds: Datasette) -> None:
    given = {"query": "login", "agent": "gone", "date": "2026-11", "from": "2026-11-01"}
    shown = await search(ds, **given)
    chosen = [a["value"] for tag, a in shown.tags if tag == "option" and "selected" in a]
    assert chosen == ["", "2026-11", "", "gone", "", "", ""]
    inputs = {a.get("name"): a.get("value") for tag, a in shown.tags if tag == "input"}
    assert inputs == {"query": "login", "from": "2026-11-01", "to": ""}
    assert "Filters 3 set" in shown.words


@pytest.mark.asyncio
async def test_a_bad_query_keeps_the_page_and_says_what_is_wrong(ds: Datasette) -> None:
    response = await get(ds, "/-/history?query=%22open")
    assert response.status_code == 400
    shown = Page(response.text)
    assert "has an unclosed quote" in shown.words
    assert [a["value"] for _, a in shown.tags if a.get("name") == "query"] == ['"open']


@pytest.mark.asyncio
async def test_more_results_are_one_link_away(tmp_path: Path) -> None:
    sessions = [copy(session(f"ses_{i}", f"Session {i}", at=T0 + i)) for i in range(60)]
    ds = Datasette([str(fill(tmp_path / "history.db", *sessions))])
    shown = await search(ds)
    assert len(found(shown)) == 50
    (more,) = [a["href"] for tag, a in shown.tags if tag == "a" and "data-more" in a]
    assert more == "/-/history?limit=100"
    everything = Page((await get(ds, more)).text)
    assert len(found(everything)) == 60
    assert [a for _, a in everything.tags if "data-more" in a] == []


@pytest.mark.asyncio
async def test_an_index_that_is_filling_or_empty_says_so(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with Index.open(path):
        pass
    ds = Datasette([str(path)])
    shown = await search(ds)
    assert "The index is empty" in shown.words
    assert "never filled completely" not in shown.words
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(
            "INSERT INTO syncs (pid, started, heartbeat, planned, done)"
            " VALUES (1, 0, 9000000000000, 60, 12)"
        )
    assert "The index is still filling: 12 of 60 sessions" in (await search(ds)).words


@pytest.mark.asyncio
async def test_an_unknown_project_is_named(ds: Datasette) -> None:
    shown = await search(ds, query="login project:nowhere")
    assert "No session of the project “nowhere” is indexed" in shown.words


@pytest.mark.asyncio
async def test_results_come_alone_for_the_script(ds: Datasette) -> None:
    response = await get(ds, "/-/history/results?query=login&timezone=UTC")
    part = Page(response.text)
    whole = await search(ds, query="login")
    assert [tag for tag, _ in part.tags if tag in ("html", "form", "script")] == []
    assert found(part) == found(whole)
    assert part.words in whole.words
    bad: Any = await get(ds, "/-/history/results?query=ab")
    assert (bad.status_code, "shorter than 3" in bad.text) == (400, True)
