"""Answers as JSON: the one place that spells its keys.

Times are milliseconds since the epoch, each beside the same instant as an ISO text in UTC
under the name with ``ISO`` behind it. Keys that say something out of the ordinary
(rootSessionID, archived, cappedFrom, indexing ...) are there only where they apply.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from datasette_history.paths import is_absolute, is_windows
from datasette_history.results import (
    Answer,
    Edit,
    EditList,
    Hit,
    Indexing,
    MessageMatches,
    ProjectList,
    ReadMessage,
    Scope,
    SessionInfo,
    SessionList,
    SessionPage,
)
from datasette_history.status import SourceStatus, Status

UrlFor = Callable[[str, str | None], str | None]
"""From a session id, and a message id or None, to the address of its page."""

Json = dict[str, Any]

MAX_TITLE: Final = 1_000
"""Code points of a title that are shown."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def as_json(answer: Answer, url_for: UrlFor) -> Json:
    """Return an answer as JSON-safe values, ``"ok": true`` first."""
    body: Json = {"ok": True, **_result(answer, url_for)}
    if answer.scope is not None:
        body["scope"] = _scope(answer.scope)
        body |= _where(notes=_notes(answer))
    return body | _where(
        cappedFrom=answer.capped_from,
        indexing=answer.indexing and _indexing(answer.indexing),
    )


def status_json(status: Status) -> Json:
    """Return the index's status as JSON-safe values."""
    return {
        "ok": True,
        "sources": [_source(source) for source in status.sources],
        "counts": {
            "sessions": status.sessions,
            "projects": status.projects,
            "messages": status.messages,
            "edits": status.edits,
            "problems": status.problems,
        },
        "stranded": status.stranded,
        **_time("lastSync", status.last_sync_ms),
        "running": status.indexing is not None and status.indexing.running,
        **_where(indexing=status.indexing and _indexing(status.indexing)),
    }


def error_json(messages: tuple[str, ...], status: int) -> Json:
    """Return the body of an error; status is its HTTP status."""
    return {"ok": False, "error": "; ".join(messages), "errors": list(messages), "status": status}


def session_json(session: SessionInfo, url_for: UrlFor) -> Json:
    """Return what every answer says of a session."""
    return {
        "sessionID": session.id,
        "title": _short(session.title),
        "projectID": session.project_id,
        "directory": session.directory,
        **_time("updated", session.updated_ms),
        "url": url_for(session.id, None),
        **_where(
            rootSessionID=session.root_id,
            stranded=session.stranded,
            copyOf=session.copy_of,
            forks=list(session.forks) or None,
            subagents=list(session.subagents) or None,
            endUser=session.end_user,
            resume=resume_command(session),
        ),
        **(_time("archived", session.archived_ms) if session.archived_ms else {}),
        **(_time("deleted", session.deleted_ms) if session.deleted_ms else {}),
    }


def resume_command(session: SessionInfo) -> str | None:
    """Return the shell command that continues a session in its directory.

    None where the session is gone from its source, or its directory is not known.
    """
    directory = session.directory
    if session.deleted_ms is not None or directory is None or not is_absolute(directory):
        return None
    if is_windows(directory):
        # Windows shells do not agree on an escape for a quote, and no path has one.
        if '"' in directory:
            return None
        quoted = f'"{directory}"'
    else:
        quoted = shlex.quote(directory)
    return f"cd {quoted} && opencode -s {shlex.quote(session.id)}"


