"""The four tools on the command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from datasette_history.errors import HistoryError, InvalidInput
from datasette_history.render import as_json, error_json
from datasette_history.results import Answer
from datasette_history.text import as_text, error_text
from datasette_history.tools import TOOLS
from sync.cli.ask import NoIndex, ask, no_url
from sync.cli.options import index_option
from sync.cli.people import for_people
from sync.cli.tool_options import QueryCommand, output_options, time_limit_option, tool_options

EXIT_NOT_FOUND: Final = 1
EXIT_USAGE: Final = 2
EXIT_NO_INDEX: Final = 3

EXIT_CODES: Final = (
    "Exit codes: 0 answered, 1 not in the index or not readable, 2 wrong usage, 3 no index yet."
)

QUERY_HELP: Final = (
    "Words that begin with - exclude; to find such a word, give it in double quotes, as in "
    "'\"--force\"'. Without --project, the working directory's project is searched, or everything "
    "outside of any."
)


def _command(
    name: str, tool_name: str, *, argument: str, purpose: str, details: str, examples: str
) -> click.Command:
    """Return the command that asks a tool and shows the answer.

    argument: the tool's input that is given without an option.
    """
    tool = TOOLS[tool_name]
    is_query = argument == "query"

    @click.command(
        name,
        cls=QueryCommand if is_query else click.Command,
        help=f"{purpose}\n\n{details} {EXIT_CODES}\n\nExample:\n\n\b\n{examples}",
        short_help=purpose,
    )
    @click.argument("words", nargs=-1 if is_query else 1, required=False,
                    metavar="[QUERY]..." if is_query else "[SESSION]")  # fmt: skip
    @index_option
    @tool_options(tool, argument=argument)
    @time_limit_option
    @output_options
    def run(
        index_path: Path,
        time_limit_ms: int,
        form: str | None,
        words: tuple[str, ...] | str | None,
        **given: str | None,
    ) -> None:
        inputs = {key: value for key, value in given.items() if value is not None}
        if words:
            inputs[argument] = words if isinstance(words, str) else " ".join(words)
        with_answer(index_path, tool_name, inputs, form, time_limit_ms)

    return run


def with_answer(
    index_path: Path, tool: str, inputs: Mapping[str, str], form: str | None, time_limit_ms: int
) -> None:
    """Ask a tool and print the answer in that form: json, text, or for people."""
    try:
        answer = ask(index_path, tool, inputs, as_text=True, time_limit_ms=time_limit_ms)
    except HistoryError as error:
        fail(error, as_json=form == "json")
    show(_spelled(answer, form))


def show(text: str) -> None:
    """Print text, in colours where a terminal shows them and NO_COLOR is not set."""
    click.echo(text, nl=False, color=False if os.environ.get("NO_COLOR") else None)


def fail(error: HistoryError, *, as_json: bool) -> NoReturn:
    """Say what is wrong and exit with the code that tells its kind."""
    if as_json:
        click.echo(_dumped(error_json(error.messages, error.status)), nl=False)
    else:
        click.echo(error_text(error.messages), nl=False, err=True)
    if isinstance(error, InvalidInput):
        sys.exit(EXIT_USAGE)
    sys.exit(EXIT_NO_INDEX if isinstance(error, NoIndex) else EXIT_NOT_FOUND)


def _spelled(answer: Answer, form: str | None) -> str:
    if form == "json":
        return _dumped(as_json(answer, no_url))
    return as_text(answer) if form == "text" else for_people(answer)


def _dumped(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


search = _command(
    "search",
    "search-messages",
    argument="query",
    purpose="Find sessions by what was said or done in them",
    details=QUERY_HELP,
    examples="""    opencode-history search login timeout -flaky
    opencode-history search '"exit code 1"' --role user --date 'last 7 days' --project all""",
)

sessions = _command(
    "sessions",
    "search-sessions",
    argument="query",
    purpose="List recent sessions, or those that match",
    details=QUERY_HELP,
    examples="""    opencode-history sessions --date yesterday
    opencode-history sessions path:src/auth.ts --project ~/work
    opencode-history sessions --show projects --project all""",
)

edits = _command(
    "edits",
    "search-edits",
    argument="query",
    purpose="Find who edited which file when, and why",
    details=QUERY_HELP,
    examples="""    opencode-history edits path:src/auth.ts
    opencode-history edits login --date 2026-11 --json""",
)

read = _command(
    "read",
    "read",
    argument="sessionID",
    purpose="Read a session; the latest of the working directory if none is named",
    details="Without --message-id it begins at the start; --cursor goes on.",
    examples="""    opencode-history read
    opencode-history read ses_1f2e3d --message-id msg_4a5b6c --before 2 --after 10""",
)
