"""The plugin's settings, ``plugins: datasette-history:`` in Datasette's metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from datasette.utils import StartupError

if TYPE_CHECKING:
    from datasette.app import Datasette

PLUGIN: Final = "datasette-history"
DEFAULT_TIME_LIMIT_MS: Final = 3_000
MAX_TIME_LIMIT_MS: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """database: name of the attached index to use; None for the first that is found.

    time_limit_ms: how long one question may take, from 1 to MAX_TIME_LIMIT_MS.
    sample: the index holds the bundled sample and nobody's own history.
    """

    database: str | None = None
    time_limit_ms: int = DEFAULT_TIME_LIMIT_MS
    sample: bool = False

    @classmethod
    def from_datasette(cls, datasette: Datasette) -> Config:
        """Read the settings; raise StartupError where one of them cannot be used."""
        given: dict[str, Any] = datasette.plugin_config(PLUGIN) or {}
        unknown = sorted(set(given) - {"database", "time_limit_ms", "sample"})
        if unknown:
            raise _wrong(
                unknown[0], given[unknown[0]], "known are database, time_limit_ms and sample"
            )
        config = cls(**given)
        limit = config.time_limit_ms
        if type(limit) is not int or not 1 <= limit <= MAX_TIME_LIMIT_MS:
            raise _wrong("time_limit_ms", limit, f"use milliseconds from 1 to {MAX_TIME_LIMIT_MS}")
        if type(config.sample) is not bool:
            raise _wrong("sample", config.sample, "use true or false")
        return config


def check(datasette: Datasette) -> Config:
    """Return the settings; raise StartupError where they do not fit what is attached."""
    config = Config.from_datasette(datasette)
    if config.database is not None and config.database not in datasette.databases:
        attached = ", ".join(datasette.databases) or "none"
        raise _wrong("database", config.database, f"attached databases: {attached}")
    return config


def _wrong(key: str, value: object, remedy: str) -> StartupError:
    return StartupError(f"{PLUGIN}: setting {key} cannot be {value!r}; {remedy}")
