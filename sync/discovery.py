"""Where OpenCode keeps its history on a machine, and which of the files there can be it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sync.hookspecs import Probe, SyncConfig

EMPTY = "empty: nothing was written to it yet"

_DATABASE = re.compile(r"opencode(?:-[A-Za-z0-9._-]*)?\.db")
_LOOKS_LIKE_ONE = re.compile(r"opencode.*\.(?:db|sqlite)", re.IGNORECASE)


def default_config(environ: Mapping[str, str], home: Path) -> SyncConfig:
    """Return where this machine's OpenCode keeps its history, as OpenCode itself finds it.

    OPENCODE_DB adds a file; ``:memory:`` names none.
    """
    data = _base(environ.get("XDG_DATA_HOME"), home / ".local" / "share") / "opencode"
    state = _base(environ.get("XDG_STATE_HOME"), home / ".local" / "state") / "opencode"
    named = environ.get("OPENCODE_DB", "")
    databases = () if named in ("", ":memory:") else (data / named,)
    return SyncConfig(data_dirs=(data,), databases=databases, state_dirs=(state,))


def find_databases(config: SyncConfig) -> Iterator[Probe | Path]:
    """Yield each database file to read once, and a Probe for each place that has none.

    Files are known by their names alone; what else lies in a data directory is not looked at.
    """
    seen: set[str] = set()
    for path in _candidates(config):
        if isinstance(path, Probe):
            yield path
        elif (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield Probe(location=str(path), what=EMPTY) if _is_empty(path) else path


def is_database_name(name: str) -> bool:
    """Tell whether OpenCode itself could have named a file so, in one of its channels."""
    return _DATABASE.fullmatch(name) is not None


def _candidates(config: SyncConfig) -> Iterator[Probe | Path]:
    for folder in config.data_dirs:
        yield from _in_folder(folder)
    for path in config.databases:
        if path.is_file():
            yield path
        else:
            yield Probe(location=str(path), what="no such file")


def _in_folder(folder: Path) -> Iterator[Probe | Path]:
    try:
        names: Sequence[str] = sorted(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        yield Probe(location=str(folder), what="no such folder")
        return
    except OSError as error:
        yield Probe(location=str(folder), what=f"cannot be read: {error.strerror}")
        return
    if "opencode.db" not in names:
        yield Probe(location=str(folder / "opencode.db"), what="no such file")
    for name in names:
        path = folder / name
        if is_database_name(name) and path.is_file():
            yield path
        elif _LOOKS_LIKE_ONE.fullmatch(name) and path.is_file():
            yield Probe(
                location=str(path),
                what="not a name that OpenCode gives, so perhaps a copy made by hand; "
                "name it with --db to read it",
            )


def _is_empty(path: Path) -> bool:
    """Tell whether OpenCode has made the file, and not written to it so far."""
    wal = path.with_name(f"{path.name}-wal")
    return path.stat().st_size == 0 and not (wal.exists() and wal.stat().st_size)


def _base(value: str | None, default: Path) -> Path:
    # The XDG specification: a path that is not absolute is to be ignored.
    return Path(value) if value and Path(value).is_absolute() else default
