"""Options that several commands share, and the values they stand for."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from sync.discovery import default_config
from sync.hookspecs import Probe, SyncConfig
from sync.model import Source
from sync.plugins import make_plugin_manager, probe_sources
from sync.sources.api_registration import PASSWORD_VARIABLE, USERNAME_VARIABLE, from_url
from sync.storage import OWN_FOLDER

INDEX_VARIABLE = "OPENCODE_HISTORY_INDEX"

Command = TypeVar("Command", bound=Callable[..., Any])


def default_index(config: SyncConfig) -> Path:
    """Return where the index is when nobody says otherwise: beside OpenCode's own data."""
    return config.data_dirs[0] / OWN_FOLDER / "history.db"


def machine_config() -> SyncConfig:
    return default_config(os.environ, Path.home())


def index_option(command: Command) -> Command:
    """Add --index; the command receives index_path: Path."""

    @click.option(
        "--index",
        "index_path",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar=INDEX_VARIABLE,
        help="Index file; default: history-search/history.db in OpenCode's data directory "
        f"[environment: {INDEX_VARIABLE}]",
    )
    @wraps(command)
    def with_index(*args: Any, index_path: Path | None, **kwargs: Any) -> Any:
        path = index_path if index_path is not None else default_index(machine_config())
        return command(*args, index_path=path.expanduser().absolute(), **kwargs)

    return with_index  # type: ignore[return-value]


def source_options(command: Command) -> Command:
    """Add --data-dir, --db and --url; the command receives config: SyncConfig."""

    @click.option(
        "--data-dir",
        "data_dirs",
        multiple=True,
        type=click.Path(path_type=Path, file_okay=False),
        help="Read this OpenCode data directory instead of this machine's; repeatable",
    )
    @click.option(
        "--db",
        "databases",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        help="Read this OpenCode database file, whatever its name; repeatable",
    )
    @click.option(
        "--url",
        "urls",
        multiple=True,
        help="Read the OpenCode service at this URL; repeatable. Its password comes from the "
        f"environment [{PASSWORD_VARIABLE}, {USERNAME_VARIABLE}]",
    )
    @wraps(command)
    def with_sources(
        *args: Any,
        data_dirs: tuple[Path, ...],
        databases: tuple[Path, ...],
        urls: tuple[str, ...],
        **kwargs: Any,
    ) -> Any:
        if data_dirs or databases or urls:
            config = SyncConfig(
                data_dirs=tuple(p.expanduser().absolute() for p in data_dirs),
                databases=tuple(p.expanduser().absolute() for p in databases),
                urls=urls,
                explicit=True,
            )
        else:
            config = machine_config()
        return command(*args, config=config, **kwargs)

    return with_sources  # type: ignore[return-value]


def discovery(config: SyncConfig) -> Callable[[], list[Source]]:
    """Return a function that finds the sources of a config as they are when it is called."""
    manager = make_plugin_manager()
    return lambda: [p.source for p in probe_sources(manager, config) if p.source is not None]


def probe(config: SyncConfig) -> list[Probe]:
    """Look at every place of a config; a named place that is not there is a usage error."""
    if config.explicit:
        for path in (*config.data_dirs, *config.databases):
            if not path.exists():
                raise click.UsageError(f"{path} does not exist; check --data-dir and --db")
        for url in config.urls:
            try:
                from_url(url, os.environ)
            except ValueError as error:
                raise click.BadParameter(f"{error}", param_hint="--url") from error
    return probe_sources(make_plugin_manager(), config)
