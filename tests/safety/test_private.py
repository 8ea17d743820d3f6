"""Nobody who may not see the index learns a word of it, by any route there is."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from datasette.app import Datasette

from datasette_history.mcp_tools import TOOLS_BY_MCP_NAME
from datasette_history.queries import QUERIES
from datasette_history.schema import session_range
from sync.cli.door import build_datasette
from sync.cli.guard import LOOPBACK_HOSTS, Guard
from sync.index import Index
from sync.model import BadRecord, Project, Todo
from sync.private_files import AGENT_TOKEN
from tests.builders import T0, assistant, copy, fill, session, synthetic, tokens, tool, user
from tests.safety.routes import addresses
from tests.servers import running

CANARY = "Zwergkanarie"
"""In everything that the index holds, but in no address that is asked for."""

SQL = "select group_concat(text) from documents"

TABLES = (
    "sources", "projects", "sessions", "session_copies", "documents", "parts", "document_paths",
    "todos", "problems", "syncs", "tombstones", "documents_fts", "documents_fts_data",
    "messages", "tool_calls", "file_edits", "session_costs",
)  # fmt: skip


def fill_index(path: Path) -> Path:
    """An index in which every text that can be someone's own has the canary."""
    fill(
        path,
        copy(
            session(
                "ses_1",
                f"[{CANARY}] findme title {CANARY}",
                directory=f"/home/{CANARY}/app",
                slug=f"slug-{CANARY}",
                agent=CANARY,
                model=CANARY,
                provider=CANARY,
                share_url=f"https://{CANARY}.example",
                todos=(Todo(content=f"todo {CANARY}", status="pending", priority="high"),),
            ),
            user("msg_1", f"findme text {CANARY}"),
            assistant(
                "msg_2",
                f"findme answer {CANARY}",
                tool("bash", command=f"echo {CANARY}", output=f"findme {CANARY}", error=CANARY),
                synthetic(f"findme {CANARY}"),
                at=T0 + 1000,
                edits=[f"/home/{CANARY}/app/src/findme.ts"],
                cost=1.5,
                tokens=tokens(input=5),
                model=CANARY,
            ),
        ),
        copy(session("ses_2", f"Child {CANARY}", parent_id="ses_1"), user("msg_3", CANARY)),
    )
    with Index.open(path) as index, index.transaction():
        index.save_projects([Project(id="prj", directory=f"/home/{CANARY}", name=CANARY)])
        index.replace_problems(
            1, "list", [BadRecord(item=f"row {CANARY}", reason=CANARY)], now_ms=T0
        )
        index.source_read(1)
    return path


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def posts() -> list[Request]:
    found = []
    for name, inputs in (
        ("search-messages", {"query": "findme"}),
        ("search-sessions", {"query": "findme"}),
        ("search-sessions", {"show": "projects"}),
        ("search-edits", {"query": "findme"}),
        ("read", {"sessionID": "ses_1", "includeToolResults": True}),
    ):
        found += [Request("POST", f"/-/history/{name}.{form}", inputs) for form in ("json", "txt")]
    return [*found, *mcp_calls()]


