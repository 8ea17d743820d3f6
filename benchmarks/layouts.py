"""The two table layouts of OpenCode, written from a generated history.

Columns and keys are those of recorded databases (V1: 1.18; V2: 2.x). Each writer turns one
session into the values for `executemany`; texts that a search must not see twice, such as
the diff in an edit's metadata, are there as in real rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from random import Random
from typing import Any, Final, Protocol

import orjson

from benchmarks.history import Call, Plan, Project, Turn

DDL_PROJECT: Final = """
CREATE TABLE project (
  id text PRIMARY KEY, worktree text NOT NULL, vcs text, name text, icon_url text,
  icon_url_override text, icon_color text, time_created integer NOT NULL,
  time_updated integer NOT NULL, time_initialized integer, sandboxes text NOT NULL, commands text
);
"""
SESSION_COLUMNS: Final = """
  id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text,
  slug text NOT NULL, directory text NOT NULL, path text, title text{title}, version text NOT NULL,
  share_url text, summary_additions integer, summary_deletions integer, summary_files integer,
  summary_diffs text, metadata text, cost real DEFAULT 0 NOT NULL,
  tokens_input integer DEFAULT 0 NOT NULL, tokens_output integer DEFAULT 0 NOT NULL,
  tokens_reasoning integer DEFAULT 0 NOT NULL, tokens_cache_read integer DEFAULT 0 NOT NULL,
  tokens_cache_write integer DEFAULT 0 NOT NULL, revert text, permission text, agent text,
  model text, time_created integer NOT NULL, time_updated integer NOT NULL,
  time_compacting integer, time_archived integer{more}
