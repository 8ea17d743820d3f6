"""The routes: inputs in, answers and errors out, permissions first."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from datasette.app import Datasette
from datasette.utils import StartupError

from datasette_history.queries import QUERIES
from tests.builders import T0, assistant, copy, fill, session, tool, user

HOSTILE = "<script>alert(1)</script>"
TOOL_ROUTES = ("search-messages", "search-sessions", "search-edits", "read")


def add_index(folder: Path, name: str = "history", secret: str = "secret word") -> Path:
    return fill(
        folder / f"{name}.db",
        copy(
            session("ses_a", f"Title {HOSTILE}"),
            user("msg_1", f"alpha {secret} {HOSTILE}"),
            assistant("msg_2", tool("bash", output="done"), at=T0 + 1, edits=["src/a.ts"]),
        ),
        copy(session("ses_b", "beta", at=T0 + 5), user("msg_3", "beta")),
    )


def datasette(*files: Path, **metadata: Any) -> Datasette:
    return Datasette([str(file) for file in files], metadata=metadata, memory=True)


@pytest.fixture
def ds(tmp_path: Path) -> Datasette:
    return datasette(add_index(tmp_path))


async def get(ds: Datasette, path: str, **options: Any) -> Any:
    await ds.invoke_startup()
    return await ds.client.get(path, **options)


async def post(ds: Datasette, tool_name: str, body: Any, **options: Any) -> Any:
    await ds.invoke_startup()
    headers = {"content-type": "application/json"} | options.pop("headers", {})
    content = body if isinstance(body, bytes | str) else json.dumps(body)
    path = f"/-/history/{tool_name}"
    return await ds.client.post(path, content=content, headers=headers, **options)


def cookie(ds: Datasette, actor_id: str) -> dict[str, str]:
    return {"ds_actor": ds.sign({"a": {"id": actor_id}}, "actor")}


@pytest.mark.asyncio
async def test_a_tool_answers_get_with_json(ds: Datasette) -> None:
    response = await get(ds, "/-/history/search-messages.json?query=ALPHA&limit=1&role=user")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert response.headers["cache-control"] == "private, no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    url = "http://localhost/-/history/session/ses_a"
    assert response.json() == {
        "ok": True,
        "sessions": [
            {
                "sessionID": "ses_a",
                "title": f"Title {HOSTILE}",
                "projectID": "prj",
                "directory": "/home/dev/app",
                "updated": T0,
                "updatedISO": "2026-12-01T01:00:00.000Z",
                "url": url,
                "resume": "cd /home/dev/app && opencode -s ses_a",
                "hits": [
                    {
                        "word": "ALPHA",
                        "messageID": "msg_1",
                        "role": "user",
                        "timestamp": T0,
                        "timestampISO": "2026-12-01T01:00:00.000Z",
                        "excerpt": f"alpha secret word {HOSTILE}",
                        "url": f"{url}#msg_1",
                    }
                ],
            }
        ],
        "hasMore": False,
        "scope": {"all": True},
    }


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("tool_name", "inputs"),
    [
        ("search-messages", {"query": "alpha -zeta"}),
        ("search-sessions", {"limit": 1}),
        ("search-sessions", {"show": "projects"}),
        ("search-edits", {"query": "path:a.ts"}),
        ("read", {"sessionID": "ses_a", "includeToolResults": True, "limit": 1}),
    ],
)
async def test_get_and_post_give_the_same_answer(
    ds: Datasette, tool_name: str, inputs: dict[str, Any]
) -> None:
    by_post = await post(ds, f"{tool_name}.json", inputs)
    texts = {k: json.dumps(v) if not isinstance(v, str) else v for k, v in inputs.items()}
    by_get = await get(ds, f"/-/history/{tool_name}.json", params=texts)
    assert by_post.status_code == by_get.status_code == 200
    assert by_post.json() == by_get.json()
    text = await get(ds, f"/-/history/{tool_name}.txt", params=texts)
    assert text.status_code == 200
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert (await post(ds, f"{tool_name}.txt", inputs)).text == text.text


@pytest.mark.asyncio
async def test_post_takes_json_from_a_browser_with_cookies(ds: Datasette) -> None:
    cookies = cookie(ds, "root") | {"ds_csrftoken": "x"}
    response = await post(ds, "search-messages.json", {"query": "alpha"}, cookies=cookies)
    assert (response.status_code, response.json()["ok"]) == (200, True)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param("application/x-www-form-urlencoded", "query=alpha", id="form"),
        pytest.param("text/plain", '{"query": "alpha"}', id="plain-text"),
    ],
)
async def test_post_takes_nothing_that_a_foreign_page_could_send(
    ds: Datasette, content_type: str, body: str
) -> None:
    response = await post(
        ds, "search-messages.json", body,
        headers={"content-type": content_type, "origin": "https://evil.test"},
        cookies=cookie(ds, "root"),
    )  # fmt: skip
    assert response.status_code in (400, 403)
    assert "alpha" not in response.text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("{", "the body is not JSON", id="broken"),
        pytest.param("", "the body is not JSON", id="empty"),
        pytest.param("[" * 100_000, "more than the 100000 bytes|the body is not JSON", id="deep"),
        pytest.param("[1]", "must be a JSON object", id="list"),
        pytest.param(b'"\xff"', "the body is not JSON", id="not-utf-8"),
        pytest.param("x" * 100_001, "more than the 100000 bytes allowed", id="long"),
        pytest.param({"query": "abc", "database": 1}, "database must be a text", id="database"),
        pytest.param({"query": 1}, "query must be a text", id="type"),
        pytest.param({"query": "abc", "x": 1}, "unknown input 'x'", id="unknown"),
        pytest.param(
            '{"query": "abc", "query": "def"}', "query is given more than once", id="twice"
        ),
    ],
)
async def test_a_wrong_body_is_a_400_that_says_why(ds: Datasette, body: Any, message: str) -> None:
    response = await post(ds, "search-messages.json", body)
    answer = response.json()
    assert response.status_code == answer["status"] == 400
    assert answer["ok"] is False
    assert any(one in answer["error"] for one in message.split("|"))


@pytest.mark.asyncio
async def test_a_body_of_unknown_length_is_not_read_further_than_is_allowed(ds: Datasette) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"query": "'
        for _ in range(10_000):
            sent += 1_000
            yield b"a" * 1_000
        yield b'"}'

    await ds.invoke_startup()
    response = await ds.client.post(
        "/-/history/search-messages.json",
        content=chunks(),
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 400
    assert response.json()["error"] == "the body has more than the 100000 bytes allowed"
    assert sent <= 101_000


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("query_string", "errors"),
    [
        pytest.param(
            "query=ab",
            ["'ab' is shorter than 3 characters, the least that the index can match; use a longer "
             "word or a quoted phrase"],
            id="query",
        ),
        pytest.param(
            "query=abc&limit=0&role=x",
            ["role must be user or assistant, not 'x'", "limit must be 1 or more, not 0"],
            id="two",
        ),
        pytest.param(
            "query=abc&query=def", ["query is given more than once; give it once"], id="twice"
        ),
        pytest.param(
            "&".join(f"a{n}=1" for n in range(51)), ["the URL has more than 50 inputs"], id="many"
        ),
    ],
)  # fmt: skip
async def test_an_error_is_json_with_all_messages(
    ds: Datasette, query_string: str, errors: list[str]
) -> None:
    response = await get(ds, f"/-/history/search-messages.json?{query_string}")
    assert response.status_code == 400
    assert response.json() == {
        "ok": False,
        "error": "; ".join(errors),
        "errors": errors,
        "status": 400,
    }
    text = await get(ds, f"/-/history/search-messages.txt?{query_string}")
    assert text.status_code == 400
    assert text.text == "".join(f"Error: {error}\n" for error in errors)


@pytest.mark.asyncio
async def test_unknown_sessions_and_messages_are_a_404(ds: Datasette) -> None:
    for query_string in ("sessionID=x", "sessionID=ses_a&messageID=msg_3", "sessionID=%ED%A0%80"):
        response = await get(ds, f"/-/history/read.json?{query_string}")
        assert response.status_code == response.json()["status"] == 404


@pytest.mark.asyncio
async def test_other_methods_are_refused(ds: Datasette) -> None:
    await ds.invoke_startup()
    response = await ds.client.put("/-/history/read.json")
    assert (response.status_code, response.json()["status"]) == (405, 405)


@pytest.mark.asyncio
async def test_inputs_in_the_url_of_a_post_are_refused_but_for_the_database(ds: Datasette) -> None:
    refused = await post(ds, "search-messages.json?role=user", {"query": "alpha"})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("role is given in the URL")
    taken = await post(ds, "search-messages.json?database=history", {"query": "alpha"})
    assert taken.status_code == 200


@pytest.mark.asyncio
async def test_tools_json_describes_the_four_tools(ds: Datasette) -> None:
    answer = (await get(ds, "/-/history/tools.json")).json()
    assert answer["ok"] is True
    assert [one["name"] for one in answer["tools"]] == list(TOOL_ROUTES)
    for one in answer["tools"]:
        assert one["url"] == f"http://localhost/-/history/{one['name']}.json"
        assert one["inputSchema"]["additionalProperties"] is False
        assert "database" in one["inputSchema"]["properties"]


@pytest.mark.asyncio
async def test_status_says_what_is_indexed_and_from_where(ds: Datasette) -> None:
    assert (await get(ds, "/-/history/status.json")).json() == {
        "ok": True,
        "database": "history",
        "sources": [
            {
                "id": 1,
                "kind": "db",
                "location": "/home/dev/.local/share/opencode/opencode.db",
                "lastSync": T0,
                "lastSyncISO": "2026-12-01T01:00:00.000Z",
                "sessions": 2,
                "error": None,
            }
        ],
        "counts": {"sessions": 2, "projects": 1, "messages": 3, "edits": 1, "problems": 0},
        "stranded": {},
        "lastSync": T0,
        "lastSyncISO": "2026-12-01T01:00:00.000Z",
        "running": False,
    }


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "rules",
    [
        pytest.param({"databases": {"history": {"allow": {"id": "root"}}}}, id="database"),
        pytest.param({"allow": {"id": "root"}}, id="instance"),
    ],
)
async def test_someone_without_permission_gets_nothing_from_any_tool_route(
    tmp_path: Path, rules: dict[str, Any]
) -> None:
    ds = datasette(add_index(tmp_path), **rules)
    for name in (*TOOL_ROUTES, "status", "tools"):
        for suffix in ("json", "txt") if name in TOOL_ROUTES else ("json",):
            path = f"/-/history/{name}.{suffix}"
            for query_string in ("query=secret&sessionID=ses_a", "limit=x", "database=history"):
                for cookies in ({}, cookie(ds, "stranger")):
                    response = await get(ds, f"{path}?{query_string}", cookies=cookies)
                    assert response.status_code == 403, path
                    assert "secret word" not in response.text
                    if suffix == "json":
                        assert response.json()["status"] == 403
    page = await get(ds, "/-/history?query=secret")
    assert page.status_code == 403
    assert "secret word" not in page.text
    allowed = await get(
        ds, "/-/history/search-messages.json?query=secret", cookies=cookie(ds, "root")
    )
    assert allowed.status_code == 200
    assert "secret word" in allowed.text


@pytest.mark.asyncio
async def test_a_rule_for_the_database_goes_before_one_for_the_instance(tmp_path: Path) -> None:
    rules = {"allow": {"id": "root"}, "databases": {"history": {"allow": {"id": "agent"}}}}
    ds = datasette(add_index(tmp_path), **rules)
    path = "/-/history/status.json"
    assert (await get(ds, path, cookies=cookie(ds, "agent"))).status_code == 200
    assert (await get(ds, path)).status_code == 403


@pytest.mark.asyncio
async def test_the_index_is_found_by_what_it_is_and_not_by_its_name(tmp_path: Path) -> None:
    other = tmp_path / "aaa.db"
    with closing(sqlite3.connect(other)) as conn:
        conn.execute("CREATE TABLE documents (id, text)")
    ds = datasette(other, add_index(tmp_path, "my sessions"))
    answer = (await get(ds, "/-/history/status.json")).json()
    assert answer["database"] == "my sessions"


@pytest.mark.asyncio
async def test_database_chooses_among_several_indexes(tmp_path: Path) -> None:
    one = add_index(tmp_path, "one", "first index")
    two = add_index(tmp_path, "two", "second index")
    ds = datasette(one, two)
    url = "/-/history/search-messages.json?query=alpha"

    async def found(suffix: str = "") -> tuple[str, str]:
        (hit,) = (await get(ds, url + suffix)).json()["sessions"]
        return hit["hits"][0]["excerpt"].split(" <")[0], hit["url"]

    address = "http://localhost/-/history/session/ses_a"
    assert await found() == ("alpha first index", address)
    assert await found("&database=two") == ("alpha second index", f"{address}?database=two")
    body = {"query": "alpha", "database": "two"}
    by_post = (await post(ds, "search-messages.json", body)).json()
    assert by_post["sessions"][0]["url"] == f"{address}?database=two"


@pytest.mark.asyncio
async def test_without_a_choice_the_first_index_that_the_actor_may_see_answers(
    tmp_path: Path,
) -> None:
    rules = {"databases": {"one": {"allow": {"id": "root"}}}}
    ds = datasette(add_index(tmp_path, "one"), add_index(tmp_path, "two"), **rules)
    path = "/-/history/status.json"
    assert (await get(ds, path)).json()["database"] == "two"
    assert (await get(ds, path, cookies=cookie(ds, "root"))).json()["database"] == "one"
    assert (await get(ds, f"{path}?database=one")).status_code == 403


@pytest.mark.asyncio
async def test_the_setting_names_the_index(tmp_path: Path) -> None:
    plugins = {"datasette-history": {"database": "two"}}
    ds = datasette(add_index(tmp_path, "one"), add_index(tmp_path, "two"), plugins=plugins)
    assert (await get(ds, "/-/history/status.json")).json()["database"] == "two"


@pytest.mark.asyncio
async def test_a_wrong_database_is_a_404(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as conn:
        conn.execute("CREATE TABLE t (x)")
    ds = datasette(add_index(tmp_path), other)
    for name in ("absent", "other", "_memory"):
        response = await get(ds, f"/-/history/status.json?database={name}")
        assert response.status_code == 404, name
        assert response.json()["ok"] is False


@pytest.mark.asyncio
async def test_without_an_index_the_answer_is_a_503_with_the_command_to_run(
    tmp_path: Path,
) -> None:
    response = await get(datasette(), "/-/history/search-sessions.json")
    assert response.status_code == response.json()["status"] == 503
    assert "run `opencode-history sync`" in response.json()["error"]
    page = await get(datasette(), "/-/history")
    assert page.status_code == 503


@pytest.mark.asyncio
async def test_an_outdated_index_is_a_503_with_the_command_that_rebuilds_it(
    tmp_path: Path,
) -> None:
    path = add_index(tmp_path)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA user_version = 999")
    response = await get(datasette(path), "/-/history/search-sessions.json")
    assert response.status_code == 503
    assert "run `opencode-history rebuild`" in response.json()["error"]


@pytest.mark.asyncio
async def test_a_damaged_index_is_a_503_and_not_a_crash(tmp_path: Path) -> None:
    path = add_index(tmp_path)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DROP TABLE documents_fts")
    response = await get(datasette(path), "/-/history/search-messages.json?query=alpha")
    assert response.status_code == 503
    assert "the index cannot be read (no such table: documents_fts)" in response.json()["error"]


@pytest.mark.asyncio
async def test_a_slow_question_is_stopped_at_the_limit_and_the_connection_goes_on(
    tmp_path: Path,
) -> None:
    path = fill(
        tmp_path / "history.db",
        *(copy(session(f"s{n}"), *(user(f"m{i}", "alpha") for i in range(40))) for n in range(60)),
    )
    slow = datasette(path, plugins={"datasette-history": {"time_limit_ms": 1}})
    response = await get(slow, "/-/history/search-sessions.json?query=alpha+-zeta&show=projects")
    assert response.status_code == response.json()["status"] == 503
    assert "took longer than 1 ms and was stopped" in response.json()["error"]
    # The limit has gone from the connection: the same thread answers a slow question of SQL.
    rows = await slow.get_database("history").execute("SELECT count(*) FROM documents, documents d")
    assert rows.single_value() == 2460**2
    quick = datasette(path)
    answer = await get(quick, "/-/history/search-sessions.json?query=alpha+-zeta&show=projects")
    assert answer.json()["projects"][0]["sessions"] == 60


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"database": "absent"}, "setting database cannot be 'absent'; attached databases: "),
        ({"time_limit_ms": 0}, "setting time_limit_ms cannot be 0; use milliseconds from 1 to"),
        ({"time_limit_ms": "3000"}, "setting time_limit_ms cannot be '3000'"),
        ({"time_limit_ms": True}, "setting time_limit_ms cannot be True"),
        ({"sample": "yes"}, "setting sample cannot be 'yes'; use true or false"),
        ({"databse": "x"}, "setting databse cannot be 'x'; known are database"),
    ],
)
async def test_a_wrong_setting_stops_startup(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    ds = datasette(add_index(tmp_path), plugins={"datasette-history": settings})
    with pytest.raises(StartupError) as caught:
        await ds.invoke_startup()
    assert message in str(caught.value)


@pytest.mark.asyncio
async def test_the_page_escapes_what_sessions_say_and_allows_no_script(ds: Datasette) -> None:
    response = await get(ds, "/-/history", params={"query": "alpha"})
    assert response.status_code == 200
    assert HOSTILE not in response.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in response.text
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    echoed = await get(ds, "/-/history", params={"query": f'"{HOSTILE}'})
    assert echoed.status_code == 400
    assert HOSTILE not in echoed.text
    assert "unclosed quote" in echoed.text


@pytest.mark.asyncio
async def test_the_page_without_words_lists_recent_sessions(ds: Datasette) -> None:
    text = (await get(ds, "/-/history?query=&role=&date=")).text
    assert text.index("ses_b") < text.index("ses_a")
    assert "secret word" not in text


@pytest.mark.asyncio
async def test_addresses_respect_base_url(tmp_path: Path) -> None:
    ds = Datasette([str(add_index(tmp_path))], settings={"base_url": "/prefix/"})
    answer = (await get(ds, "/-/history/search-sessions.json?query=beta")).json()
    assert answer["sessions"][0]["url"] == "http://localhost/prefix/-/history/session/ses_b"


@pytest.mark.asyncio
async def test_canned_queries_are_offered_on_the_index_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as conn:
        conn.execute("CREATE TABLE t (x)")
    ds = datasette(add_index(tmp_path), other)
    name = QUERIES[0].name
    assert (await get(ds, f"/history/{name}.json")).status_code == 200
    assert (await get(ds, f"/other/{name}.json")).status_code == 404