def iso(ms: int) -> str | None:
    """Return a time in milliseconds as ISO text in UTC; None for years beyond 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def scope_note(answer: Answer) -> str | None:
    """Return what to say where the named project or path holds no session."""
    scope = answer.scope
    if scope is None or not scope.is_empty or scope.asked is None:
        return None
    return (
        f"no session of the project {scope.asked!r} is indexed; search-sessions with "
        "project=all and show=projects lists the projects that are"
    )


def indexing_note(indexing: Indexing) -> str:
    """Return what to say where the index is not complete."""
    if not indexing.running:
        return "the index was never filled completely: run `opencode-history sync`"
    progress = f" ({indexing.done} of {indexing.planned} sessions)" if indexing.planned else ""
    return f"a sync is still running{progress}: there may be more than is shown"


def _result(answer: Answer, url_for: UrlFor) -> Json:
    match answer.result:
        case MessageMatches(sessions, has_more):
            found = [
                {
                    **session_json(one.session, url_for),
                    "hits": [_hit(hit, one.session, url_for) for hit in one.hits],
                }
                for one in sessions
            ]
            return {"sessions": found, "hasMore": has_more}
        case SessionList(sessions, has_more):
            listed = [session_json(session, url_for) for session in sessions]
            return {"sessions": listed, "hasMore": has_more}
        case ProjectList():
            return _projects(answer.result)
        case EditList(edits, has_more):
            return {"edits": [_edit(edit, url_for) for edit in edits], "hasMore": has_more}
        case SessionPage():
            return _page(answer.result, url_for)


def _hit(hit: Hit, session: SessionInfo, url_for: UrlFor) -> Json:
    return {
        "word": hit.word,
        "messageID": hit.message_id,
        "role": hit.role,
        **_time("timestamp", hit.timestamp_ms),
        "excerpt": hit.excerpt,
        "url": url_for(hit.session_id or session.id, hit.message_id),
        **_where(
            sessionID=hit.session_id,
            copied=hit.copied or None,
            reverted=hit.reverted or None,
        ),
    }


def _projects(found: ProjectList) -> Json:
    return {
        "projects": [
            {
                "projectID": project.project_id,
                "directories": list(project.directories),
                "sessions": project.sessions,
                **_where(directoriesOmitted=project.directories_omitted or None),
            }
            for project in found.projects
        ],
        "hasMore": found.has_more,
    }


def _edit(edit: Edit, url_for: UrlFor) -> Json:
    session = session_json(edit.session, url_for)
    return {
        **{key: value for key, value in session.items() if not key.startswith("updated")},
        "messageID": edit.message_id,
        **_time("timestamp", edit.timestamp_ms),
        "path": edit.path,
        "tool": edit.tool,
        "firstEdit": edit.first,
        "prompt": edit.prompt,
        "promptTruncated": edit.prompt_truncated,
        "promptMessageID": edit.prompt_message_id,
        "url": url_for(edit.session.id, edit.message_id),
        **_where(copied=edit.copied or None, reverted=edit.reverted or None),
    }


def _page(page: SessionPage, url_for: UrlFor) -> Json:
    return {
        **session_json(page.session, url_for),
        "messages": [_message(message, page.session, url_for) for message in page.messages],
        "nextCursor": page.next_cursor,
        **_where(anchorIncluded=page.anchor_included),
    }


def _message(message: ReadMessage, session: SessionInfo, url_for: UrlFor) -> Json:
    return {
        "messageID": message.message_id,
        "role": message.role,
        **_time("timestamp", message.timestamp_ms),
        "content": message.content,
        "truncated": message.truncated,
        "toolResultsOmitted": message.tool_results_omitted,
        "otherContentOmitted": message.other_content_omitted,
        "url": url_for(session.id, message.message_id),
        **_where(
            copied=message.copied or None,
            reverted=message.reverted or None,
            onlyIn=message.only_in,
        ),
    }


def _scope(scope: Scope) -> Json:
    if scope.projects is None:
        return {"all": True}
    return {
        "all": False,
        "projectIDs": list(scope.projects),
        **_where(directories=list(scope.directories) or None),
    }


def _notes(answer: Answer) -> list[str] | None:
    note = scope_note(answer)
    return [note] if note else None


def _indexing(indexing: Indexing) -> Json:
    return {
        "running": indexing.running,
        "everCompleted": indexing.ever_completed,
        "planned": indexing.planned,
        "done": indexing.done,
        "note": indexing_note(indexing),
    }


def _source(source: SourceStatus) -> Json:
    return {
        "id": source.id,
        "kind": source.kind,
        "location": source.location,
        **_time("lastSync", source.last_sync_ms),
        "sessions": source.sessions,
        "error": source.error,
    }


def _time(key: str, ms: int | None) -> Json:
    return {key: ms, f"{key}ISO": None if ms is None else iso(ms)}


def _short(title: str) -> str:
    """Return a title that leaves room for the answer: nothing bounds the ones that are stored."""
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


def _where(**values: Any) -> Json:
    """Return the values that are not None."""
    return {key: value for key, value in values.items() if value is not None}
