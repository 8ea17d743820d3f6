"""Real OpenCode stores for tests: SQLite files with the tables of each generation, JSON trees."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.builders import T0

Json = dict[str, Any]

_SESSION = """
  id text PRIMARY KEY, project_id text, parent_id text, slug text, directory text, title text,
  version text, share_url text, summary_additions integer, summary_deletions integer,
  summary_files integer, summary_diffs text, revert text, permission text,
  time_created integer, time_updated integer, time_compacting integer, time_archived integer
"""
_LATER = """,
  workspace_id text, path text, agent text, model text, metadata text,
  cost real DEFAULT 0 NOT NULL, tokens_input integer DEFAULT 0 NOT NULL,
  tokens_output integer DEFAULT 0 NOT NULL, tokens_reasoning integer DEFAULT 0 NOT NULL,
  tokens_cache_read integer DEFAULT 0 NOT NULL, tokens_cache_write integer DEFAULT 0 NOT NULL
"""
_V2_SESSION = """,
  fork_session_id text, fork_boundary text, time_idle integer, time_viewed integer,
  idle_outcome text, time_suspended integer, resume_attempts integer
"""
_MESSAGES = """
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer,
  time_updated integer, data text);
CREATE INDEX message_session_idx ON message (session_id);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text,
  time_created integer, time_updated integer, data text);
CREATE INDEX part_message_idx ON part (message_id);
CREATE INDEX part_session_idx ON part (session_id);
CREATE TABLE todo (session_id text, content text, status text, priority text, position integer,
  time_created integer, time_updated integer, PRIMARY KEY (session_id, position));
"""
_PROJECT = """
CREATE TABLE IF NOT EXISTS project (id text PRIMARY KEY, worktree text, vcs text, name text,
  time_created integer, time_updated integer, sandboxes text);
"""
_V2_MESSAGES = """
CREATE TABLE session_message (id text PRIMARY KEY, session_id text, type text, seq integer,
  time_created integer, time_updated integer, data text);
CREATE INDEX session_message_session_seq_idx ON session_message (session_id, seq);
CREATE TABLE session_input (id text PRIMARY KEY, session_id text, prompt text, delivery text,
  admitted_seq integer, promoted_seq integer, time_created integer);
