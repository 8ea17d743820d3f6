"""The searches again, slow and plain: Python over all rows, to check the fast ones against.

Shares nothing with the package but the meaning of DESIGN's words. Case is compared with
str.lower, so histories given to it must hold letters whose cases are one to one.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """dates: first and last instant, both included. projects: ids; None for all.
    directory: scope by a path instead, as ``project:/path``."""

    words: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    path: str | None = None
    role: str | None = None
    dates: tuple[int, int] | None = None
    projects: tuple[str, ...] | None = None
    directory: str | None = None


class Reference:
    def __init__(self, conn: sqlite3.Connection, question: Question) -> None:
        self.question = question
        self.sessions = _rows(conn, "SELECT * FROM sessions ORDER BY updated DESC, id DESC")
        self.documents = _rows(conn, "SELECT * FROM documents ORDER BY seq")
        self.edits = _rows(conn, "SELECT * FROM document_paths")
        self.parts = _rows(conn, "SELECT * FROM parts ORDER BY seq")
        self.scope = [s for s in self.sessions if self._in_scope(s)]

    def messages(self) -> list[tuple[str, list[tuple[str, str | None, str]]]]:
        """Session ids, each with (word, message id or None, role) for every word."""
        return [(s["id"], self._hits(s)) for s in self._matching(self.question.dates)]

    def session_ids(self) -> list[str]:
        return [s["id"] for s in self._matching(self.question.dates)]

    def projects(self) -> list[tuple[str | None, int]]:
        counts = Counter(s["project_id"] for s in self._matching(self.question.dates))
        return sorted(counts.items(), key=lambda item: (-item[1], item[0] or ""))

    def found_edits(self) -> list[dict[str, Any]]:
        """The edits, newest first; the paths of one message in their own order."""
        matching = {s["id"] for s in self._matching(None)}
        found = []
        for edit in self.edits:
            document = self._document(edit["document_id"])
            if document["session_id"] not in matching or not self._is_path(edit["path"]):
                continue
            if self.question.dates is not None and not _between(edit, self.question.dates):
                continue
            prompt_id, prompt = self._prompt(document)
            found.append(
                {
                    "key": self._edit_key(edit),
                    "session_id": document["session_id"],
                    "message_id": document["message_id"],
                    "path": edit["path"],
                    "tool": edit["tool"],
                    "first": self._is_first(edit),
                    "prompt_id": prompt_id,
                    "prompt": prompt,
                }
            )
        by_path = sorted(found, key=lambda edit: str(edit["path"]))
        return sorted(by_path, key=lambda edit: edit["key"], reverse=True)

    def _matching(self, dates: tuple[int, int] | None) -> list[dict[str, Any]]:
        return [s for s in self.scope if self._matches(s, dates)]

    def _matches(self, session: dict[str, Any], dates: tuple[int, int] | None) -> bool:
        documents = [d for d in self.documents if d["session_id"] == session["id"]]
        for word in self.question.excluded:
            if any(word.lower() in d["text"].lower() for d in documents):
                return False
        if self.question.path is not None and not any(
            self._is_path(e["path"])
            for e in self.edits
            if self._document(e["document_id"])["session_id"] == session["id"]
        ):
            return False
        if not self.question.words and dates is not None:
            return any(self._admits(d, dates) for d in documents)
        return all(
            any(self._admits(d, dates) and self._holds(d, word) for d in documents)
            for word in self.question.words
        )

    def _hits(self, session: dict[str, Any]) -> list[tuple[str, str | None, str]]:
        hits = []
        for word in self.question.words:
            holding = [
                d
                for d in self.documents
                if d["session_id"] == session["id"]
                and self._admits(d, self.question.dates)
                and self._holds(d, word)
            ]
            messages = [d for d in holding if d["role"] != "title"]
            first = next(iter([*filter(self._is_said, messages), *messages, *holding]))
            hits.append((word, first["message_id"] or None, first["role"]))
        return hits

    def _is_said(self, document: dict[str, Any]) -> bool:
        kinds = [p["kind"] for p in self.parts if p["document_id"] == document["id"]]
        return "summary" not in kinds

    def _admits(self, document: dict[str, Any], dates: tuple[int, int] | None) -> bool:
        if self.question.role and document["role"] not in (self.question.role, "title"):
            return False
        return dates is None or _between(document, dates)

    def _holds(self, document: dict[str, Any], word: str) -> bool:
        text = document["text"]
        if self.question.role:
            text = text[: document["own_length"]]
        return word.lower() in text.lower()

    def _is_path(self, path: str) -> bool:
        wanted = self.question.path
        if wanted is None or path == wanted:
            return True
        return not wanted.startswith("/") and path.endswith("/" + wanted)

    def _in_scope(self, session: dict[str, Any]) -> bool:
        if self.question.directory is not None:
            if session["project_id"] in (None, "global"):
                return self._is_below(session)
            return any(
                self._is_below(s) and s["project_id"] == session["project_id"]
                for s in self.sessions
            )
        return self.question.projects is None or session["project_id"] in self.question.projects

    def _is_below(self, session: dict[str, Any]) -> bool:
        directory, top = session["directory"], self.question.directory
        return directory is not None and (directory == top or directory.startswith(f"{top}/"))

    def _document(self, document_id: int) -> dict[str, Any]:
        return next(d for d in self.documents if d["id"] == document_id)

    def _edit_key(self, edit: dict[str, Any]) -> tuple[int, int, int, int]:
        document = self._document(edit["document_id"])
        return (edit["timestamp"], document["copied"], document["seq"], document["id"])

    def _is_first(self, edit: dict[str, Any]) -> bool:
        in_scope = {s["id"] for s in self.scope}
        return not any(
            other["path"] == edit["path"]
            and self._document(other["document_id"])["session_id"] in in_scope
            and self._edit_key(other) < self._edit_key(edit)
            for other in self.edits
        )

    def _prompt(self, document: dict[str, Any]) -> tuple[str | None, str | None]:
        for d in reversed(self.documents):
            if (d["session_id"], d["role"]) != (document["session_id"], "user"):
                continue
            texts = [
                d["text"][p["start"] : p["start"] + p["length"]]
                for p in self.parts
                if p["document_id"] == d["id"]
                and p["kind"] == "text"
                and p["length"]
                and p["start"] + p["length"] <= d["own_length"]
            ]
            if d["seq"] < document["seq"] and texts:
                return d["message_id"], "\n".join(texts)[:300]
        return None, None


def _between(row: dict[str, Any], dates: tuple[int, int]) -> bool:
    return bool(dates[0] <= row["timestamp"] <= dates[1])


def _rows(conn: sqlite3.Connection, sql: str) -> list[dict[str, Any]]:
    cursor = conn.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
