"""A backfill's progress: a bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import sys
from typing import Any

import click

from sync.report import plural


class TerminalProgress:
    """Draws a bar of sessions."""

    def __init__(self) -> None:
        self._bar: Any = None

    def listing(self, location: str) -> None:
        click.echo(f"Listing {location}", err=True)

    def planned(self, sessions: int) -> None:
        if sessions:
            self._bar = click.progressbar(
                length=sessions, label="Indexing sessions", file=sys.stderr, show_pos=True
            )
            self._bar.render_progress()

    def advanced(self, done: int) -> None:
        if self._bar is not None:
            self._bar.update(done)

    def finishing(self) -> None:
        if self._bar is not None:
            self._bar.render_finish()
            self._bar = None


class PlainProgress:
    """Prints a line at each tenth of the work."""

    def __init__(self) -> None:
        self._planned = self._done = self._told = 0

    def listing(self, location: str) -> None:
        click.echo(f"Listing {location}", err=True)

    def planned(self, sessions: int) -> None:
        self._planned = sessions
        if sessions:
            noun = plural(sessions, "session")
            click.echo(f"Indexing {sessions} {noun}, newest first", err=True)

    def advanced(self, done: int) -> None:
        self._done += done
        if self._planned and self._done * 10 // self._planned > self._told:
            self._told = self._done * 10 // self._planned
            noun = plural(self._planned, "session")
            click.echo(f"Indexed {self._done} of {self._planned} {noun}", err=True)

    def finishing(self) -> None: ...


def for_stderr() -> TerminalProgress | PlainProgress:
    return TerminalProgress() if sys.stderr.isatty() else PlainProgress()
