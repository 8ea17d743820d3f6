"""The README tells of what there is: every command, target, extra and file it names exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from datasette_history.queries import QUERIES
from sync.cli import cli
from sync.report import EXIT_NOTHING

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_first_screen_holds_both_commands(readme: str) -> None:
    first_screen = "\n".join(readme.splitlines()[:20])
    assert "make serve" in first_screen
    assert "make test" in first_screen


def test_make_targets_of_the_readme_exist_and_all_are_named(readme: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [phony] = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    named = set(re.findall(r"^    make ([a-z0-9-]+)", readme, re.MULTILINE))
    assert named == set(phony.split()) - {"help"}


def test_commands_of_the_readme_exist_and_all_are_named(readme: str) -> None:
    named = set(re.findall(r"\bopencode-history ([a-z]+)", readme))
    assert named == set(cli.commands)


def test_every_extra_is_explained(readme: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(re.findall(r"^\| `([a-z]+)` \| \[", readme, re.MULTILINE))
    assert extras == set(project["optional-dependencies"]) - {"test"}


def test_every_canned_query_is_listed(readme: str) -> None:
    for query in QUERIES:
        assert f"| `{query.name}` | {query.description} |" in readme


def test_exit_codes_are_those_of_the_program(readme: str) -> None:
    section = readme.split("### Exit codes")[1].split("\n## ", maxsplit=1)[0]
    codes = dict(re.findall(r"^\| (\d) \| (.*) \|$", section, re.MULTILINE))
    assert sorted(codes) == ["0", "1", "2", "3"]
    assert "nothing" in codes[str(EXIT_NOTHING)]


def test_links_within_the_repository_lead_somewhere(readme: str) -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", readme, re.MULTILINE)
    }
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", readme):
        if target.startswith("#"):
            assert target[1:] in headings
        else:
            assert (ROOT / target).is_file(), target


def test_files_named_in_the_readme_exist(readme: str) -> None:
    for name in re.findall(r"`((?:sync|datasette_history)/[a-z_/.]*)`", readme):
        assert (ROOT / name).exists(), name


def test_every_command_has_its_help_on_the_page_of_commands() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^Usage: opencode-history ([a-z]+)", page, re.MULTILINE)) == set(
        cli.commands
    )


def test_changelog_has_a_section_for_what_is_not_released_yet() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert sections[0] == "Unreleased"
