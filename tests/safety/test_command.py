"""What every command line tool should do: say its version, complete, explain itself."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from sync.cli import cli

COMMANDS = cli.list_commands(click.Context(cli))


def test_the_version_is_that_of_the_package() -> None:
    done = CliRunner().invoke(cli, ["--version"])
    assert done.output == f"opencode-history, version {version('datasette-history')}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(shell: str) -> None:
    command = [sys.executable, "-c", "from sync.cli import cli; cli(prog_name='opencode-history')"]
    variable = "_OPENCODE_HISTORY_COMPLETE"
    done = subprocess.run(
        command,
        env={
            **os.environ,
            variable: f"{shell}_complete",
            "COMP_WORDS": "opencode-history fo",
            "COMP_CWORD": "fo" if shell == "fish" else "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "forget" in done.stdout
    assert "search" not in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    text = CliRunner().invoke(cli, [name, "--help"], prog_name="opencode-history").output
    assert text.startswith(f"Usage: opencode-history {name}")
    if name not in ("status", "rebuild"):
        assert f"opencode-history {name}" in text.split("Options:")[0].split("\n", 1)[1]


def test_debug_says_how_an_error_came_about(tmp_path: pytest.TempPathFactory) -> None:
    done = CliRunner().invoke(cli, ["--debug", "audit", "--index", f"{tmp_path}/none.db"])
    assert "there is no index" in done.output
