"""What stands around a conversation: the session's facts, its family, and its prompts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from datasette_history.pages.calls import Child, Todo
from datasette_history.pages.shown import one_line, visible
from datasette_history.read import find_session
from datasette_history.results import SessionInfo
from datasette_history.schema import session_range
from datasette_history.sessions import load_sessions

MAX_FAMILY: Final = 200
"""Subagents, and forks, that are listed."""

MAX_FILES: Final = 300

_FACTS = """
SELECT s.slug, s.version, s.agent, s.provider, s.model, s.created, s.additions, s.deletions,
  s.files_changed, s.share_url, s.parent_id, s.forked_from, p.directory, p.name, o.kind, o.location
FROM sessions s
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN sources o ON o.id = s.source_id
WHERE s.id = ?
"""

_SPENT = """
WITH RECURSIVE below(id) AS (
  VALUES (:session_id) UNION SELECT c.id FROM below b JOIN sessions c ON c.parent_id = b.id
)
SELECT sum(d.cost) FILTER (WHERE d.session_id = :session_id), sum(d.cost),
  sum(coalesce(d.tokens_input, 0) + coalesce(d.tokens_output, 0) + coalesce(d.tokens_reasoning, 0)
    + coalesce(d.tokens_cache_read, 0) + coalesce(d.tokens_cache_write, 0))
    FILTER (WHERE d.session_id = :session_id),
  sum(coalesce(d.tokens_input, 0) + coalesce(d.tokens_output, 0) + coalesce(d.tokens_reasoning, 0)
    + coalesce(d.tokens_cache_read, 0) + coalesce(d.tokens_cache_write, 0)),
  count(*) FILTER (WHERE coalesce(d.cost, 0) = 0 AND coalesce(d.tokens_input, 0)
    + coalesce(d.tokens_output, 0) + coalesce(d.tokens_cache_read, 0)
    + coalesce(d.tokens_cache_write, 0) > 0)
FROM below b JOIN documents d ON d.session_id = b.id WHERE d.copied = 0
"""

_RECORDED = """
SELECT nullif(s.cost, 0), round(nullif(s.cost, 0) - coalesce(sum(d.cost), 0), 6)
FROM sessions s LEFT JOIN documents d ON d.session_id = s.id WHERE s.id = ?
"""

_COPIES = """
SELECT o.kind, o.location, c.holds, c.activity, o.id = s.source_id
FROM session_copies c JOIN sources o ON o.id = c.source_id JOIN sessions s ON s.id = c.session_id
WHERE c.session_id = ? ORDER BY o.id = s.source_id DESC, c.activity DESC, o.id
"""

_CHILDREN = """
SELECT id, title, created FROM sessions WHERE parent_id = ? ORDER BY created, id LIMIT ?
"""

_FORKS = "SELECT num FROM sessions WHERE forked_from = ? ORDER BY created, id LIMIT ?"

_NUM = "SELECT num FROM sessions WHERE id = ?"

_TODOS = "SELECT status, content, priority FROM todos WHERE session_id = ? ORDER BY position"

_FILES = """
SELECT path, count(*), max(tool IS NOT NULL) FROM document_paths
WHERE document_id BETWEEN ? AND ? GROUP BY path ORDER BY max(timestamp) DESC, path LIMIT ?
"""

_LINES = """
SELECT message_id, seq, role, timestamp, cost,
  coalesce(tokens_input, 0) + coalesce(tokens_output, 0) + coalesce(tokens_reasoning, 0)
    + coalesce(tokens_cache_read, 0) + coalesce(tokens_cache_write, 0),
  copied, reverted, id, own_length
