"""What a sync did, for people, for scripts and for the exit code."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sync.model import BadRecord
from sync.values import clean

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_NOTHING = range(4)

SHOWN_PROBLEMS = 20
"""Rows listed in the text form; --json and the table problems have all."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A session that could not be refreshed; what the index had of it stays."""

    session_id: str
    reason: str


@dataclass(slots=True)
class SourceReport:
    """One source's part of a sync.

    listed: sessions it holds. skipped: it has not changed since the last sync.
    error: why it could not be read at all.
    """

    kind: str
    location: str
    listed: int = 0
    skipped: bool = False
    error: str | None = None
    problems: list[BadRecord] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """Counts of sessions, but for messages and characters; seconds of wall time."""

    sources: list[SourceReport] = field(default_factory=list)
    refreshed: int = 0
    removed: int = 0
    superseded: int = 0
    messages_written: int = 0
    characters_written: int = 0
    failures: list[Failure] = field(default_factory=list)
    problems: list[BadRecord] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def all_problems(self) -> list[BadRecord]:
        return [p for source in self.sources for p in source.problems] + self.problems

    def exit_code(self, *, strict: bool = False) -> int:
        """0 done, 1 a session or source failed (strict: or a row), 3 nothing to read from.

        Rows that could not be read count each time, also where nothing else has changed.
        """
        if not self.sources:
            return EXIT_NOTHING
        if self.failures or any(source.error for source in self.sources):
            return EXIT_FAILED
        return EXIT_FAILED if strict and self.all_problems else EXIT_DONE

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        return clean("\n".join(self._lines()))

    def _lines(self) -> list[str]:
        lines = []
        for source in self.sources:
            state = source.error or (
                "unchanged"
                if source.skipped
                else f"{source.listed} {plural(source.listed, 'session')}"
            )
            lines.append(f"{source.kind:8} {source.location}: {state}")
        lines.append(
            f"{self.refreshed} {plural(self.refreshed, 'session')} refreshed, "
            f"{self.removed} removed, {len(self.failures)} failed, "
            f"{self.messages_written} {plural(self.messages_written, 'message')} written "
            f"in {self.seconds:.1f} s"
        )
        lines += [f"failed: {failure.session_id}: {failure.reason}" for failure in self.failures]
        problems = self.all_problems
        lines += [f"not read: {p.item}: {p.reason}" for p in problems[:SHOWN_PROBLEMS]]
        if len(problems) > SHOWN_PROBLEMS:
            lines.append(
                f"and {len(problems) - SHOWN_PROBLEMS} more rows not read; "
                "`opencode-history status` lists all"
            )
        return lines


def plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
