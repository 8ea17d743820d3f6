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
from sync.plugins import make_plugin_manager, probe_sources

INDEX_VARIABLE = "OPENCODE_HISTORY_INDEX"

Command = TypeVar("Command", bound=Callable[..., Any])


def default_index(config: SyncConfig) -> Path:
    """Return where the index is when nobody says otherwise: beside OpenCode's own data."""
    return config.data_dirs[0] / "history-search" / "history.db"


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
    """Add --data-dir and --db; the command receives config: SyncConfig."""

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
    @wraps(command)
    def with_sources(
        *args: Any, data_dirs: tuple[Path, ...], databases: tuple[Path, ...], **kwargs: Any
    ) -> Any:
        if data_dirs or databases:
            config = SyncConfig(
                data_dirs=tuple(p.expanduser().absolute() for p in data_dirs),
                databases=tuple(p.expanduser().absolute() for p in databases),
                explicit=True,
            )
        else:
            config = machine_config()
        return command(*args, config=config, **kwargs)

    return with_sources  # type: ignore[return-value]


def probe(config: SyncConfig) -> list[Probe]:
    """Look at every place of a config; a named place that is not there is a usage error."""
    if config.explicit:
        for path in (*config.data_dirs, *config.databases):
            if not path.exists():
                raise click.UsageError(f"{path} does not exist; check --data-dir and --db")
    return probe_sources(make_plugin_manager(), config)
