"""Answers as compact text for a language model, naming the calls that go on from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final, assert_never

from datasette_history.pages.shown import visible
from datasette_history.render import indexing_note, scope_note
from datasette_history.results import (
    Answer,
    EditList,
    MessageMatches,
    ProjectList,
    ReadMessage,
    Result,
    SessionHits,
    SessionInfo,
    SessionList,
    SessionPage,
)

MAX_MATCHES: Final = 30_000
"""Code points up to which search-messages shows sessions; many words make many excerpts."""

MAX_LINE: Final = 300
"""Code points of a title, word or path that are shown."""


def as_text(answer: Answer) -> str:
    """Return an answer as text, times in the answer's time zone.

    What sessions say is put into one line or indented, so that it cannot pass for the
    answer's own words; control characters are shown instead of obeyed.
    """
    return visible("\n".join((*_lines(answer), *_remarks(answer))) + "\n")


def error_text(messages: Iterable[str]) -> str:
    """Return what is wrong as text, one line for each message."""
    return "".join(f"Error: {message}\n" for message in messages)


def _lines(answer: Answer) -> Iterator[str]:
    result, tz = answer.result, answer.timezone
    match result:
        case MessageMatches():
            return _matches(result, tz)
        case SessionList():
            return _sessions(result, tz)
        case ProjectList():
            return _projects(result)
        case EditList():
            return _edits(result, tz)
        case SessionPage():
            return _page(result, tz)
        case _:
            assert_never(result)


def _remarks(answer: Answer) -> Iterator[str]:
    if answer.capped_from is not None:
        yield f"Note: limit {answer.capped_from} was capped."
    if note := scope_note(answer):
        yield f"Note: {note}."
    elif _is_empty(answer.result) and answer.scope and answer.scope.projects is not None:
        yield "Note: only this project was searched; project=all searches every one."
    if answer.indexing is not None:
        yield f"Note: {indexing_note(answer.indexing)}."


def _matches(found: MessageMatches, tz: tzinfo | None) -> Iterator[str]:
    if not found.sessions:
        yield "No session matches."
        return
    yield f"{_count(len(found.sessions), 'session')}, newest first{_more(found.has_more)}"
    room = MAX_MATCHES
    for index, one in enumerate(found.sessions):
        lines = _match(one, tz)
        room -= sum(map(len, lines))
        if room < 0 and index:
            yield ""
            yield f"Of {len(found.sessions) - index} more only the ids, to keep this short:"
            yield " ".join(left.session.id for left in found.sessions[index:])
            break
        yield ""
        yield from lines
    session_id, message_id = first_place(found.sessions[0])
    yield ""
    anchor = f" messageID={message_id}" if message_id else ""
    yield f"Next: read sessionID={session_id}{anchor}"


def first_place(one: SessionHits) -> tuple[str, str | None]:
    """Return the session and message to read first: of a folded subagent, its own session."""
    for hit in one.hits:
        if hit.message_id:
            return hit.session_id or one.session.id, hit.message_id
    return one.session.id, None


def _match(one: SessionHits, tz: tzinfo | None) -> Sequence[str]:
    lines = [_session(one.session, tz)]
    for hit in one.hits:
        place = f"{hit.message_id} {hit.role}" if hit.message_id else "title"
        if hit.session_id:
            place += f" of subagent {hit.session_id}"
        flags = _flags(copied=hit.copied, reverted=hit.reverted)
        when = time(hit.timestamp_ms, tz)
        lines.append(f"  {_line(hit.word)!r} in {place}, {when}{flags}: {_line(hit.excerpt)}")
    return lines


def _sessions(found: SessionList, tz: tzinfo | None) -> Iterator[str]:
    if not found.sessions:
        yield "No session matches."
        return
    yield f"{_count(len(found.sessions), 'session')}, newest first{_more(found.has_more)}"
    for session in found.sessions:
        yield _session(session, tz)
    yield f"Next: read sessionID={found.sessions[0].id}"


def _projects(found: ProjectList) -> Iterator[str]:
    if not found.projects:
        yield "No project matches."
        return
    yield f"{_count(len(found.projects), 'project')}, largest first{_more(found.has_more)}"
    for project in found.projects:
        omitted = project.directories_omitted
        more = f" and {omitted} more" if omitted else ""
        places = ", ".join(map(_line, project.directories)) + more
        yield f"{project.project_id or '-'} {_count(project.sessions, 'session')}: {places}"
    yield f"Next: search-sessions project={found.projects[0].project_id or 'all'}"


def _edits(found: EditList, tz: tzinfo | None) -> Iterator[str]:
    if not found.edits:
        yield "No edit matches."
        return
    yield f"{_count(len(found.edits), 'edit')}, newest first{_more(found.has_more)}"
    for edit in found.edits:
        flags = _flags(first=edit.first, copied=edit.copied, reverted=edit.reverted)
        tool = edit.tool or "snapshot"
        yield (
            f"{time(edit.timestamp_ms, tz)} {tool} {_line(edit.path)}{flags} "
            f"{edit.session.id} {edit.message_id} {_line(edit.session.title)!r}"
        )
        if edit.prompt is not None:
            cut = "…" if edit.prompt_truncated else ""
            yield f"  prompt {edit.prompt_message_id}: {_line(edit.prompt)}{cut}"
    first = found.edits[0]
    yield f"Next: read sessionID={first.session.id} messageID={first.message_id}"


def _page(page: SessionPage, tz: tzinfo | None) -> Iterator[str]:
    yield _session(page.session, tz)
    for message in page.messages:
        yield ""
        flags = _flags(
            truncated=message.truncated, copied=message.copied, reverted=message.reverted
        )
        if message.only_in:
            flags += f" [only in {message.only_in}]"
        yield f"--- {message.message_id} {message.role} {time(message.timestamp_ms, tz)}{flags}"
        yield from (f"  {line}" for line in message.content.splitlines())
    if not page.messages:
        yield "No messages here."
    yield ""
    if page.next_cursor:
        yield f"Next: read sessionID={page.session.id} cursor={page.next_cursor}"
    else:
        yield "End of the session."
    if any(map(_has_results, page.messages)):
        yield "Tool results are left out: includeToolResults=true shows them."


def time(ms: int, tz: tzinfo | None) -> str:
    """Return a time in milliseconds as ``YYYY-MM-DD HH:MM`` in tz."""
    try:
        return datetime.fromtimestamp(ms / 1000, tz).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def _session(session: SessionInfo, tz: tzinfo | None) -> str:
    flags = _flags(
        archived=session.archived_ms is not None,
        deleted=session.deleted_ms is not None,
        stranded=session.stranded is not None,
    )
    root = f" subagent of {session.root_id}" if session.root_id else ""
    copy = f" copy of {session.copy_of}" if session.copy_of else ""
    place = f" {_line(session.directory)}" if session.directory else ""
    forks = f" found alike in {_count(len(session.forks), 'fork')}" if session.forks else ""
    count = len(session.subagents)
    agents = f" found in {_count(count, 'subagent')}" if count else ""
    return (
        f"{session.id} {time(session.updated_ms, tz)} {_line(session.title)!r}{place}"
        f"{root}{copy}{forks}{agents}{flags}"
    )


def _has_results(message: ReadMessage) -> bool:
    return message.tool_results_omitted


def _flags(**flags: bool) -> str:
    """Return the names of the flags that are set, in brackets."""
    names: Iterable[str] = (name for name, is_set in flags.items() if is_set)
    joined = ", ".join(names)
    return f" [{joined}]" if joined else ""


def _is_empty(result: Result) -> bool:
    match result:
        case MessageMatches(found, _) | SessionList(found, _):
            return not found
        case ProjectList(projects, _):
            return not projects
        case EditList(edits, _):
            return not edits
        case SessionPage():
            return False


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _more(has_more: bool) -> str:
    return "; there are more: narrow the query, or raise the limit" if has_more else ""
