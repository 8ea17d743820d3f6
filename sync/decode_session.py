"""From a session's own record to plain values: the JSON object of V1's files and REST
answers, and the columns of either generation's table.

Pure functions over decoded values of which anything may be missing or of another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sync.message_parts import cost, provider_and_model, tokens
from sync.model import Project, Revert, Session, Todo, Tokens
from sync.values import decode_json, filled, mapping, quantity, sequence, string, time_ms


def session_from_object(session_id: str, data: Mapping[str, object], activity_ms: int) -> Session:
    """Return a session from the object that V1 writes to files and answers over REST."""
    time = mapping(data.get("time"))
    summary = mapping(data.get("summary"))
    provider, model = provider_and_model(data)
    return Session(
        id=session_id,
        title=string(data.get("title")) or "",
        created_ms=time_ms(time.get("created")) or 0,
        updated_ms=activity_ms,
        project_id=filled(data.get("projectID")),
        parent_id=filled(data.get("parentID")),
        directory=filled(data.get("directory")),
        slug=filled(data.get("slug")),
        version=filled(data.get("version")),
        agent=filled(data.get("agent")),
        provider=provider,
        model=model,
        archived_ms=time_ms(time.get("archived")) or None,
        cost=cost(data.get("cost")),
        tokens=tokens(data.get("tokens")),
        additions=quantity(summary.get("additions")),
        deletions=quantity(summary.get("deletions")),
        files_changed=quantity(summary.get("files")),
        share_url=filled(mapping(data.get("share")).get("url")),
        revert=revert(data.get("revert")),
    )


def session_from_columns(session_id: str, row: Mapping[str, object], activity_ms: int) -> Session:
    """Return a session from its table row, texts decoded to str; JSON columns are texts."""
    provider, model = provider_and_model({"model": _json(row.get("model"))})
    return Session(
        id=session_id,
        title=string(row.get("title")) or "",
        created_ms=time_ms(row.get("time_created")) or 0,
        updated_ms=activity_ms,
        project_id=filled(row.get("project_id")),
        parent_id=filled(row.get("parent_id")),
        directory=filled(row.get("directory")),
        slug=filled(row.get("slug")),
        version=filled(row.get("version")),
        agent=filled(row.get("agent")),
        provider=provider,
        model=model,
        archived_ms=time_ms(row.get("time_archived")) or None,
        cost=cost(row.get("cost")),
        tokens=_token_columns(row),
        additions=quantity(row.get("summary_additions")),
        deletions=quantity(row.get("summary_deletions")),
        files_changed=quantity(row.get("summary_files")),
        share_url=filled(row.get("share_url")),
        forked_from=filled(row.get("fork_session_id")),
        revert=revert(_json(row.get("revert"))),
    )


def fill_gaps(session: Session, older: Session) -> Session:
    """Return session with what only an older copy of it knows.

    Archiving and reverting are states, not facts: what the newer copy does not have it lost.
    """
    return replace(
        session,
        title=session.title or older.title,
        created_ms=session.created_ms or older.created_ms,
        project_id=session.project_id or older.project_id,
        parent_id=session.parent_id or older.parent_id,
        directory=session.directory or older.directory,
        slug=session.slug or older.slug,
        version=session.version or older.version,
        agent=session.agent or older.agent,
        provider=session.provider or older.provider,
        model=session.model or older.model,
        cost=older.cost if session.cost is None else session.cost,
        tokens=session.tokens or older.tokens,
        additions=older.additions if session.additions is None else session.additions,
        deletions=older.deletions if session.deletions is None else session.deletions,
        files_changed=(
            older.files_changed if session.files_changed is None else session.files_changed
        ),
        share_url=session.share_url or older.share_url,
        forked_from=session.forked_from or older.forked_from,
    )


def revert(value: object) -> Revert | None:
    data = mapping(value)
    message_id = filled(data.get("messageID"))
    return Revert(message_id=message_id, part_id=filled(data.get("partID"))) if message_id else None


def todo(value: object) -> Todo | None:
    """Return an item of a to-do list; None where it says nothing."""
    data = mapping(value)
    content = filled(data.get("content"))
    if content is None:
        return None
    return Todo(
        content=content,
        status=filled(data.get("status")),
        priority=filled(data.get("priority")),
    )


def project_from_object(project_id: str, data: Mapping[str, object]) -> Project:
    time = mapping(data.get("time"))
    return Project(
        id=project_id,
        directory=filled(data.get("worktree")) or filled(data.get("canonical")),
        name=filled(data.get("name")),
        vcs=filled(data.get("vcs")),
        created_ms=time_ms(time.get("created")),
        updated_ms=time_ms(time.get("updated")),
        sandboxes=_texts(data.get("sandboxes")),
    )


def project_from_columns(project_id: str, row: Mapping[str, object]) -> Project:
    return Project(
        id=project_id,
        directory=filled(row.get("worktree")) or filled(row.get("canonical")),
        name=filled(row.get("name")),
        vcs=filled(row.get("vcs")),
        created_ms=time_ms(row.get("time_created")),
        updated_ms=time_ms(row.get("time_updated")),
        sandboxes=_texts(_json(row.get("sandboxes"))),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for item in sequence(value) if (text := filled(item)))


def _json(value: object) -> object:
    if not isinstance(value, str):
        return None
    try:
        return decode_json(value)
    except ValueError:
        return value


def _token_columns(row: Mapping[str, object]) -> Tokens | None:
    names = ("input", "output", "reasoning", "cache_read", "cache_write")
    found = {name: quantity(row.get(f"tokens_{name}")) for name in names}
    if all(value is None for value in found.values()):
        return None
    return Tokens(**{name: value or 0 for name, value in found.items()})