def mcp_calls() -> list[Request]:
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
    }
    calls = [
        ("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }),
        ("tools/list", {}),
        ("resources/list", {}),
        ("prompts/list", {}),
        ("tools/call", {"name": "list_databases", "arguments": {}}),
        ("tools/call", {"name": "get_database_schema", "arguments": {"database": "history"}}),
        ("tools/call", {"name": "execute_sql", "arguments": {"database": "history", "sql": SQL}}),
    ]  # fmt: skip
    for name, tool_called in TOOLS_BY_MCP_NAME.items():
        needed = {"sessionID": "ses_1"} if tool_called.name == "read" else {"query": "findme"}
        calls.append(("tools/call", {"name": name, "arguments": needed}))
    return [
        Request(
            "POST",
            "/-/mcp",
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
            headers,
        )
        for method, params in calls
    ]


def requests(datasette: Datasette) -> list[Request]:
    """Every route in every form, then what carries parameters."""
    paths = {path.replace("//", "/") for path in addresses(datasette)}
    for name in (*TABLES, *(query.name for query in QUERIES)):
        paths |= {f"/history/{name}{form}" for form in ("", ".json", ".csv")}
    first, _ = session_range(1)
    for form in ("", ".json", ".blob?_blob_column=text"):
        paths |= {f"/history/documents/{first}{form}", f"/history/sessions/ses_1{form}"}
    paths |= {
        f"/history?sql={SQL}", f"/history.json?sql={SQL}", f"/history.csv?sql={SQL}",
        f"/history/-/query?sql={SQL}", f"/history/-/query.json?sql={SQL}",
        f"/history.json?sql={SQL}&_shape=array", f"/_memory?sql={SQL}", f"/_internal?sql={SQL}",
        "/history?sql=select+*+from+nowhere", "/history.json?sql=select+text+from",
        "/history/sessions.json?_facet=title&_shape=objects", "/history/sessions?_facet=title",
        "/history/sessions.csv?_stream=on", "/history/documents.json?_search=findme",
        "/history/documents.json?_labels=on&_extra=count", "/history/documents?_trace=1",
        "/history/documents.json?_where=1=1", "/history/documents?_sort=nothing",
        "/history/documents/none", "/history/none", "/history/none/1.json", "/none",
        "/history.db", "/history.sqlite", "/-/history/nothing", "/-/nothing.json",
        "/-/jump.json?q=Zwerg", "/-/tables.json?q=ses", "/-/dashboards?q=1",
        "/-/history?query=findme", "/-/history/results?query=findme",
        "/-/history/file?path=src/findme.ts", "/-/history/session/ses_1?database=history",
        "/-/history/session/ses_2", "/-/history/session/ses_none", "/-/history/project/none",
        "/-/history/session/ses_1/find?query=findme", "/-/history/session/ses_1.json",
        "/-/history/session/ses_1/text/msg_2/3", "/-/history/search-messages.json?query=findme",
        "/-/history/search-edits.txt", "/-/history/read.txt?sessionID=ses_1",
        "/-/history/read.json?sessionID=none", "/-/history/search-messages.json?query=a",
        "/-/history/search-sessions.json?database=none", "/-/history/status.json?database=history",
    }  # fmt: skip
    found = [Request("GET", path) for path in sorted(paths)]
    found += posts()
    return found


STRANGE = ("HEAD", "POST", "PUT", "OPTIONS")


class Door:
    """A server over the index, and the ways to knock."""

    def __init__(self, datasette: Datasette, address: str, token: str) -> None:
        self.datasette = datasette
        self.address = address
        self.actors: dict[str, dict[str, Any]] = {
            "nobody": {},
            "wrong token": {"headers": {"authorization": f"Bearer {token[:-1]}"}},
            "other scheme": {"headers": {"authorization": f"Basic {token}"}},
            "forged cookie": {"cookies": {"ds_actor": "eyJhIjp7ImlkIjoicm9vdCJ9fQ.AAAA"}},
            "stranger": {"cookies": self._cookie("stranger")},
            "agent": {"headers": {"authorization": f"Bearer {token}"}},
            "root": {"cookies": self._cookie("root")},
        }

    def _cookie(self, actor_id: str) -> dict[str, str]:
        return {"ds_actor": self.datasette.sign({"a": {"id": actor_id}}, "actor")}

    @contextmanager
    def client(self, actor: str) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.address, timeout=60, **self.actors[actor]) as client:
            yield client

    def ask(self, actor: str, *asked: Request) -> dict[str, httpx.Response]:
        with self.client(actor) as client:
            found = {}
            for request in asked:
                body = {} if request.body is None else {"json": request.body}
                answer = client.request(
                    request.method, request.path, headers=dict(request.headers), **body
                )
                if request.body and (session_id := answer.headers.get("mcp-session-id")):
                    client.headers["mcp-session-id"] = session_id
                key = f"{request.method} {request.path} {json.dumps(request.body)}"
                found[key] = answer
            return found


