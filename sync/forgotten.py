"""The list of sessions that must never be indexed again.

It is a file of its own beside the index, since the index is a cache that may be deleted and
made anew at any time. It holds ids and times, and no word of what was forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from sync.errors import IndexUnusable
from sync.private_files import private_text, write_private

SUFFIX = ".forgotten.json"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """One session. because_of: the session that it was a subagent of and went along with."""

    id: str
    forgotten_at: int
    because_of: str | None = None


class ForgottenSessions:
    """The list of one index. What another process adds is seen at the next question.

    Changes must be made within a write transaction of the index, so that nobody writes a
    session between its being listed here and its being deleted there.
    """

    def __init__(self, index_path: Path) -> None:
        real = index_path.resolve()
        self.path = real.with_name(real.name + SUFFIX)
        self._mark: tuple[int, ...] = ()
        self._known: dict[str, Forgotten] = {}

    def __contains__(self, session_id: object) -> bool:
        return session_id in self.all()

    def all(self) -> dict[str, Forgotten]:
        """Return them by id, in the order in which they were forgotten.

        Raises IndexUnusable where the file cannot be read: going on would revive them.
        """
        mark = self._look()
        if mark != self._mark:
            self._known = self._read()
            self._mark = mark
        return self._known

    def add(self, sessions: Iterable[Forgotten]) -> None:
        """Add those that are new. Raises IndexUnusable where the file cannot be written."""
        self._write({one.id: one for one in sessions} | self.all())

    def remove(self, session_ids: Iterable[str]) -> None:
        """Take sessions off the list; raises as add does."""
        gone = set(session_ids)
        self._write({id_: one for id_, one in self.all().items() if id_ not in gone})

    def _look(self) -> tuple[int, ...]:
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise IndexUnusable(f"{self.path} cannot be read: {error.strerror}") from error
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def _read(self) -> dict[str, Forgotten]:
        text = private_text(self.path)
        if text is None:
            return {}
        try:
            sessions = [Forgotten(**one) for one in json.loads(text)["forgotten"]]
            return {one.id: one for one in sessions}
        except (ValueError, TypeError, KeyError) as error:
            raise IndexUnusable(
                f"{self.path}, the list of forgotten sessions, cannot be understood ({error}); "
                "correct it, or remove it to let them all come back"
            ) from error

    def _write(self, sessions: dict[str, Forgotten]) -> None:
        listed = sorted(sessions.values(), key=lambda one: (one.forgotten_at, one.id))
        if listed:
            text = json.dumps({"forgotten": [asdict(one) for one in listed]}, indent=1)
            write_private(self.path, text + "\n")
        else:
            self.path.unlink(missing_ok=True)
