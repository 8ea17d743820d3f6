"""Commands that are imported when they are wanted.

``opencode-history mcp`` is started by other programs that wait for it, and must not pay for
importing Datasette's whole application, which ``serve`` needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a group. places: ``module:attribute`` of those that are imported late."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._commands: dict[str, click.Command | str] = dict(places)

    def __getitem__(self, name: str) -> click.Command:
        found = self._commands[name]
        if isinstance(found, str):
            module, attribute = found.split(":")
            found = self._commands[name] = getattr(import_module(module), attribute)
        return found

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)
