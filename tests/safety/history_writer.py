"""An OpenCode that is busy: changes a database in every way in which one changes."""

from __future__ import annotations

import random
from pathlib import Path

from tests.builders import T0
from tests.opencode_stores import Database, tool

WORDS = ["login", "timeout", "retry", "index", "parser", "naïve", "日本語", "x" * 2000]


class BusyOpenCode:
    """Begins, goes on with, renames and deletes sessions; seed decides what happens."""

    def __init__(self, path: Path, seed: int, sessions: int = 60) -> None:
        self.random = random.Random(seed)
        self.db = Database(path, "1.18")
        self.alive: list[str] = []
        self.counter = 0
        for _ in range(sessions):
            self._begin()

    def step(self, changes: int = 8) -> None:
        for _ in range(changes):
            self.random.choice(
                [self._begin, self._go_on, self._go_on, self._go_on, self._rename, self._delete]
            )()

    def close(self) -> None:
        self.db.conn.close()

    def _number(self) -> int:
        self.counter += 1
        return self.counter

    def _begin(self) -> None:
        number = self._number()
        session_id = f"ses_{number:05}"
        parent = self.random.choice([None, None, *self.alive[-1:]])
        self.db.session(session_id, f"Session {number}", at=T0 + number, parent_id=parent)
        self.alive.append(session_id)
        for _ in range(self.random.randint(1, 6)):
            self._say(session_id)

    def _say(self, session_id: str) -> None:
        number = self._number()
        words = " ".join(self.random.choices(WORDS, k=20))
        at = T0 + number
        self.db.conn.execute("BEGIN")
        parts = [
            words,
            tool("edit", input={"filePath": f"src/{number % 9}.ts", "newString": words}),
        ]
        role = self.random.choice(["user", "assistant"])
        self.db.message(f"msg_{number:05}", session_id, role, *parts, at=at)
        self.db.conn.execute("UPDATE session SET time_updated = ? WHERE id = ?", (at, session_id))
        self.db.conn.execute("COMMIT")

    def _go_on(self) -> None:
        if self.alive:
            self._say(self.random.choice(self.alive))

    def _rename(self) -> None:
        if self.alive:
            title = f"Renamed {self._number()}"
            change = (title, T0 + self.counter, self.random.choice(self.alive))
            self.db.conn.execute(
                "UPDATE session SET title = ?, time_updated = ? WHERE id = ?", change
            )

    def _delete(self) -> None:
        if len(self.alive) > 20:
            session_id = self.alive.pop(self.random.randrange(len(self.alive)))
            self.db.conn.execute("BEGIN")
            for table, key in (
                ("part", "session_id"),
                ("message", "session_id"),
                ("session", "id"),
            ):
                self.db.conn.execute(f"DELETE FROM {table} WHERE {key} = ?", (session_id,))
            self.db.conn.execute("COMMIT")
