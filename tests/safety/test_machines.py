"""Several machines' indexes in one Datasette, asked together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasette.app import Datasette

from tests.builders import MINUTE, T0, assistant, copy, fill, session, user

SEARCH = "/-/history/search-sessions.json"


@pytest.fixture
def ds(tmp_path: Path) -> Datasette:
    """Three machines; of the sessions on two of them, every second one is on the other."""
    files = []
    for number, machine in enumerate(("laptop", "server", "hidden")):
        copies = [
            copy(
                session(f"ses_{machine}{n}", f"{machine} {n}", at=T0 + (2 * n + number) * MINUTE),
                user(f"msg_{n}", "login works", at=T0 + (2 * n + number) * MINUTE),
                assistant(
                    f"msg_{n}e", "Done.", at=T0 + (2 * n + number) * MINUTE, edits=["/a/b.ts"]
                ),
            )
            for n in range(4)
        ]
        files.append(str(fill(tmp_path / f"{machine}.db", *copies)))
    return Datasette(files, metadata={"databases": {"hidden": {"allow": {"id": "root"}}}})


async def get(ds: Datasette, path: str) -> Any:
    await ds.invoke_startup()
    return await ds.client.get(path)


@pytest.mark.asyncio
async def test_results_are_merged_newest_first_and_name_their_machine(ds: Datasette) -> None:
    body = (await get(ds, f"{SEARCH}?database=all&query=login")).json()
    assert [(s["sessionID"], s["database"]) for s in body["sessions"]] == [
        (f"ses_{machine}{n}", machine) for n in (3, 2, 1, 0) for machine in ("server", "laptop")
    ]
    assert body["databases"] == ["laptop", "server"]
    assert body["hasMore"] is False
    assert body["sessions"][0]["url"].endswith("/session/ses_server3?database=server")


@pytest.mark.asyncio
@pytest.mark.parametrize("tool", ["search-messages", "search-sessions", "search-edits"])
async def test_the_limit_holds_for_all_of_them_together(ds: Datasette, tool: str) -> None:
    query = "path:/a/b.ts" if tool == "search-edits" else "login"
    path = f"/-/history/{tool}.json?database=all&limit=3&query={query}"
    body = (await get(ds, path)).json()
    [results] = [body[key] for key in ("sessions", "edits") if key in body]
    assert [r["sessionID"] for r in results] == ["ses_server3", "ses_laptop3", "ses_server2"]
    assert body["hasMore"] is True


@pytest.mark.asyncio
async def test_a_session_is_read_from_the_machine_that_has_it(ds: Datasette) -> None:
    for machine in ("laptop", "server"):
        path = f"/-/history/read.json?database=all&sessionID=ses_{machine}1"
        body = (await get(ds, path)).json()
        assert (body["database"], body["sessionID"]) == (machine, f"ses_{machine}1")
    for missing in ("ses_none", "ses_hidden1"):
        response = await get(ds, f"/-/history/read.json?database=all&sessionID={missing}")
        assert response.status_code == 404


@pytest.mark.asyncio
async def test_a_machine_that_the_actor_may_not_see_is_left_out(ds: Datasette) -> None:
    path = f"{SEARCH}?database=all"
    assert "hidden" not in (await get(ds, path)).text
    cookies = {"ds_actor": ds.sign({"a": {"id": "root"}}, "actor")}
    assert "ses_hidden3" in (await ds.client.get(path, cookies=cookies)).text


@pytest.mark.asyncio
async def test_who_may_see_none_is_refused(tmp_path: Path) -> None:
    path = fill(tmp_path / "hidden.db", copy(session("a"), user("m", "login")))
    ds = Datasette([str(path)], metadata={"databases": {"hidden": {"allow": False}}})
    assert (await get(ds, f"{SEARCH}?database=all")).status_code == 403


@pytest.mark.asyncio
async def test_wrong_inputs_are_the_same_error_as_for_one_machine(ds: Datasette) -> None:
    response = await get(ds, f"{SEARCH}?database=all&query=ab")
    assert response.status_code == 400
    assert "'ab'" in response.json()["error"]


@pytest.mark.asyncio
async def test_the_text_has_a_part_for_each_machine(ds: Datasette) -> None:
    text = (await get(ds, "/-/history/search-sessions.txt?database=all")).text
    assert text.index("# laptop") < text.index("ses_laptop3") < text.index("# server")
    assert "ses_server3" in text


@pytest.mark.asyncio
async def test_a_database_of_that_name_goes_before(tmp_path: Path) -> None:
    files = [
        str(fill(tmp_path / f"{name}.db", copy(session(f"ses_{name}"), user("m", "login"))))
        for name in ("all", "other")
    ]
    body = (await get(Datasette(files), f"{SEARCH}?database=all")).json()
    assert [s["sessionID"] for s in body["sessions"]] == ["ses_all"]