"""
DDL_V1: Final = f"""{DDL_PROJECT}
CREATE TABLE session ({SESSION_COLUMNS.format(title=" NOT NULL", more="")});
CREATE TABLE message (
  id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL
);
CREATE TABLE part (
  id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE TABLE todo (
  session_id text NOT NULL, content text NOT NULL, status text NOT NULL, priority text NOT NULL,
  position integer NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL,
  PRIMARY KEY (session_id, position)
);
CREATE INDEX session_project_idx ON session (project_id);
CREATE INDEX session_parent_idx ON session (parent_id);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);
CREATE INDEX todo_session_idx ON todo (session_id);
"""
FORK_COLUMNS: Final = (
    ", fork_session_id text, fork_boundary text, time_idle integer, time_viewed integer,"
    " idle_outcome text, time_suspended integer, resume_attempts integer"
)
DDL_V2: Final = f"""{DDL_PROJECT}
CREATE TABLE session_v2 ({SESSION_COLUMNS.format(title="", more=FORK_COLUMNS)});
CREATE TABLE session_message (
  id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE TABLE todo (
  session_id text NOT NULL, content text NOT NULL, status text NOT NULL, priority text NOT NULL,
  position integer NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL,
  PRIMARY KEY (session_id, position)
);
CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO kv VALUES ('migration.v1-v2', '{{"phase":"completed"}}');
CREATE INDEX session_v2_project_idx ON session_v2 (project_id);
CREATE INDEX session_message_time_created_idx ON session_message (time_created);
CREATE UNIQUE INDEX session_message_session_seq_idx ON session_message (session_id, seq);
CREATE INDEX session_message_session_type_seq_idx ON session_message (session_id, type, seq);
"""
ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MODEL: Final = {"providerID": "fake", "modelID": "m"}
TODO_STATES: Final = ("completed", "in_progress", "pending")

Rows = dict[str, list[tuple[Any, ...]]]
"""By table: the rows to insert, in the table's order of columns."""


class Layout(Protocol):
    """A way to store a session."""

    ddl: str

    def rows(self, plan: Plan, turns: Iterable[Turn], ids: Ids) -> Rows: ...


class Ids:
    """Ids as OpenCode makes them: a kind, 12 hex digits that grow, and a random tail."""

    def __init__(self, seed: int) -> None:
        self._counter = count(1)
        self._rng = Random(f"ids {seed}")

    @staticmethod
    def session(number: int) -> str:
        """Return the id of the session with that number, the same in every layout."""
        tail = "".join(Random(f"session {number}").choices(ALPHABET, k=14))
        return f"ses_{0xDD0000000000 - number:012x}{tail}"

    def make(self, kind: str) -> str:
        tail = self._rng.getrandbits(56)
        return f"{kind}_{0x22F000000000 + next(self._counter):012x}{tail:014x}"


def project_row(project: Project, created_ms: int) -> tuple[Any, ...]:
    vcs = None if project.id == "global" else "git"
    sandboxes = _json(list(project.sandboxes))
    return (project.id, project.worktree, vcs, project.name, None, None, None, created_ms,
            created_ms, None, sandboxes, None)  # fmt: skip


class V1:
    """Tables session, message, part and todo."""

    ddl = DDL_V1

    def rows(self, plan: Plan, turns: Iterable[Turn], ids: Ids) -> Rows:
        session_id = ids.session(plan.number)
        messages: list[tuple[Any, ...]] = []
        parts: list[tuple[Any, ...]] = []
        question, last = "", plan.created_ms
        for turn in turns:
            message_id = ids.make("msg")
            if turn.role == "user":
                data: dict[str, object] = _v1_user(turn)
                question = message_id
            else:
                data = _v1_assistant(turn, plan, question)
            messages.append(
                (message_id, session_id, turn.created_ms, turn.completed_ms, _json(data))
            )
            times = (turn.created_ms, turn.completed_ms)
            parts += [
                (ids.make("prt"), message_id, session_id, *times, _json(part))
                for part in _v1_parts(turn, plan)
            ]
            last = turn.completed_ms
        session = _session_row(plan, session_id, last, MODEL)
        return {
            "session": [session],
            "message": messages,
            "part": parts,
            "todo": _todo_rows(plan, session_id, last),
        }


class V2:
    """Tables session_v2 and session_message, a whole message to a row."""

    ddl = DDL_V2

    def rows(self, plan: Plan, turns: Iterable[Turn], ids: Ids) -> Rows:
        session_id = ids.session(plan.number)
        messages: list[tuple[Any, ...]] = []
        seq, last = 3, plan.created_ms
        for turn in turns:
            data = _v2_user(turn) if turn.role == "user" else _v2_assistant(turn, plan)
            messages.append((ids.make("msg"), session_id, turn.role, seq, turn.created_ms,
                             turn.completed_ms, _json(data)))  # fmt: skip
            seq += 1 + len(turn.pieces)
            last = turn.completed_ms
        model = {"id": "m", "providerID": "fake"}
        fork = (None, None, last, None, None, None, None)
        return {
            "session_v2": [_session_row(plan, session_id, last, model) + fork],
            "session_message": messages,
            "todo": _todo_rows(plan, session_id, last),
        }


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _session_row(plan: Plan, session_id: str, last: int, model: dict[str, str]) -> tuple[Any, ...]:
    parent = None if plan.parent is None else Ids.session(plan.parent)
    archived = last if plan.number % 23 == 0 else None
    return (
        session_id, plan.project.id, None, parent, f"slug-{plan.number}", plan.directory, None,
        plan.title, "1.18.33", None, plan.turns, plan.turns // 2, 1 + plan.turns // 40, None, None,
        round(plan.turns * 0.0021, 6), plan.turns * 900, plan.turns * 80, plan.turns * 5,
        plan.turns * 850, 0, None, None, "build", _json(model), plan.created_ms, last, None,
        archived,
    )  # fmt: skip


def _todo_rows(plan: Plan, session_id: str, last: int) -> list[tuple[Any, ...]]:
    if plan.number % 3:
        return []
    return [
        (session_id, f"{state} step of {plan.title}", state, "high", position, last, last)
        for position, state in enumerate(TODO_STATES)
    ]


def _tokens() -> dict[str, object]:
    return {"input": 900, "output": 80, "reasoning": 5, "cache": {"read": 850, "write": 0}}


def _v1_user(turn: Turn) -> dict[str, object]:
    return {
        "role": "user", "time": {"created": turn.created_ms}, "agent": "build", "model": MODEL,
        "summary": {"diffs": []},
    }  # fmt: skip


def _v1_assistant(turn: Turn, plan: Plan, question: str) -> dict[str, object]:
    return {
        "parentID": question, "role": "assistant", "mode": "build", "agent": "build",
        "path": {"cwd": plan.directory, "root": plan.project.worktree}, "cost": 0.0021,
        "tokens": _tokens(), **MODEL,
        "time": {"created": turn.created_ms, "completed": turn.completed_ms}, "finish": "stop",
    }  # fmt: skip


def _v1_parts(turn: Turn, plan: Plan) -> Iterable[dict[str, object]]:
    time = {"start": turn.created_ms, "end": turn.completed_ms}
    if turn.role == "user":
        yield {"type": "text", "text": "\n".join(turn.texts())}
        return
    yield {"type": "step-start", "snapshot": f"{turn.created_ms:040x}"}
    edited: list[str] = []
    for number, piece in enumerate(turn.pieces):
        if not isinstance(piece, Call):
            yield {"type": piece[0], "text": piece[1], "time": time}
            continue
        call_id = f"call_{turn.created_ms:x}{number:02x}"
        yield {"type": "tool", "tool": piece.tool, "callID": call_id,
               "state": _v1_state(piece, time)}  # fmt: skip
        if piece.edited is not None:
            edited.append(piece.edited)
    yield {"type": "step-finish", "reason": "stop", "tokens": _tokens(), "cost": 0.0021}
    if edited:
        yield {"type": "patch", "hash": f"{turn.created_ms:040x}", "files": edited}


def _v1_state(call: Call, time: dict[str, int]) -> dict[str, object]:
    if call.failed:
        return {"status": "error", "input": dict(call.input), "error": call.output, "time": time}
    metadata: dict[str, object] = {"truncated": False}
    if call.tool == "edit":
        diff = _diff(call)
        metadata = {"diff": diff, "filediff": {"file": call.edited, "patch": diff}}
    elif call.tool == "write":
        metadata = {"filepath": call.edited, "exists": True}
    elif call.tool == "bash":
        metadata = {"output": call.output[:2_000], "exit": 0}
    title = next(iter(call.input.values()))[:80]
    return {"status": "completed", "input": dict(call.input), "output": call.output,
            "metadata": metadata, "title": title, "time": time}  # fmt: skip


def _diff(call: Call) -> str:
    old = call.input["oldString"][:1_500].replace("\n", "\n-")
    new = call.input["newString"][:1_500].replace("\n", "\n+")
    return f"Index: {call.edited}\n@@ -1,9 +1,9 @@\n-{old}\n+{new}\n"


def _v2_user(turn: Turn) -> dict[str, object]:
    return {"time": {"created": turn.created_ms}, "text": "\n".join(turn.texts())}


def _v2_assistant(turn: Turn, plan: Plan) -> dict[str, object]:
    content: list[dict[str, object]] = []
    edited: list[str] = []
    time = {"created": turn.created_ms, "completed": turn.completed_ms}
    for number, piece in enumerate(turn.pieces):
        if not isinstance(piece, Call):
            content.append({"type": piece[0], "id": f"{piece[0]}-{number}", "text": piece[1]})
            continue
        content.append(
            {"type": "tool", "id": f"call_{turn.created_ms:x}{number:02x}", "name": piece.tool,
             "state": _v2_state(piece, plan), "time": {**time, "ran": turn.created_ms}}
        )  # fmt: skip
        if piece.edited is not None:
            edited.append(piece.edited.removeprefix(f"{plan.directory}/"))
    return {
        "time": time, "agent": "build", "model": {"id": "m", "providerID": "fake"},
        "content": content, "snapshot": {"start": "0" * 40, "end": "0" * 40, "files": edited},
        "finish": "stop", "cost": 0.0021, "tokens": _tokens(),
    }  # fmt: skip


def _v2_state(call: Call, plan: Plan) -> dict[str, object]:
    given = dict(call.input)
    if "filePath" in given:
        path = given.pop("filePath").removeprefix(f"{plan.directory}/")
        given = {"path": path, **given}
    if call.failed:
        error = {"type": "tool", "message": call.output}
        return {"status": "error", "input": given, "error": error, "content": []}
    state: dict[str, object] = {
        "status": "completed", "input": given, "content": [{"type": "text", "text": call.output}],
    }  # fmt: skip
    if call.tool == "edit":
        state["metadata"] = {"files": [{"file": given["path"], "status": "modified"}]}
    return state
