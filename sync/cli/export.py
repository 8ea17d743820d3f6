"""``opencode-history export``: sessions and prompts as files."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from datasette_history.config import MAX_TIME_LIMIT_MS
from datasette_history.dates import parse_dates, zone
from datasette_history.errors import HistoryError
from datasette_history.inputs import check
from datasette_history.pages.export import export_json, export_markdown
from datasette_history.pages.shown import visible
from datasette_history.prompts import prompt_json, user_prompts
from datasette_history.read import find_session
from datasette_history.render import Json
from datasette_history.scope import resolve
from datasette_history.tools import TOOLS
from sync.cli.ask import local_context, no_url, question
from sync.cli.options import index_option
from sync.cli.read import EXIT_CODES, fail
from sync.cli.tool_options import parameter_options

FILTERS: Final = tuple(
    parameter
    for parameter in TOOLS["search-sessions"].parameters
    if parameter.name in ("date", "project", "directory", "timezone")
)

Export = Callable[[sqlite3.Connection], None]


@click.command(
    help="Print a session as Markdown or JSON, or all that you ever asked\n\n"
    "--prompts prints every user message with its time, oldest first, one JSON object a line: "
    "of the session, else of the working directory's project or what the filters choose. "
    f"{EXIT_CODES}\n\nExample:\n\n\b\n"
    "    opencode-history export ses_1f2e3d > session.md\n"
    "    opencode-history export ses_1f2e3d --format json\n"
    "    opencode-history export --prompts --project all --date 2026-11 > prompts.jsonl",
    short_help="Print a session as Markdown or JSON, or all prompts as JSON lines",
)
@click.argument("session_id", required=False, metavar="[SESSION]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "json", "jsonl"]),
    help="markdown if missing; jsonl is that of --prompts",
)
@click.option("--prompts", is_flag=True, help="Print what users asked instead of a session")
@index_option
@parameter_options(FILTERS)
def export(
    session_id: str | None,
    form: str | None,
    prompts: bool,
    index_path: Path,
    **given: str | None,
) -> None:
    filters = {name: value for name, value in given.items() if value is not None}
    if prompts or form == "jsonl":
        if form not in (None, "jsonl"):
            raise click.UsageError(f"--prompts come as jsonl, not as {form}")
        job = _prompts(session_id, filters)
    elif session_id is None:
        raise click.UsageError("name a SESSION (`opencode-history sessions` lists them)")
    elif filters:
        raise click.UsageError(f"--{next(iter(filters))} goes with --prompts, not with a session")
    else:
        job = _session(session_id, form or "markdown")
    try:
        question(index_path, job, time_limit_ms=MAX_TIME_LIMIT_MS)
    except HistoryError as error:
        fail(error, as_json=False)


def _session(session_id: str, form: str) -> Export:
    def write(conn: sqlite3.Connection) -> None:
        if form == "json":
            whole = export_json(conn, session_id, None, no_url)
            click.echo(json.dumps(whole, indent=2, ensure_ascii=False))
            return
        text = export_markdown(conn, session_id, None)
        # Into a file goes what was said; a terminal must not obey it.
        click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)

    return write


def _prompts(session_id: str | None, filters: dict[str, str]) -> Export:
    def write(conn: sqlite3.Connection) -> None:
        context = local_context()
        values = check("export", FILTERS, filters, as_text=True)
        now: datetime = context.now
        if "timezone" in values:
            now = now.astimezone(zone(values["timezone"]))
        project, directory = values.get("project"), values.get("directory")
        if project is None and directory is None:
            directory = context.directory
        if session_id is not None:
            find_session(conn, session_id)
        found = user_prompts(
            conn,
            resolve(conn, project=project, directory=directory, home=context.home),
            dates=parse_dates(values["date"], now=now) if "date" in values else None,
            session_id=session_id,
        )
        for prompt in found:
            click.echo(_line(prompt_json(prompt)))

    return write


def _line(value: Json) -> str:
    """Return a value as JSON that every reader of lines takes for one line."""
    line = json.dumps(value, ensure_ascii=False)
    return line.translate({ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"})
