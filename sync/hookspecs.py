"""The seam for further sources: what a plugin package may implement.

A package offers a module with these hooks through the entry point group
``opencode_history``; the built-in sources are the first users of the same hooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pluggy

from sync.model import Source

PROJECT_NAME = "opencode_history"
hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncConfig:
    """Where to look for history.

    data_dirs: OpenCode data directories, each holding databases and a JSON store.
    databases: single database files, read whatever their names.
    urls: OpenCode services to ask besides the registered one.
    state_dirs: folders in which services register themselves.
    explicit: the person named these places; what is missing there is an error, not a silence.
    """

    data_dirs: tuple[Path, ...] = ()
    databases: tuple[Path, ...] = ()
    urls: tuple[str, ...] = ()
    state_dirs: tuple[Path, ...] = ()
    explicit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One place that was looked at, and what was found there.

    source: None where there is nothing to read; then `what` says why
        ("no such folder", "a copy made by hand; name it with --db to read it").
    """

    location: str
    what: str
    source: Source | None = None


@hookspec
def register_sources(config: SyncConfig) -> Sequence[Probe]:  # type: ignore[empty-body]
    """Return every place that was looked at for history, with a source for each that has some.

    Called once per command. Must not write, and must not open network connections or
    databases: reading begins with the source's first method. The pair (kind, location) of a
    source must be unique and the same from run to run: it is stored with every session.
    """
