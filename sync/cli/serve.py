"""``opencode-history serve``: sync in the background, Datasette in the foreground."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import uvicorn
import yaml
from datasette.app import Datasette

from datasette_history.resources import metadata_path
from datasette_history.sample import sample_database
from sync.backfill import Silent, run_backfill
from sync.cli.guard import LOOPBACK_HOSTS, Guard, host_name
from sync.cli.options import index_option, probe, source_options
from sync.errors import SyncError
from sync.hookspecs import Probe, SyncConfig
from sync.index import Index
from sync.model import Source
from sync.plugins import make_plugin_manager, probe_sources

log = logging.getLogger(__name__)

AGENT = "agent"
AGENT_TOKEN = "agent-token"
COOKIE_SECRET = "cookie-secret"
SETTINGS = {
    # Dashboards and ad-hoc questions over gigabytes take longer than Datasette's second.
    "sql_time_limit_ms": 10_000,
    "facet_time_limit_ms": 1_000,
    "max_returned_rows": 5_000,
    "default_page_size": 50,
    "truncate_cells_html": 300,
    "allow_download": "off",
}


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
    """Sync, then explore the index in Datasette

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
    probes = probe(config)
    sample = not any(p.source for p in probes) and not config.explicit
    if sample:
        index_path, probes = _sample(index_path.parent / "sample")
        click.echo("No OpenCode history found on this machine: showing a small sample instead.")
    try:
        with Index.open(index_path):
            pass
    except SyncError as error:
        raise click.ClickException(str(error)) from error
    listener = _listen(host, port)
    datasette = build_datasette(index_path, sample=sample, open_access=open_access)
    _print_addresses(datasette, host, listener.getsockname()[1], index_path, open_access)
    syncing = threading.Thread(
        target=_sync, args=(index_path, [p.source for p in probes if p.source]), daemon=True
    )
    syncing.start()
    asyncio.run(datasette.invoke_startup())
    app = Guard(datasette.app(), LOOPBACK_HOSTS | {_url_host(host), *allowed_hosts})
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    server.run(sockets=[listener])


def build_datasette(index_path: Path, *, sample: bool, open_access: bool) -> Datasette:
    """Return a Datasette over the index with the packaged metadata; private unless open_access."""
    metadata: dict[str, Any] = yaml.safe_load(metadata_path().read_text(encoding="utf-8"))
    # Datasette names a database after its file.
    databases = metadata.setdefault("databases", {})
    databases[index_path.stem] = databases.pop("history", {})
    plugins = metadata.setdefault("plugins", {})
    history = plugins.setdefault("datasette-history", {})
    history.update({"database": index_path.stem, "sample": sample})
    if not open_access:
        metadata["allow"] = {"id": ["root", AGENT]}
        token = private_text(index_path.parent / AGENT_TOKEN)
        plugins["datasette-auth-tokens"] = {"tokens": [{"token": token, "actor": {"id": AGENT}}]}
    return Datasette(
        [str(index_path)],
        metadata=metadata,
        settings=SETTINGS,
        secret=private_text(index_path.parent / COOKIE_SECRET),
    )


def private_text(path: Path) -> str:
    """Return the secret in a file that only its owner can read, making both the first time."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    secret = secrets.token_urlsafe(32)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secret + "\n")
    return secret


def _sample(folder: Path) -> tuple[Path, list[Probe]]:
    """Return an index of its own and the probes of the bundled sample, so that neither is
    ever mixed with real history."""
    database = sample_database(folder)
    config = SyncConfig(databases=(database,), explicit=True)
    return folder / "history.db", probe_sources(make_plugin_manager(), config)


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


def _print_addresses(
    datasette: Datasette, host: str, port: int, index_path: Path, open_access: bool
) -> None:
    base = f"http://{_url_host(host)}:{port}"
    click.echo(f"Search:      {base}/-/history")
    click.echo(f"Database:    {base}/{index_path.stem}")
    if open_access:
        click.echo("Every user of this machine can read everything (--open-access).")
        return
    token = datasette._root_token  # Datasette has no public name for it
    click.echo(f"Log in with: {base}/-/auth-token?token={token}")
    click.echo(f"Agent token: {index_path.parent / AGENT_TOKEN}")


def _url_host(host: str) -> str:
    """Return an address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def _sync(index_path: Path, sources: Sequence[Source]) -> None:
    """Bring the index up to date while it is already being served."""
    try:
        with Index.open(index_path) as index:
            report = run_backfill(index, sources, progress=Silent())
        click.echo(report.to_text(), err=True)
    except (SyncError, sqlite3.Error) as error:
        click.echo(f"The sync failed: {error}", err=True)
    finally:
        for source in sources:
            source.close()
