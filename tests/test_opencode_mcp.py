"""A real OpenCode, configured as the documentation says, whose scripted model asks its past."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sync.cli import cli
from sync.cli.guard import LOOPBACK_HOSTS, Guard
from sync.cli.serve import build_datasette
from tests.history import build
from tests.opencode_real import opencode_binary, scripted_model
from tests.recipes import json_recipe
from tests.servers import running

TIMEOUT_S = 240

Call = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def opencode() -> Path:
    return opencode_binary()


@dataclass(frozen=True, slots=True)
class Machine:
    """A home directory, a repository, and an index where `sync` would have made it."""

    home: Path
    app: Path
    index: Path

    def answer(self, command: str, *words: str) -> str:
        """Return the text of an answer, asked from the repository's directory."""
        words = (command, "--text", "--index", str(self.index), *words)
        done = CliRunner().invoke(cli, list(words))
        return done.stdout or done.stderr


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    app = tmp_path / "app"
    app.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=app, check=True)
    monkeypatch.chdir(app)
    home = tmp_path / "home"
    index = home / ".local" / "share" / "opencode" / "history-search" / "history.db"
    return Machine(home, app, build(index, app=str(app)))


def results(
    opencode: Path, machine: Machine, servers: dict[str, Any], calls: list[Call]
) -> list[str]:
    """Let OpenCode, with those MCP servers in its opencode.json, make the calls."""
    with scripted_model() as address:
        models = {"m": {"name": "M", "limit": {"context": 100_000, "output": 4_000}}}
        options = {"baseURL": f"{address}/v1", "apiKey": "none"}
        provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
        config = {
            "provider": {"scripted": provider},
            "model": "scripted/m",
            "small_model": "scripted/m",
            "autoupdate": False,
            "share": "disabled",
            "mcp": servers,
        }
        (machine.app / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
        prompt = f"Where did we fix the timeout?\nCALLS: {json.dumps(calls)}"
        done = subprocess.run(
            [opencode, "run", "--format", "json"],
            cwd=machine.app,
            env=environment(machine),
            input=prompt,  # an argument would get quotes around it
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    parts = [json.loads(line).get("part", {}) for line in done.stdout.splitlines()]
    assert any(part.get("text", "").startswith("Done with") for part in parts), done.stdout
    ended = [part for part in parts if part.get("type") == "tool"]
    # Calls of one answer run side by side, and end in any order.
    ended.sort(key=lambda part: int(part["callID"].rsplit("_", 1)[1]))
    assert [part["tool"] for part in ended] == [name for name, _ in calls]
    return [part["state"].get("output") or part["state"]["error"] for part in ended]


def environment(machine: Machine) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("TZ", "LANG") if name in os.environ}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(machine.home),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }


def test_a_local_server_answers_for_the_project_that_opencode_works_in(
    opencode: Path, machine: Machine
) -> None:
    calls: list[Call] = [
        ("past_history-search-messages", {"query": "login timeout"}),
        ("past_history-search-sessions", {"limit": 2}),
        ("past_history-search-edits", {"query": "path:src/session.ts"}),
        ("past_history-read", {"limit": 2}),
        ("past_history-read", {"sessionID": "ses_login", "messageID": "msg_l3", "after": 1}),
        ("past_history-search-messages", {"query": "login", "project": "all"}),
        ("past_history-search-messages", {"query": "no"}),
        ("past_history-search-messages", {"query": "login", "projects": "all"}),
        ("past_history-read", {"sessionID": "ses_none"}),
    ]
    found = results(opencode, machine, json_recipe("opencode local")["mcp"], calls)
    assert found[:6] == [
        machine.answer("search", "login timeout"),
        machine.answer("sessions", "--limit", "2"),
        machine.answer("edits", "path:src/session.ts"),
        machine.answer("read", "--limit", "2"),
        machine.answer("read", "ses_login", "--message-id", "msg_l3", "--after", "1"),
        machine.answer("search", "login", "--project", "all"),
    ]
    assert "ses_site" in found[5]
    assert not any("ses_site" in result for result in found[:5])
    wrong = [
        "'no' is shorter than 3 characters",
        "unknown input 'projects'; did you mean project?",
        "session 'ses_none' is not in the index",
    ]
    assert all(said in result for said, result in zip(wrong, found[6:], strict=True)), found[6:]


def test_a_remote_server_answers_whoever_has_the_token(opencode: Path, machine: Machine) -> None:
    calls: list[Call] = [
        ("past_history-search-messages", {"query": "login", "directory": str(machine.app)}),
        ("past_history-search-edits", {"date": "2026-12"}),
        ("past_history-read", {"sessionID": "ses_theme", "maxCharsPerMessage": 100}),
        ("past_history-search-messages", {"query": "login"}),
        ("stranger_history-search-sessions", {}),
    ]
    datasette = build_datasette(machine.index, sample=False, open_access=False)
    asyncio.run(datasette.invoke_startup())
    past = json_recipe("opencode remote")["mcp"]["past"]
    with running(Guard(datasette.app(), LOOPBACK_HOSTS)) as address:
        past["url"] = past["url"].replace("http://127.0.0.1:8001", address)
        stranger = {key: value for key, value in past.items() if key != "headers"}
        found = results(opencode, machine, {"past": past, "stranger": stranger}, calls)
    assert found[:4] == [
        machine.answer("search", "login"),
        machine.answer("edits", "--date", "2026-12", "--project", "all"),
        machine.answer("read", "ses_theme", "--max-chars-per-message", "100"),
        machine.answer("search", "login", "--project", "all"),
    ]
    assert "you are not allowed to see this history" in found[4]
