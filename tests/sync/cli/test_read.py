"""``search``, ``sessions``, ``edits`` and ``read``, mostly as processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from sync.cli import cli
from tests.builders import copy, fill, session, user
from tests.history import build

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Place:
    """An index and the directories of two projects in it."""

    index: Path
    app: Path
    site: Path

    def run(self, *words: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OPENCODE_HISTORY_INDEX": str(self.index),
            "TZ": "UTC",
        }
        return subprocess.run(
            [sys.executable, "-m", "sync", *words],
            cwd=directory or self.app,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def output(self, *words: str, directory: Path | None = None) -> str:
        done = self.run(*words, directory=directory)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("read")
    found = Place(folder / "history.db", folder / "app", folder / "site")
    (found.app / "src").mkdir(parents=True)
    found.site.mkdir()
    build(found.index, app=str(found.app), site=str(found.site))
    return found


def test_a_search_shows_sessions_with_excerpts_and_what_to_do_next(place: Place) -> None:
    assert place.output("search", "login", "timeout", directory=place.app / "src") == (
        "Fix the login timeout\n"
        f"  2026-12-01 01:10 ses_login {place.app}\n"
        "  login  2026-12-01 01:00 user msg_l1\n"
        "    The login times out after five seconds, see session.ts\n"
        "  timeout  2026-12-01 01:01 assistant msg_l2\n"
        "    Looking at the timeout. grep setTimeout src/session.ts:12: setTimeout(5000)\n"
        "\n"
        "1 session\n"
        "Next: opencode-history read ses_login --message-id msg_l1\n"
        "Only this project was searched; --project all searches every one.\n"
    )


def test_the_working_directory_says_which_project_is_searched(place: Place) -> None:
    def ids(*words: str, directory: Path | None = None) -> list[str]:
        found = json.loads(place.output("search", "login", *words, "--json", directory=directory))
        return [one["sessionID"] for one in found["sessions"]]

    assert ids() == ["ses_login", "ses_child"]
    assert ids(directory=place.site) == ["ses_site"]
    assert ids("--project", "all") == ["ses_site", "ses_login", "ses_child"]
    assert ids("--project", "../site") == ["ses_site"]
    assert ids("--project", ".", directory=place.site) == ["ses_site"]
    assert ids("--directory", str(place.site)) == ["ses_site"]
    assert ids("project:prj_site") == ["ses_site"]
    assert ids(directory=place.index.parent) == ["ses_site", "ses_login", "ses_child"]


def test_a_folded_subagent_is_shown_behind_its_root_and_read_by_its_own_id(place: Place) -> None:
    words = ["search", '"session is kept"', "--fold-subagents"]
    assert place.output(*words) == (
        "Fix the login timeout\n"
        f"  2026-12-01 01:10 ses_login {place.app} found in 1 subagent\n"
        "  session is kept  2026-12-01 01:04 user msg_c1 of subagent ses_child\n"
        "    Find where the login session is kept\n"
        "\n"
        "1 session\n"
        "Next: opencode-history read ses_child --message-id msg_c1\n"
        "Only this project was searched; --project all searches every one.\n"
    )
    text = place.output(*words, "--text")
    assert "Next: read sessionID=ses_child messageID=msg_c1\n" in text


def test_edits_show_the_prompt_before_them(place: Place) -> None:
    assert place.output("edits", "path:src/session.ts") == (
        f"2026-12-01 01:02  edit  {place.app}/src/session.ts  [first]\n"
        "  Fix the login timeout ses_login msg_l3\n"
        "  > The login times out after five seconds, see session.ts\n"
        "\n"
        "1 edit\n"
        "Next: opencode-history read ses_login --message-id msg_l3\n"
        "Only this project was searched; --project all searches every one.\n"
    )


def test_read_without_a_session_reads_the_latest_of_the_directory(place: Place) -> None:
    assert place.output("read", "--limit", "2", directory=place.app / "src") == (
        "Fix the login timeout\n"
        f"  2026-12-01 01:10 ses_login {place.app}\n"
        "\n"
        "user  2026-12-01 01:00  msg_l1\n"
        "  The login times out after five seconds, see session.ts\n"
        "\n"
        "assistant  2026-12-01 01:01  msg_l2\n"
        "  Looking at the timeout.\n"
        "  [tool: grep]\n"
        "  [tool results omitted]\n"
        "\n"
        "Next: opencode-history read ses_login --cursor msg_l2\n"
        "Tool results are left out: --include-tool-results shows them.\n"
    )


def test_what_a_command_calls_next_can_be_run(place: Place) -> None:
    shown = place.output("read", "--limit", "2")
    [line] = [line for line in shown.splitlines() if line.startswith("Next: ")]
    words = line.removeprefix("Next: opencode-history ").split()
    assert "msg_l3" in place.output(*words)


def test_sessions_and_projects_are_listed(place: Place) -> None:
    listed = place.output("sessions", "--limit", "2", "--project", "all")
    assert [line for line in listed.splitlines() if not line.startswith("  ")] == [
        "Landing page",
        "",
        "Fix the login timeout",
        "",
        "2 sessions; there are more: narrow the query, or raise --limit",
        "Next: opencode-history read ses_site",
    ]
    assert place.output("sessions", "--show", "projects", "--project", "all") == (
        f"prj  28 sessions\n  {place.app}\nprj_site  1 session\n  {place.site}\n"
        "2 projects\nNext: opencode-history sessions --project prj\n"
    )


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        pytest.param(["-flaky", "login"], ["ses_child"], id="excluded first"),
        pytest.param(["login", "-flaky"], ["ses_child"], id="excluded last"),
        pytest.param(["-hash", "login"], ["ses_login", "ses_child"], id="begins like -h"),
        pytest.param(['-"five seconds"', "login"], ["ses_child"], id="excluded phrase"),
        pytest.param(["login -flaky"], ["ses_child"], id="one argument"),
        pytest.param(["--limit", "1", "--", "login"], ["ses_login"], id="options before --"),
        pytest.param(["--limit", "9", "--", "-flaky", "login"], ["ses_child"], id="dash after --"),
        pytest.param(["login", '"--limit"'], [], id="a word like an option"),
    ],
)
def test_queries_may_begin_with_a_dash(place: Place, words: list[str], ids: list[str]) -> None:
    found = json.loads(place.output("search", "--json", *words))
    assert [one["sessionID"] for one in found["sessions"]] == ids


def test_a_mistyped_option_is_an_error_and_not_a_word(place: Place) -> None:
    done = place.run("search", "login", "--rol", "user")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such option '--rol'. Did you mean '--role'?" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(
            ["search", "lo"], 2,
            "'lo' is shorter than 3 characters, the least that the index can match; "
            "use a longer word or a quoted phrase", id="short",
        ),
        pytest.param(["search"], 2, "query is required by search-messages", id="none"),
        pytest.param(
            ["sessions", "--role", "robot"], 2, "role must be user or assistant, not 'robot'",
            id="choice",
        ),
        pytest.param(
            ["edits", "--limit", "some"], 2, "limit must be a whole number, not 'some'",
            id="number",
        ),
        pytest.param(
            ["read", "ses_none"], 1,
            "session 'ses_none' is not in the index; search-sessions lists the ones that are, "
            "and `opencode-history sync` adds new ones", id="unknown session",
        ),
    ],
)  # fmt: skip
def test_errors_are_said_on_stderr_and_by_the_exit_code(
    place: Place, words: list[str], code: int, message: str
) -> None:
    done = place.run(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == f"Error: {message}\n"
    as_json = place.run(*words, "--json")
    assert (as_json.returncode, as_json.stderr) == (code, "")
    assert json.loads(as_json.stdout)["error"] == message


def test_a_missing_index_has_its_own_exit_code_and_says_what_to_run(tmp_path: Path) -> None:
    place = Place(tmp_path / "none.db", tmp_path, tmp_path)
    done = place.run("sessions")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"Error: there is no index at {place.index} yet; run `opencode-history sync` to make it, "
        "or name another with --index\n"
    )
    assert not place.index.exists()
    place.index.write_text("something else entirely " * 100, encoding="utf-8")
    done = place.run("sessions")
    assert done.returncode == 1
    assert f"the index {place.index} cannot be read (file is not a database)" in done.stderr


def test_an_answer_is_given_up_at_the_time_limit(place: Place) -> None:
    done = place.run("search", "login", "--time-limit", "0")
    assert done.returncode == 2
    done = place.run("search", "dependencies", "--project", "all", "--time-limit", "0.001")
    # So small an index may be faster than that; the other end of the scale is tested elsewhere.
    assert done.returncode in (0, 1)
    if done.returncode == 1:
        assert "longer than 1 ms and was stopped" in done.stderr
        assert "allow more with --time-limit" in done.stderr


def test_colours_are_for_terminals_and_can_be_switched_off(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["search", "login", "--index", str(place.index)]
    assert "\x1b[" not in CliRunner().invoke(cli, words).output
    coloured = CliRunner().invoke(cli, words, color=True).output
    assert "\x1b[33m\x1b[1mlogin\x1b[0m times out" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(cli, words, color=True).output
    monkeypatch.setenv("NO_COLOR", "")
    assert CliRunner().invoke(cli, words, color=True).output == coloured


def test_nothing_that_a_session_says_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J \u202e"
    index = fill(
        tmp_path / "history.db",
        copy(session("ses_evil", f"Title {evil}"), user("msg_e", f"needle {evil}\rover")),
    )
    place = Place(index, tmp_path, tmp_path)
    for words in (["search", "needle"], ["sessions"], ["read", "ses_evil"]):
        for form in ([], ["--text"]):
            shown = place.output(*words, *form)
            assert not set(shown) & set("\x1b\x07\r\u202e"), (words, form)
            assert "]0;owned" in shown


def test_a_reader_that_stops_early_is_no_error(place: Place) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "sync", "sessions", "--index", str(place.index), "--limit", "50"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert writer.stdout is not None
    writer.stdout.close()
    assert writer.stderr is not None
    assert writer.stderr.read() == b""
    writer.stderr.close()
    assert writer.wait(timeout=30) in (0, 1)
