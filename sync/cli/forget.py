"""``opencode-history forget``: out of the index for good."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from datasette_history.dates import parse_dates
from datasette_history.errors import HistoryError
from datasette_history.pages.shown import visible
from datasette_history.scope import SHARED_PROJECT, resolve
from sync.cli.ask import local_context
from sync.cli.options import index_option
from sync.errors import SyncError
from sync.forget import Erased, forget, remember, with_subagents
from sync.forgotten import ForgottenSessions
from sync.index import Index
from sync.report import plural


@click.command("forget")
@click.argument("session_ids", nargs=-1, metavar="[SESSION]...")
@click.option("--project", help="Every session of this project: its ID, a path, or all")
@click.option("--before", metavar="DATE", help="Every session last active before this day")
@click.option("--list", "as_list", is_flag=True, help="Show what was forgotten")
@click.option("--undo", metavar="SESSION", multiple=True, help="Let it come back; repeatable")
@click.option("--yes", is_flag=True, help="Do not ask, where --project or --before choose")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@index_option
def forget_command(
    session_ids: Sequence[str],
    project: str | None,
    before: str | None,
    as_list: bool,
    undo: Sequence[str],
    yes: bool,
    as_json: bool,
    index_path: Path,
) -> None:
    """Take sessions out of the index for good, and keep them out

    Subagents of a session go along; forks of it stay. Their text is erased from the file, not
    only hidden, which rewrites the whole index. OpenCode's own files are left as they are. The
    ids are kept in a list beside the index, which syncs and `rebuild` obey.

    Exit codes: 0 done, 1 something of it may remain in the file, 2 wrong usage.

    Example:

    \b
        opencode-history forget ses_1f2e3d
        opencode-history forget --project ~/work/secret
        opencode-history forget --before 2025-01-01
        opencode-history forget --undo ses_1f2e3d
    """
    chosen = bool(session_ids) + bool(project or before) + as_list + bool(undo)
    if chosen != 1:
        raise click.UsageError("name sessions, or use --project and --before, --list or --undo")
    try:
        if as_list:
            _list(ForgottenSessions(index_path), as_json)
            return
        if not index_path.is_file():
            raise click.ClickException(f"there is no index at {index_path}")
        with Index.open(index_path) as index:
            if undo:
                _undo(index, undo, as_json)
                return
            ids = session_ids or _choose(index.conn, project, before)
            _require_known(index, session_ids)
            if not session_ids and not yes:
                _confirm(len(with_subagents(index.conn, ids)))
            erased = forget(index, ids, now_ms=round(time.time() * 1000))
    except HistoryError as error:
        raise click.UsageError(str(error)) from error
    except (SyncError, sqlite3.Error) as error:
        raise click.ClickException(str(error)) from error
    _print(erased, as_json)
    sys.exit(1 if erased.remains else 0)


def _choose(conn: sqlite3.Connection, project: str | None, before: str | None) -> list[str]:
    context = local_context()
    sql, values = "SELECT id FROM sessions WHERE 1", dict[str, Any]()
    if project is not None:
        scope = resolve(conn, project=project, directory=None, home=context.home)
        if scope.projects is not None:
            if scope.is_empty:
                raise click.UsageError(f"no indexed session belongs to project {project}")
            sql += (
                " AND (project_id IN (SELECT value FROM json_each(:projects))"
                " OR project_id = :shared AND directory IN"
                " (SELECT value FROM json_each(:directories)))"
            )
            values |= {
                "projects": json.dumps(list(scope.projects)),
                "shared": SHARED_PROJECT,
                "directories": json.dumps(list(scope.directories)),
            }
    if before is not None:
        sql += " AND updated < :before"
        values["before"] = parse_dates(before, now=context.now).start_ms
    return [id_ for (id_,) in conn.execute(sql, values)]


def _require_known(index: Index, session_ids: Sequence[str]) -> None:
    for session_id in session_ids:
        known = index.conn.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
        # Asked a second time, what the first one left in the file is erased.
        if known is None and session_id not in index.forgotten:
            raise click.UsageError(
                f"{session_id} is not in the index; `opencode-history sessions` lists what is"
            )


def _confirm(count: int) -> None:
    if count and not sys.stdin.isatty():
        raise click.UsageError(
            f"{count} {plural(count, 'session')} would be forgotten; say so with --yes"
        )
    if count:
        click.confirm(f"Forget {count} {plural(count, 'session')}?", abort=True, err=True)


def _list(forgotten: ForgottenSessions, as_json: bool) -> None:
    sessions = list(forgotten.all().values())
    if as_json:
        click.echo(json.dumps([asdict(one) for one in sessions], indent=2))
        return
    for one in sessions:
        when = datetime.fromtimestamp(one.forgotten_at / 1000, UTC).isoformat("T", "seconds")
        along = f"  with {visible(one.because_of)}" if one.because_of else ""
        click.echo(f"{visible(one.id)}  {when}{along}")


def _undo(index: Index, session_ids: Sequence[str], as_json: bool) -> None:
    for session_id in session_ids:
        if session_id not in index.forgotten:
            raise click.UsageError(f"{session_id} was not forgotten; see --list")
    back = remember(index, session_ids)
    if as_json:
        click.echo(json.dumps({"remembered": back}, indent=2))
    else:
        click.echo(f"The next sync may bring back {visible(', '.join(back))}")


def _print(erased: Erased, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(erased), indent=2))
        return
    count = len(erased.sessions)
    click.echo(f"Forgot {count} {plural(count, 'session')}")
    if erased.forks:
        names = visible(", ".join(erased.forks))
        click.echo(f"Forks that hold copies of their messages stay: {names}")
    if erased.remains:
        click.echo(
            f"Some of their text may remain in the file ({erased.remains}); run the command again",
            err=True,
        )
