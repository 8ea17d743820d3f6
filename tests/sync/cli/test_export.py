"""``export``: sessions as Markdown and JSON, prompts as JSON lines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from datasette.app import Datasette

from sync.cli import cli
from sync.model import Part
from tests.builders import MINUTE, T0, assistant, copy, fill, session, synthetic, user
from tests.history import APP, build


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENCODE_HISTORY_INDEX", str(tmp_path / "history.db"))
    return build(tmp_path / "history.db")


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["export", *words])


def lines(*words: str) -> list[dict[str, Any]]:
    done = run(*words)
    assert (done.exit_code, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def served(index: Path, form: str) -> str:
    async def answer() -> str:
        datasette = Datasette([str(index)])
        await datasette.invoke_startup()
        response = await datasette.client.get(f"/-/history/session/ses_login.{form}")
        assert response.status_code == 200
        text: str = response.text
        return text

    return asyncio.run(answer())


def test_markdown_is_the_same_as_the_pages(index: Path) -> None:
    done = run("ses_login")
    assert done.exit_code == 0
    assert done.stdout == served(index, "md")
    assert done.stdout.startswith("# Fix the login timeout\n\n- Session: `ses_login`\n")
    assert "Grüße, 好的! Now the tests \u2028 please" in done.stdout


def without_urls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_urls(inner) for key, inner in value.items() if key != "url"}
    return [without_urls(inner) for inner in value] if isinstance(value, list) else value


def test_json_is_the_same_as_the_pages_but_for_addresses(index: Path) -> None:
    done = run("ses_login", "--format", "json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert without_urls(found) == without_urls(json.loads(served(index, "json")))
    assert found["url"] is None
    ids = [message["messageID"] for message in found["messages"]]
    assert ids == ["msg_l1", "msg_l2", "msg_l3", "msg_l4", "msg_l5"]


def test_prompts_are_json_lines_in_the_order_of_time(index: Path) -> None:
    found = lines("--prompts")
    times = [prompt["timestamp"] for prompt in found]
    assert times == sorted(times)
    assert len(found) == 30
    assert found[-1] == {
        "timestamp": T0 + 19 * MINUTE,
        "timestampISO": "2026-12-01T01:19:00.000Z",
        "sessionID": "ses_site",
        "title": "Landing page",
        "projectID": "prj_site",
        "directory": "/home/dev/site",
        "messageID": "msg_s1",
        "text": "The login button of the landing page is ugly",
    }
    [child] = [prompt for prompt in found if prompt["messageID"] == "msg_c1"]
    assert child["rootSessionID"] == "ses_login"
    [ada] = [prompt for prompt in found if prompt["sessionID"] == "ses_theme"]
    assert ada["endUser"] == "Ada"
    assert len(ada["text"]) > 300
    assert lines("--format", "jsonl") == found


def test_prompts_can_be_chosen(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ids(*words: str) -> list[str]:
        return [prompt["messageID"] for prompt in lines("--prompts", *words)]

    assert ids("ses_login") == ["msg_l1", "msg_l4"]
    assert ids("--project", "prj_site") == ["msg_s1"]
    assert ids("--directory", f"{APP}/src", "--date", "2026-12-01", "--timezone", "UTC") == [
        "msg_l1",
        "msg_c1",
        "msg_l4",
    ]
    assert ids("--date", "2026-12-02") == []
    assert ids("--project", "prj_none") == []


def test_prompts_of_the_working_directory_are_those_of_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build(tmp_path / "history.db", site=str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = lines("--prompts", "--index", str(index))
    assert [prompt["messageID"] for prompt in found] == ["msg_s1"]
    assert len(lines("--prompts", "--project", "all", "--index", str(index))) == 30


def test_only_words_of_the_user_are_prompts(tmp_path: Path) -> None:
    index = fill(
        tmp_path / "history.db",
        copy(
            session("ses_a", "A"),
            user("msg_1", "First.", synthetic("Called the Read tool"), "Second.", at=T0),
            user("msg_2", synthetic("Continue if you have next steps"), at=T0 + 1),
            user("msg_3", Part(kind="file", text="photo.png"), at=T0 + 2),
            assistant("msg_4", "An answer", at=T0 + 3),
            user("msg_5", "  \n", at=T0 + 4),
        ),
    )
    found = lines("--prompts", "--project", "all", "--index", str(index))
    assert [(prompt["messageID"], prompt["text"]) for prompt in found] == [
        ("msg_1", "First.\nSecond.")
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "name a SESSION (`opencode-history sessions` lists them)"),
        (["ses_none"], 1, "session 'ses_none' is not in the index"),
        (["ses_none", "--prompts"], 1, "session 'ses_none' is not in the index"),
        (["ses_login", "--format", "yaml"], 2, "Invalid value for '--format'"),
        (["--prompts", "--format", "json"], 2, "--prompts come as jsonl, not as json"),
        (["ses_login", "--date", "today"], 2, "--date goes with --prompts, not with a session"),
        (["--prompts", "--date", "someday"], 2, "date 'someday' is not understood"),
        (["--prompts", "--timezone", "Mars/Base"], 2, "timezone 'Mars/Base'"),
    ],
)
def test_what_cannot_be_exported_is_said(
    index: Path, words: list[str], code: int, message: str
) -> None:
    done = run(*words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr


def test_without_an_index_there_is_nothing_to_export(tmp_path: Path) -> None:
    done = run("ses_login", "--index", str(tmp_path / "none.db"))
    assert done.exit_code == 3
    assert "there is no index" in done.stderr
