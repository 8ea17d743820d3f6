"""``opencode-history serve``: watch in the background, Datasette in the foreground."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import click
import uvicorn

from datasette_history.sample import sample_database
from sync.cli.door import LoginLinks, build_datasette, takes_tokens
from sync.cli.guard import LOOPBACK_HOSTS, App, Guard, host_name
from sync.cli.options import discovery, index_option, probe, source_options
from sync.cli.watch import stop_event, tell_first
from sync.errors import SyncError
from sync.hookspecs import SyncConfig
from sync.index import Index
from sync.private_files import AGENT_TOKEN
from sync.watch import Watcher

log = logging.getLogger(__name__)


@click.command()
@index_option
@source_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on")
@click.option("--port", default=8001, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    help="Accept requests for this host name too; repeatable [always: localhost, 127.0.0.1, [::1]]",
)
@click.option(
    "--open-access", is_flag=True, help="Let every user of this machine read all, without a login"
)
def serve(
    index_path: Path,
    config: SyncConfig,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    open_access: bool,
) -> None:
    """Sync, watch, and explore the index in Datasette

    Prints a link that logs one browser in; agents send the token from the printed file as
    "Authorization: Bearer TOKEN". Without any OpenCode history a small sample is shown.

    Example:

    \b
        opencode-history serve --port 8001
    """
    if open_access and host_name(f"//{_url_host(host)}") not in LOOPBACK_HOSTS:
        raise click.UsageError(
            f"--open-access would let everyone who reaches {host} read all history; "
            "use it with --host 127.0.0.1 only"
        )
    sample = not any(p.source for p in probe(config)) and not config.explicit
    if sample:
        index_path, config = _sample(index_path.parent / "sample")
        click.echo("No OpenCode history found on this machine: showing a small sample instead.")
    try:
        with Index.open(index_path):
            pass
        listener = _listen(host, port)
        datasette = build_datasette(index_path, sample=sample, open_access=open_access)
    except SyncError as error:
        raise click.ClickException(str(error)) from error
    base = f"http://{_url_host(host)}:{listener.getsockname()[1]}"
    _print_addresses(base, index_path, open_access)
    stopped = stop_event()
    watcher = Watcher(index_path, discovery(config), finished=tell_first())
    watcher.start()
    try:
        asyncio.run(datasette.invoke_startup())
        app: App = datasette.app()
        if not open_access:
            app = LoginLinks(app, datasette, base, _print_link)
        app = Guard(app, LOOPBACK_HOSTS | {_url_host(host), *allowed_hosts})
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
        if not stopped.is_set():
            server.run(sockets=[listener])
    finally:
        watcher.stop()


def _sample(folder: Path) -> tuple[Path, SyncConfig]:
    """Return an index of its own and the place of the bundled sample, so that neither is
    ever mixed with real history."""
    database = sample_database(folder)
    return folder / "history.db", SyncConfig(databases=(database,), explicit=True)


def _listen(host: str, port: int) -> socket.socket:
    """Open the port before anything is promised about it; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {_url_host(host)}:{port}: {error.strerror}; "
            "choose another port with --port"
        ) from error


def _print_addresses(base: str, index_path: Path, open_access: bool) -> None:
    click.echo(f"Search:      {base}/-/history")
    click.echo(f"Database:    {base}/{index_path.stem}")
    if open_access:
        click.echo("Every user of this machine can read everything (--open-access).")
    elif takes_tokens():
        click.echo(f"Agent token: {index_path.parent / AGENT_TOKEN}")
    else:
        click.echo("Agents:      pip install 'datasette-history[auth]' to let them in by a token")


def _print_link(link: str) -> None:
    click.echo(f"Log in with: {link} (once; then comes another)")


def _url_host(host: str) -> str:
    """Return an address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
