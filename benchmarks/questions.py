"""What is asked of the index, each question with what plain SQLite would do for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.corpus import Manifest


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a tool. words: what the floors look for; none where there is no floor."""

    name: str
    tool: str
    inputs: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()


def questions(manifest: Manifest, conn: sqlite3.Connection) -> list[Question]:
    """Return all questions of a size; conn is open on its index, for ids and paths."""
    return [
        *_by_frequency(manifest),
        *_narrowed(manifest, conn),
        *_without_words(manifest, conn),
    ]


def _by_frequency(manifest: Manifest) -> Iterator[Question]:
    needles = {name: text for name, (text, _) in manifest.needles.items()}
    for label, text in (
        ("word in one session", needles["one"]),
        ("word in 1 % of the sessions", needles["percent"]),
        ("word in half of the sessions", needles["half"]),
        ("common word", manifest.common_words[1]),
        ("phrase in one session", needles["phrase"]),
        ("phrase in every tenth session", needles["phrase_tenth"]),
        ("absent word", needles["absent"]),
        ("absent word of usual trigrams", needles["absent_usual"]),
    ):
        yield Question(label, "search-messages", {"query": _quoted(text)}, (text,))
    words = tuple(manifest.common_words)
    yield Question("three common words", "search-messages", {"query": " ".join(words)}, words)


def _narrowed(manifest: Manifest, conn: sqlite3.Connection) -> Iterator[Question]:
    first, second, third = manifest.common_words
    half = manifest.needles["half"][0]
    yield Question(
        "two common words, a word excluded", "search-messages",
        {"query": f"{first} {second} -{half}"}, (first, second, half),
    )  # fmt: skip
    yield Question(
        "common word, a common word excluded", "search-messages",
        {"query": f"{third} -{first}"}, (third, first),
    )  # fmt: skip
    yield Question(
        "common word, role", "search-messages", {"query": second, "role": "user"}, (second,)
    )
    month = "2025-07"
    yield Question(
        "common word, date", "search-messages", {"query": second, "date": month}, (second,)
    )
    sizes = conn.execute(
        "SELECT project_id FROM sessions GROUP BY 1 ORDER BY count(*) DESC, 1"
    ).fetchall()
    for label, project in (
        ("two common words, a small project", sizes[len(sizes) // 2][0]),
        ("two common words, all projects", "all"),
    ):
        inputs = {"query": f"{first} {second}", "project": project}
        yield Question(label, "search-messages", inputs, (first, second))


def _without_words(manifest: Manifest, conn: sqlite3.Connection) -> Iterator[Question]:
    common, half = manifest.common_words[1], manifest.needles["half"][0]
    (path,) = conn.execute(
        "SELECT path FROM document_paths GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
    ).fetchone()
    name = "/".join(path.rsplit("/", 2)[-2:])
    yield Question("sessions by path", "search-sessions", {"query": f"path:{name}"})
    yield Question("recent sessions", "search-sessions")
    yield Question("recent edits", "search-edits")
    yield Question("edits of a path", "search-edits", {"query": f"path:{name}"})
    yield Question("edits, common word", "search-edits", {"query": common}, (common,))
    yield Question("edits, word in half", "search-edits", {"query": half}, (half,))
    yield Question("projects", "search-sessions", {"show": "projects"})
    yield Question(
        "projects, common word", "search-sessions", {"show": "projects", "query": common}, (common,)
    )
    (anchor,) = conn.execute(
        "SELECT message_id FROM documents WHERE session_id = ? ORDER BY seq LIMIT 1 OFFSET ?",
        (manifest.longest, _count(conn, manifest.longest) // 2),
    ).fetchone()
    yield Question(
        "read around a message of the longest session", "read",
        {"sessionID": manifest.longest, "messageID": anchor},
    )  # fmt: skip


def _count(conn: sqlite3.Connection, session_id: str) -> int:
    sql = "SELECT count(*) FROM documents WHERE session_id = ?"
    return int(conn.execute(sql, (session_id,)).fetchone()[0])


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text
