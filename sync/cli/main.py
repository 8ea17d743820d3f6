"""Commands that write the index and tell about it. Each parses, calls and prints."""

from __future__ import annotations

import json
import logging
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from sync.backfill import Silent, run_backfill
from sync.cli import progress
from sync.cli.lazy import LazyCommands
from sync.cli.options import index_option, probe, source_options
from sync.errors import SyncError
from sync.hookspecs import Probe, SyncConfig
from sync.index import Index
from sync.report import EXIT_NOTHING, Report
from sync.status import read_status
from sync.storage import delete_index

COMMANDS = LazyCommands(
    {
        "watch": "sync.cli.watch:watch",
        "serve": "sync.cli.serve:serve",
        "forget": "sync.cli.forget:forget_command",
        "audit": "sync.cli.audit:audit",
        "search": "sync.cli.read:search",
        "sessions": "sync.cli.read:sessions",
        "edits": "sync.cli.read:edits",
        "read": "sync.cli.read:read",
        "export": "sync.cli.export:export",
        "mcp": "sync.cli.mcp:mcp",
    }
)


@click.group(
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="datasette-history", prog_name="opencode-history")
@click.option("--debug", is_flag=True, help="Say on stderr what is done and how errors came about")
def cli(debug: bool) -> None:
    """Find, read and measure every OpenCode session of this machine

    Sessions are read from OpenCode's databases and files, which are never written, into one
    private SQLite index.
    """
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    for library in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(library).setLevel(logging.WARNING)


@cli.command()
@index_option
@source_options
@click.option(
    "--keep", is_flag=True, help="Keep sessions that OpenCode has deleted, marked as gone"
)
@click.option("--strict", is_flag=True, help="Exit with 1 when a single row could not be read")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, without progress")
def sync(index_path: Path, config: SyncConfig, keep: bool, strict: bool, as_json: bool) -> None:
    """Bring the index up to date with every session on this machine

    Exit codes: 0 done (rows that could not be read are listed), 1 a session or a source
    failed, 2 wrong usage, 3 no history found.

    Example:

    \b
        opencode-history sync
        opencode-history sync --data-dir /mnt/old-laptop/opencode
    """
    probes = probe(config)
    _require_sources(probes)
    with _failures():
        report = backfill(index_path, probes, keep=keep, quiet=as_json)
    _print_report(report, as_json)
    sys.exit(report.exit_code(strict=strict))


@cli.command()
@index_option
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, without progress")
def rebuild(index_path: Path, config: SyncConfig, as_json: bool) -> None:
    """Delete the index and make it anew

    The index is a cache: nothing is lost but sessions that OpenCode no longer has.
    """
    probes = probe(config)
    _require_sources(probes)
    with _failures():
        delete_index(index_path)
        report = backfill(index_path, probes, keep=False, quiet=as_json)
    _print_report(report, as_json)
    sys.exit(report.exit_code())


@cli.command()
@index_option
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON")
def status(index_path: Path, config: SyncConfig, as_json: bool) -> None:
    """Show what was looked at, what is indexed and what could not be read"""
    with _failures():
        found = read_status(index_path, probe(config))
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else found.to_text())


def backfill(index_path: Path, probes: list[Probe], *, keep: bool, quiet: bool) -> Report:
    """Run one backfill over the probed sources and close them."""
    sources = [p.source for p in probes if p.source is not None]
    try:
        with Index.open(index_path) as index:
            shown = Silent() if quiet else progress.for_stderr()
            return run_backfill(index, sources, keep=keep, progress=shown)
    finally:
        for source in sources:
            source.close()


def _require_sources(probes: list[Probe]) -> None:
    if not any(p.source for p in probes):
        for p in probes:
            click.echo(f"{p.location}: {p.what}", err=True)
        click.echo("No OpenCode history found; name a place with --data-dir or --db", err=True)
        sys.exit(EXIT_NOTHING)


def _print_report(report: Report, as_json: bool) -> None:
    click.echo(json.dumps(report.to_json(), indent=2) if as_json else report.to_text())


@contextmanager
def _failures() -> Iterator[None]:
    """Show the world's faults as one line; end on SIGTERM as on Ctrl-C."""

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    previous: Any = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except SyncError as error:
        raise click.ClickException(str(error)) from error
    except sqlite3.Error as error:
        raise click.ClickException(
            f"the index could not be written: {error}. What was done so far is kept; "
            "run the command again, or `opencode-history rebuild` if the file is damaged"
        ) from error
    finally:
        signal.signal(signal.SIGTERM, previous)