@contextmanager
def opened(datasette: Datasette, token: str) -> Iterator[Door]:
    asyncio.run(datasette.invoke_startup())
    with running(Guard(datasette.app(), LOOPBACK_HOSTS)) as address:
        yield Door(datasette, address, token)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """What `serve` serves."""
    path = fill_index(tmp_path_factory.mktemp("served") / "history.db")
    datasette = build_datasette(path, sample=False, open_access=False)
    with opened(datasette, (path.parent / AGENT_TOKEN).read_text()) as door:
        yield door


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A private index in a Datasette whose other database is everyone's."""
    folder = tmp_path_factory.mktemp("beside")
    path = fill_index(folder / "history.db")
    sqlite3.connect(folder / "public.db").execute("CREATE TABLE t (x)").connection.close()
    metadata = {
        "databases": {"history": {"allow": {"id": ["root", "agent"]}}},
        "plugins": {
            "datasette-auth-tokens": {"tokens": [{"token": "t0ken", "actor": {"id": "agent"}}]},
            "datasette-dashboards": dashboards(),
        },
    }
    datasette = Datasette([str(folder / "public.db"), str(path)], metadata=metadata, memory=True)
    with opened(datasette, "t0ken") as door:
        yield door


def dashboards() -> dict[str, Any]:
    chart = {"title": "All", "db": "history", "query": SQL, "library": "table"}
    return {"history": {"title": "History", "charts": {"sessions-per-day": chart}}}


def leaks(answers: Mapping[str, httpx.Response]) -> list[str]:
    """Name the answers that hold a word of the index, in body or headers, in any case."""
    found = []
    for key, answer in answers.items():
        said = answer.text + repr(answer.headers.multi_items())
        if CANARY.lower() in said.lower():
            found.append(f"{answer.status_code} {key}")
    return found


def failed(answers: Mapping[str, httpx.Response], places: str = "/-/history|/-/mcp") -> list[str]:
    """Name the answers of some places that are a server's errors."""
    errors = [key for key, answer in answers.items() if answer.status_code >= 500]
    return [key for key in errors if re.search(places, key)]


OUTSIDERS = ("nobody", "wrong token", "other scheme", "forged cookie", "stranger")


@pytest.mark.parametrize(
    ("place", "actor"),
    [*(("served", actor) for actor in OUTSIDERS), ("beside", "nobody"), ("beside", "stranger")],
)
def test_an_outsider_learns_no_word_by_any_route(
    request: pytest.FixtureRequest, place: str, actor: str
) -> None:
    door: Door = request.getfixturevalue(place)
    asked = requests(door.datasette)
    answers = door.ask(actor, *asked)
    assert leaks(answers) == []
    # The dashboards do not run on Datasette 1.0.
    assert failed(answers, places="^GET (?!/-/dashboards)|^POST") == []


def test_no_method_opens_a_route_to_nobody(served: Door) -> None:
    paths = sorted({path for r in requests(served.datasette) if "." not in (path := r.path)})
    for method in STRANGE:
        answers = served.ask("nobody", *(Request(method, path) for path in paths))
        assert leaks(answers) == []


@pytest.mark.parametrize("actor", ["agent", "root"])
@pytest.mark.parametrize("place", ["served", "beside"])
def test_who_may_see_it_sees_it_by_each_of_them(
    request: pytest.FixtureRequest, place: str, actor: str
) -> None:
    door: Door = request.getfixturevalue(place)
    answers = door.ask(actor, *requests(door.datasette))
    seen = leaks(answers)
    # So the routes above were asked what there is to leak.
    assert len(seen) > 80
    for path in (
        "/history/documents", "/history/documents.json", "/history/documents.csv",
        "/-/history/results?query=findme", "/-/history/session/ses_1", "/-/history/project/prj",
        "/-/history/session/ses_1/text/msg_2/3", "/-/history/status.json?database=history",
        "/-/history/file?path=src/findme.ts", "/history/sessions/ses_1",
    ):  # fmt: skip
        assert f"200 GET {path} null" in seen
    assert sum("tools/call" in key for key in seen) == 5
    assert failed(answers) == []
