"""Every example of docs/agents.md works as it stands there, but for the port."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from datasette_history.sample import sample_database
from sync.cli import read
from sync.cli.guard import LOOPBACK_HOSTS, Guard
from sync.cli.serve import build_datasette
from tests.history import build
from tests.recipes import PAGE, json_recipe, recipe
from tests.servers import running

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="not applicable: these are recipes for Unix"
)
PORT = "127.0.0.1:8001"


@dataclass(frozen=True, slots=True)
class Home:
    """A home directory with OpenCode's data where it belongs, and a repository."""

    path: Path
    app: Path

    @property
    def data(self) -> Path:
        return self.path / ".local" / "share" / "opencode"

    @property
    def index(self) -> Path:
        return self.data / "history-search" / "history.db"

    @property
    def environment(self) -> dict[str, str]:
        programs = Path(sys.executable).parent
        return {
            "HOME": str(self.path),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
        }

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=self.app,
            env=self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def output(self, script: str) -> str:
        done = self.run(script)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home where ~/.local/bin/opencode-history is the program under test."""
    found = Home(tmp_path / "home", tmp_path / "home" / "app")
    found.app.mkdir(parents=True)
    programs = found.path / ".local" / "bin"
    programs.mkdir(parents=True)
    (programs / "opencode-history").symlink_to(Path(sys.executable).parent / "opencode-history")
    return found


@pytest.fixture
def indexed(home: Home) -> Home:
    build(home.index, app=str(home.app))
    return home


@pytest.fixture
def address(indexed: Home) -> Iterator[str]:
    """What `opencode-history serve` serves, with its token where it keeps it."""
    datasette = build_datasette(indexed.index, sample=False, open_access=False)
    asyncio.run(datasette.invoke_startup())
    with running(Guard(datasette.app(), LOOPBACK_HOSTS)) as address:
        yield address


def test_curl_gets_text_and_json_with_the_token(indexed: Home, address: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("not applicable: there is no curl on this machine")
    shown = indexed.output(recipe("curl").replace(f"http://{PORT}", address))
    text, answer = shown.split("{", maxsplit=1)
    assert text.startswith("No session matches.\n")
    found = json.loads("{" + answer)
    assert [edit["path"] for edit in found["edits"]] == [f"{indexed.app}/src/session.ts"]


def test_the_commands_for_the_shell_answer(indexed: Home) -> None:
    search, edits, read_some, projects = recipe("shell").splitlines()
    assert "No session matches." in indexed.output(search)
    assert "msg_l3" in indexed.output(edits)
    assert "Fix the login timeout" in indexed.output(read_some)
    assert len(json.loads(indexed.output(projects))["projects"]) == 2


def test_exports_write_the_files_that_they_name(indexed: Home) -> None:
    assert indexed.output(recipe("exports")) == ""
    markdown = (indexed.app / "session.md").read_text(encoding="utf-8")
    assert markdown.startswith("# Fix the login timeout\n")
    whole = json.loads((indexed.app / "session.json").read_text(encoding="utf-8"))
    assert len(whole["messages"]) == 5
    prompts = (indexed.app / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    page = PAGE.read_text(encoding="utf-8")
    for line in prompts:
        assert all(f"`{key}`" in page for key in json.loads(line))


def test_a_client_starts_the_server_that_mcp_json_names(indexed: Home) -> None:
    server = json_recipe("mcp.json")["mcpServers"]["opencode-history"]
    parameters = StdioServerParameters(**server, env=indexed.environment, cwd=indexed.app)

    async def titles() -> list[str]:
        async with Client(stdio_client(parameters)) as client:
            result = await client.call_tool("history-search-sessions", {"query": "theme"})
            assert result.structured_content is not None
            return [found["title"] for found in result.structured_content["sessions"]]

    assert asyncio.run(titles()) == ["[Ada] Dark theme"]


def test_end_users_are_found_by_their_name_in_the_title(indexed: Home) -> None:
    page = PAGE.read_text(encoding="utf-8")
    [command] = re.findall(r"`(search '\[Ada\]')`", page)
    answer = json.loads(indexed.output(f"opencode-history {command} --json"))
    assert [found["endUser"] for found in answer["sessions"]] == ["Ada"]


def with_history(home: Home) -> Home:
    """Give the home the bundled sample as OpenCode's own database."""
    home.data.mkdir(parents=True)
    shutil.copy(sample_database(home.path / "sample"), home.data / "opencode.db")
    return home


def test_cron_runs_sync_and_logs_its_report(home: Home) -> None:
    [line] = recipe("cron").splitlines()
    *times, command = line.split(maxsplit=5)
    assert times == ["*/10", "*", "*", "*", "*"]
    assert "%" not in command, "cron makes new lines of percent signs"
    (home.path / ".local" / "state").mkdir()
    assert home.run(command).returncode == 3
    with_history(home)
    assert home.run(command).returncode == 0
    assert home.index.exists()
    log = (home.path / ".local" / "state" / "opencode-history.log").read_text(encoding="utf-8")
    assert '"refreshed": 44' in log or '"sessions": 44' in log


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(recipe(name))
    return parser


def test_the_systemd_service_runs_sync(home: Home) -> None:
    service = unit("systemd service")["Service"]
    assert service["Type"] == "oneshot"
    command = service["ExecStart"].replace("%h", str(home.path))
    nothing = home.run(command).returncode
    assert nothing == int(service["SuccessExitStatus"]) == 3
    assert with_history(home).run(command).returncode == 0
    assert home.index.exists()


def test_the_systemd_timer_belongs_to_the_service_and_repeats() -> None:
    timer = unit("systemd timer")
    assert set(timer["Timer"]) == {"OnBootSec", "OnUnitInactiveSec"}
    assert timer["Install"]["WantedBy"] == "timers.target"
    page = PAGE.read_text(encoding="utf-8")
    assert "systemd/user/opencode-history.service" in page
    assert "systemd/user/opencode-history.timer" in page


def test_systemd_itself_has_no_objection_to_the_units(home: Home) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("not applicable: there is no systemd on this machine")
    for kind in ("service", "timer"):
        text = recipe(f"systemd {kind}").replace("%h", str(home.path))
        (home.path / f"opencode-history.{kind}").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no",
         *map(str, sorted(home.path.glob("opencode-history.*")))],
        env=home.environment | {"XDG_RUNTIME_DIR": str(home.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "opencode-history" not in done.stderr, done.stderr


def test_launchd_runs_sync(home: Home) -> None:
    agent = plistlib.loads(recipe("launchd").encode())
    assert agent["Label"] == "opencode-history"
    assert (agent["RunAtLoad"], agent["StartInterval"]) == (True, 600)
    words = [word.replace("/Users/YOU", str(home.path)) for word in agent["ProgramArguments"]]
    assert with_history(home).run(shlex.join(words)).returncode == 0
    assert home.index.exists()


def test_exit_codes_are_those_of_the_program() -> None:
    page = PAGE.read_text(encoding="utf-8")
    codes = dict(re.findall(r"^\| (\d) \| (.*) \|$", page, re.MULTILINE))
    assert list(codes) == ["0", "1", "2", "3"]
    assert "not in the index" in codes[str(read.EXIT_NOT_FOUND)]
    assert "wrong usage" in codes[str(read.EXIT_USAGE)]
    assert "no index yet" in codes[str(read.EXIT_NO_INDEX)]
