"""A session, or one message, as a document of its own: Markdown for people, JSON for programs."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC
from itertools import groupby
from typing import Any, Final

from datasette_history.pages.blocks import LABELS
from datasette_history.pages.code import language_of
from datasette_history.pages.conversation import Message, Part, load_messages, position
from datasette_history.pages.overview import Overview, load_overview
from datasette_history.pages.shown import day_and_time, duration, money, one_line
from datasette_history.render import UrlFor, iso, resume_command, session_json

_ALL = "SELECT id FROM documents WHERE session_id = ? AND seq >= 0 ORDER BY seq"
_ONE = "SELECT id FROM documents WHERE session_id = ? AND seq = ?"

_BACKTICKS: Final = re.compile("`+")

_QUOTED: Final = {
    "reasoning": "Reasoning",
    "summary": "Summary of the conversation so far",
    "subtask": "Prompt for a subagent",
    "synthetic": "Added by OpenCode",
    "error": "Error",
    "retry": "Retried",
    "file": "Attached",
    "agent": "Agent",
    "path": "Changed",
}

BATCH: Final = 500
"""Messages that are read at once."""


def export_markdown(conn: sqlite3.Connection, session_id: str, message_id: str | None) -> str:
    """Return a session as Markdown, or with message_id what that message says.

    Raises NotInIndex where either is not indexed.
    """
    if message_id is not None:
        return "\n\n".join(_body(next(_messages(conn, session_id, message_id)))) + "\n"
    pieces = list(_head(load_overview(conn, session_id)))
    for message in _messages(conn, session_id, None):
        pieces.append(_heading(message))
        pieces.extend(_body(message))
    return "\n\n".join(pieces) + "\n"


def export_json(
    conn: sqlite3.Connection, session_id: str, message_id: str | None, url_for: UrlFor
) -> dict[str, Any]:
    """Return a session, or with message_id that message of it, as JSON-safe values.

    Times are milliseconds since the epoch, with an ISO text beside those of the session and
    its messages; costs are US dollars. A part's text is exactly what was said or done.
    """
    overview = load_overview(conn, session_id)
    return {
        "ok": True,
        **session_json(overview.session, url_for),
        "created": overview.created_ms,
        "createdISO": iso(overview.created_ms),
        "version": overview.version,
        "agent": overview.agent,
        "provider": overview.provider,
        "model": overview.model,
        "parentID": overview.parent.id if overview.parent else None,
        "childIDs": [child.session_id for child in overview.children],
        "forkIDs": [fork.id for fork in overview.forks],
        "copies": [
            {
                "kind": copy.kind,
                "location": copy.location,
                "holds": copy.holds,
                "activity": copy.activity_ms,
                "activityISO": iso(copy.activity_ms),
                "indexed": copy.indexed,
            }
            for copy in overview.copies
        ],
        "cost": {
            "own": overview.own_cost,
            "total": overview.total_cost,
            "recorded": overview.recorded_cost,
            "difference": overview.cost_difference,
            "notPriced": overview.not_priced,
        },
        "tokens": {"own": overview.own_tokens, "total": overview.total_tokens},
        "todos": [
            {"content": todo.content, "status": todo.status, "priority": todo.priority}
            for todo in overview.todos
        ],
        "files": [path for path, _, _ in overview.files],
        "messages": [
            _message_json(message, session_id, url_for)
            for message in _messages(conn, session_id, message_id)
        ],
    }


def _messages(
    conn: sqlite3.Connection, session_id: str, message_id: str | None
) -> Iterator[Message]:
    if message_id is None:
        rows = conn.execute(_ALL, (session_id,)).fetchall()
    else:
        seq = position(conn, session_id, message_id)
        rows = conn.execute(_ONE, (session_id, seq)).fetchall()
    ids = [document_id for (document_id,) in rows]
    for start in range(0, len(ids), BATCH):
        yield from load_messages(conn, ids[start : start + BATCH])


def _message_json(message: Message, session_id: str, url_for: UrlFor) -> dict[str, Any]:
    usage = message.usage
    return {
        "messageID": message.message_id,
        "role": message.role,
        "timestamp": message.timestamp_ms,
        "timestampISO": iso(message.timestamp_ms),
        "agent": message.agent,
        "provider": message.provider,
        "model": message.model,
        "cost": usage.cost,
        "tokens": {
            "input": usage.input,
            "output": usage.output,
            "reasoning": usage.reasoning,
            "cacheRead": usage.cache_read,
            "cacheWrite": usage.cache_write,
        },
        "finish": message.finish,
        "copied": message.copied,
        "reverted": message.reverted,
        "onlyIn": message.only_in,
        "url": url_for(session_id, message.message_id),
        "parts": [
            {
                "kind": part.kind,
                "own": part.own,
                "call": part.call,
                "name": part.name,
                "title": part.title,
                "status": part.status,
                "started": part.started_ms,
                "ended": part.ended_ms,
                "onlyIn": part.only_in,
                "text": part.text,
            }
            for part in message.parts
        ],
    }


def _head(overview: Overview) -> Iterator[str]:
    session = overview.session
    yield f"# {one_line(session.title) or session.id}"
    facts = {
        "Session": session.id,
        "Directory": session.directory,
        "Project": session.project_id,
        "Agent": overview.agent,
        "Model": "/".join(filter(None, (overview.provider, overview.model))),
        "Created": f"{day_and_time(overview.created_ms, UTC)} UTC",
        "Last activity": f"{day_and_time(session.updated_ms, UTC)} UTC",
        "Cost": money(overview.total_cost),
        "Subagent of": overview.parent.id if overview.parent else None,
        "Forked from": session.copy_of,
        "Continue": resume_command(session),
    }
    yield "\n".join(f"- {name}: {_code_span(value)}" for name, value in facts.items() if value)


def _heading(message: Message) -> str:
    label = LABELS.get(message.role, message.role)
    marks = [name for name in ("copied", "reverted") if getattr(message, name)]
    flags = f" ({', '.join(marks)})" if marks else ""
    return f"## {label}, {day_and_time(message.timestamp_ms, UTC)}{flags}"


def _body(message: Message) -> Iterator[str]:
    for call, group in groupby(message.parts, lambda part: part.call):
        parts = list(group)
        if call is None:
            yield from (_piece(part) for part in parts if part.text.strip())
        else:
            yield from _call(parts)


def _piece(part: Part) -> str:
    if part.kind == "text" and part.own:
        return part.text.strip("\n")
    if part.kind in ("command", "output"):
        return _fence(part.text, "console" if part.kind == "command" else "")
    label = _QUOTED.get(part.kind, "Added by OpenCode" if part.kind == "text" else part.kind)
    quoted = "\n".join(f"> {line}".rstrip() for line in part.text.strip("\n").split("\n"))
    return f"> **{label}**\n>\n{quoted}"


def _call(rows: Sequence[Part]) -> Iterator[str]:
    tool = next((row for row in rows if row.kind == "tool"), rows[0])
    took = ""
    if tool.started_ms is not None and tool.ended_ms is not None:
        took = duration(tool.ended_ms - tool.started_ms)
    about = ", ".join(filter(None, (tool.status, took)))
    yield f"**Tool {_code_span(tool.text or tool.name or 'tool')}**" + (
        f" ({about})" if about else ""
    )
    inputs = {row.name or "": row.text for row in rows if row.kind == "input"}
    path = next((v for k, v in inputs.items() if k in ("filePath", "path")), "")
    for key, value in inputs.items():
        if "\n" in value:
            yield f"{_code_span(key)}:"
            yield _fence(value, (language_of(path) or "") if path else "")
        else:
            yield f"{_code_span(key)}: {_code_span(value)}"
    for row in rows:
        if row.kind in ("output", "error") and row.text:
            yield "Error:" if row.kind == "error" else "Output:"
            yield _fence(row.text, "")


def _fence(text: str, language: str) -> str:
    """Return a fenced block whose fence is longer than any inside."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def _code_span(text: str) -> str:
    """Return text as it is, in Markdown, on one line."""
    line = " ".join(text.split("\n"))
    longest = max((len(run) for run in _BACKTICKS.findall(line)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"
