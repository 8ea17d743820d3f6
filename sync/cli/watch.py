"""``opencode-history watch``: keep the index current as OpenCode works."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import click

from sync.cli.options import discovery, index_option, probe, source_options
from sync.cli.progress import for_stderr
from sync.errors import SyncError
from sync.hookspecs import SyncConfig
from sync.report import Report
from sync.watch import Watcher

log = logging.getLogger(__name__)


@click.command()
@index_option
@source_options
@click.option(
    "--keep", is_flag=True, help="Keep sessions that OpenCode has deleted, marked as gone"
)
def watch(index_path: Path, config: SyncConfig, keep: bool) -> None:
    """Bring the index up to date and keep it so until interrupted

    Follows the events of running services and the changes of databases and files. What comes
    later, such as a service that is started tomorrow, is watched too. Ends with exit code 0
    on Ctrl-C or SIGTERM.

    Example:

    \b
        opencode-history watch
        OPENCODE_SERVER_PASSWORD=... opencode-history watch --url http://127.0.0.1:4096
    """
    for place in probe(config):
        click.echo(f"{place.location}: {place.what}", err=True)
    watcher = Watcher(
        index_path,
        discovery(config),
        keep=keep,
        progress=for_stderr(),
        finished=tell_first(),
    )
    stopped = stop_event()
    try:
        watcher.start()
    except SyncError as error:
        raise click.ClickException(str(error)) from error
    try:
        stopped.wait()
    finally:
        watcher.stop()


def tell_first() -> Callable[[Report], None]:
    """Return what prints the first backfill's report, and of later ones only what went wrong."""
    first = True

    def tell(report: Report) -> None:
        nonlocal first
        if first:
            click.echo(report.to_text(), err=True)
            click.echo("Watching for changes", err=True)
        else:
            log.info("%s", report.to_text())
        first = False

    return tell


def stop_event() -> threading.Event:
    """Return an event that Ctrl-C and SIGTERM set instead of ending the process."""
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> Any:
        stopped.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    return stopped