"""

LAYOUTS = {
    "1.2": f"CREATE TABLE session ({_SESSION});{_MESSAGES}{_PROJECT}",
    "1.18": f"CREATE TABLE session ({_SESSION}{_LATER});{_MESSAGES}{_PROJECT}",
    # Released 2.x, beside the tables of V1.
    "2": f"CREATE TABLE session_v2 ({_SESSION}{_LATER}{_V2_SESSION});{_V2_MESSAGES}{_PROJECT}"
    "CREATE TABLE kv (key text PRIMARY KEY, value text);",
    # Builds before the release: V2's columns and rows, but the table is still `session`.
    "preview": f"CREATE TABLE session ({_SESSION}{_LATER}{_V2_SESSION});{_V2_MESSAGES}{_PROJECT}",
    # 1.14 writes every message here, too.
    "mirror": "CREATE TABLE session_message (id text PRIMARY KEY, session_id text, type text, "
    "time_created integer, time_updated integer, data text);",
    "secrets": "CREATE TABLE account (id text, token text); CREATE TABLE credential (value text);"
    "CREATE TABLE event (id text, data text); CREATE TABLE event_sequence (aggregate_id text);",
}


class Database:
    """An OpenCode database being filled; leaving the block commits and closes it.

    wal: leave what was written in the -wal, as a running OpenCode does.
    """

    def __init__(self, path: Path, *layouts: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.conn = sqlite3.connect(path, isolation_level=None)
        self.conn.execute("PRAGMA journal_mode = WAL")
        for layout in layouts:
            self.conn.executescript(LAYOUTS[layout])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: object, _tb: TracebackType | None
    ) -> None:
        self.conn.close()

    def insert(self, table: str, **values: object) -> None:
        """Insert a row; objects and arrays become JSON text, everything else is stored as is."""
        encoded = [json.dumps(v) if isinstance(v, dict | list) else v for v in values.values()]
        marks = ", ".join("?" for _ in encoded)
        self.conn.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", encoded)

    def session(
        self, session_id: str, title: str | None = "A session", *, table: str = "session",
        at: int = T0, **values: object,
    ) -> None:  # fmt: skip
        row: Json = {
            "project_id": "prj", "directory": "/home/dev/app", "slug": "brave-fox",
            "version": "1.0", "time_created": at, "time_updated": at,
        }  # fmt: skip
        self.insert(table, id=session_id, title=title, **{**row, **values})

    def message(
        self, message_id: str, session_id: str, role: str, *parts: Json | str, at: int = T0,
        updated: int | None = None, row_at: int | None = None, **data: object,
    ) -> None:  # fmt: skip
        """Insert a message of V1 with its parts; a string is a text part.

        at: its own time; row_at, updated: the row's times, where they differ.
        """
        created = at if row_at is None else row_at
        changed = created if updated is None else updated
        body = {"role": role, "time": {"created": at}, **data}
        self.insert(
            "message", id=message_id, session_id=session_id, time_created=created,
            time_updated=changed, data=body,
        )  # fmt: skip
        for number, part in enumerate(parts):
            self.part(f"{message_id}_p{number}", message_id, session_id, part, at=changed)

    def part(
        self, part_id: str, message_id: str, session_id: str, data: object, *, at: int = T0
    ) -> None:
        if isinstance(data, str):
            data = {"type": "text", "text": data}
        self.insert(
            "part", id=part_id, message_id=message_id, session_id=session_id, time_created=at,
            time_updated=at, data=data,
        )  # fmt: skip

    def v2(
        self, message_id: str, session_id: str, kind: str, seq: int | None, *, at: int = T0,
        updated: int | None = None, **data: object,
    ) -> None:  # fmt: skip
        """Insert a message of V2; seq None where the table has no such column."""
        place = {} if seq is None else {"seq": seq}
        self.insert(
            "session_message", id=message_id, session_id=session_id, type=kind, **place,
            time_created=at, time_updated=at if updated is None else updated,
            data={"time": {"created": at}, **data},
        )  # fmt: skip


class JsonStore:
    """A JSON store being filled below a data directory, as of 0.6 to 1.1."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir / "storage"

    def write(self, name: str, value: object) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = value if isinstance(value, str) else json.dumps(value, indent=2)
        path.write_text(text, encoding="utf-8")
        return path

    def session(
        self, session_id: str, title: str = "A session", *, project: str = "prj", at: int = T0,
        updated: int | None = None, **values: object,
    ) -> Path:  # fmt: skip
        time = {"created": at, "updated": at if updated is None else updated}
        data = {
            "id": session_id, "projectID": project, "directory": "/home/dev/app", "title": title,
            "version": "1.1.53", "slug": "brave-fox", "time": time, **values,
        }  # fmt: skip
        return self.write(f"session/{project}/{session_id}.json", data)

    def message(
        self, message_id: str, session_id: str, role: str, *parts: Json | str, at: int = T0,
        **data: object,
    ) -> Path:  # fmt: skip
        for number, part in enumerate(parts):
            self.part(f"{message_id}_p{number}", message_id, session_id, part)
        body = {
            "id": message_id, "sessionID": session_id, "role": role, "time": {"created": at},
            **data,
        }  # fmt: skip
        return self.write(f"message/{session_id}/{message_id}.json", body)

    def part(self, part_id: str, message_id: str, session_id: str, data: Json | str) -> Path:
        if isinstance(data, str):
            data = {"type": "text", "text": data}
        ids = {"id": part_id, "messageID": message_id, "sessionID": session_id}
        return self.write(f"part/{message_id}/{part_id}.json", {**ids, **data})


def tool(name: str, status: str = "completed", *, id_: str = "call_1", **state: object) -> Json:
    """A tool part of V1."""
    state.setdefault("input", {})
    if status == "completed":
        state.setdefault("output", "")
    return {"type": "tool", "callID": id_, "tool": name, "state": {"status": status, **state}}


def v2_tool(name: str, status: str = "completed", *, id_: str = "call_1", **state: object) -> Json:
    """A tool item in the content of a message of V2."""
    state.setdefault("input", {})
    return {
        "type": "tool", "id": id_, "name": name, "state": {"status": status, **state},
        "time": {"created": T0, "ran": T0 + 10, "completed": T0 + 20},
    }  # fmt: skip


def copied(samples: Path, name: str, to: Path) -> Path:
    """Copy the data directory of a recorded history, so that it can be opened and changed."""
    target = to / name
    shutil.copytree(samples / name / "data", target)
    for path in (target, *target.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return target