FROM documents WHERE session_id = ? AND seq >= 0 ORDER BY seq
"""

_PROMPTS = """
SELECT d.id, substr(d.text, t.start + 1, min(t.length, 400))
FROM json_each(:ids) wanted
CROSS JOIN documents d ON d.id = wanted.value
CROSS JOIN parts t ON t.document_id = d.id
WHERE t.kind = 'text' AND t.length > 0 AND t.start + t.length <= d.own_length
ORDER BY d.id, t.seq
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the user said, and what the answers to it took, up to the next prompt.

    answers: messages of the assistant. cost in US dollars, None where none is known.
    """

    message_id: str
    seq: int
    text: str
    timestamp_ms: int
    answers: int
    cost: float | None
    tokens: int
    copied: bool
    reverted: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """One source's copy of the session. holds: its generations, such as ``v1 v2``."""

    kind: str
    location: str
    holds: str
    activity_ms: int
    indexed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything about a session but its messages. Costs are US dollars, None where unknown.

    own_*: of its messages without those a fork copied; total_*: with all subagents below.
    recorded_cost: what OpenCode noted for the session, copied messages included;
        cost_difference: what that is over the sum of them. None where nothing is noted.
    not_priced: answers, with all subagents', that have tokens and no cost.
    copies: the sources that hold it, that of the indexed copy first.
    parent: None where there is none or it is not indexed.
    """

    session: SessionInfo
    slug: str | None
    version: str | None
    agent: str | None
    provider: str | None
    model: str | None
    created_ms: int
    additions: int | None
    deletions: int | None
    files_changed: int | None
    share_url: str | None
    project_directory: str | None
    project_name: str | None
    source_kind: str | None
    source_location: str | None
    parent: SessionInfo | None
    original: SessionInfo | None
    forks: Sequence[SessionInfo]
    children: Sequence[Child]
    own_cost: float | None
    total_cost: float | None
    own_tokens: int
    total_tokens: int
    recorded_cost: float | None
    cost_difference: float | None
    not_priced: int
    copies: Sequence[Copy]
    messages: int
    prompts: Sequence[Prompt]
    todos: Sequence[Todo]
    files: Sequence[tuple[str, int, bool]]


def load_overview(conn: sqlite3.Connection, session_id: str) -> Overview:
    """Return what is known of a session; raise NotInIndex where there is none of that id."""
    session = find_session(conn, session_id)
    (slug, version, agent, provider, model, created, additions, deletions, files_changed, share_url,
     parent_id, forked_from, directory, name, kind, location
    ) = conn.execute(_FACTS, (session_id,)).fetchone()  # fmt: skip
    own, total, own_tokens, total_tokens, not_priced = conn.execute(
        _SPENT, {"session_id": session_id}
    ).fetchone()
    recorded, noted = conn.execute(_RECORDED, (session_id,)).fetchone()
    lines = conn.execute(_LINES, (session_id,)).fetchall()
    low, high = session_range(session.num)
    forks = [num for (num,) in conn.execute(_FORKS, (session_id, MAX_FAMILY))]
    return Overview(
        session=session,
        slug=slug,
        version=version,
        agent=agent,
        provider=provider,
        model=model,
        created_ms=created,
        additions=additions,
        deletions=deletions,
        files_changed=files_changed,
        share_url=share_url,
        project_directory=directory,
        project_name=name,
        source_kind=kind,
        source_location=location,
        parent=_relative(conn, parent_id),
        original=_relative(conn, forked_from),
        forks=list(load_sessions(conn, forks).values()),
        children=load_children(conn, session_id),
        own_cost=own,
        total_cost=total,
        own_tokens=own_tokens or 0,
        total_tokens=total_tokens or 0,
        recorded_cost=recorded,
        cost_difference=noted,
        not_priced=not_priced,
        copies=[
            Copy(kind, location, holds, activity, bool(indexed))
            for kind, location, holds, activity, indexed in conn.execute(_COPIES, (session_id,))
        ],
        messages=len(lines),
        prompts=_prompts(conn, lines),
        todos=[
            Todo(one_line(status or ""), visible(content), one_line(priority or ""))
            for status, content, priority in conn.execute(_TODOS, (session_id,))
        ],
        files=[(p, n, bool(by)) for p, n, by in conn.execute(_FILES, (low, high, MAX_FILES))],
    )


def load_children(conn: sqlite3.Connection, session_id: str) -> list[Child]:
    """Return the sessions that a session started, oldest first."""
    rows = conn.execute(_CHILDREN, (session_id, MAX_FAMILY))
    return [Child(session_id=i, title=title, created_ms=created) for i, title, created in rows]


def _relative(conn: sqlite3.Connection, session_id: str | None) -> SessionInfo | None:
    row = conn.execute(_NUM, (session_id,)).fetchone() if session_id else None
    return load_sessions(conn, [row[0]])[row[0]] if row else None


def _prompts(conn: sqlite3.Connection, lines: Sequence[Sequence[Any]]) -> list[Prompt]:
    """Return the prompts, each with the sums of what follows it."""
    asked = [line[8] for line in lines if line[2] == "user" and line[9] > 0]
    texts: dict[int, str] = {}
    for document_id, text in conn.execute(_PROMPTS, {"ids": json.dumps(asked)}):
        texts.setdefault(document_id, one_line(text, 120))
    starts = [place for place, line in enumerate(lines) if line[8] in texts]
    return [
        _prompt(lines[start:end], texts[lines[start][8]])
        for start, end in pairwise([*starts, len(lines)])
    ]


def _prompt(lines: Sequence[Sequence[Any]], text: str) -> Prompt:
    message_id, seq, _, timestamp, _, _, copied, reverted, _, _ = lines[0]
    costs = [line[4] for line in lines if line[4] is not None]
    return Prompt(
        message_id=message_id,
        seq=seq,
        text=text,
        timestamp_ms=timestamp,
        answers=sum(line[2] == "assistant" for line in lines),
        cost=sum(costs) if costs else None,
        tokens=sum(line[5] for line in lines),
        copied=bool(copied),
        reverted=bool(reverted),
    )
