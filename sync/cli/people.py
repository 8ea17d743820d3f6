"""Answers for people at a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, assert_never

import click

from datasette_history.excerpts import find
from datasette_history.pages.shown import count, day_and_time, one_line, visible
from datasette_history.render import indexing_note, scope_note
from datasette_history.results import (
    Answer,
    Edit,
    EditList,
    Hit,
    MessageMatches,
    ProjectList,
    ReadMessage,
    SessionInfo,
    SessionList,
    SessionPage,
)
from datasette_history.text import first_place

PROGRAM: Final = "opencode-history"


def for_people(answer: Answer) -> str:
    """Return an answer as styled text; times in the answer's time zone."""
    return "\n".join((*_Printer(answer).lines(), *_remarks(answer))) + "\n"


class _Printer:
    def __init__(self, answer: Answer) -> None:
        self.result = answer.result
        self.timezone = answer.timezone

    def lines(self) -> Iterator[str]:
        match self.result:
            case MessageMatches():
                return self.matches(self.result)
            case SessionList():
                return self.sessions(self.result)
            case ProjectList():
                return self.projects(self.result)
            case EditList():
                return self.edits(self.result)
            case SessionPage():
                return self.page(self.result)
            case _:
                assert_never(self.result)

    def matches(self, found: MessageMatches) -> Iterator[str]:
        for one in found.sessions:
            yield from self.session(one.session)
            for hit in one.hits:
                yield from self.hit(hit)
            yield ""
        yield _total(len(found.sessions), "session", found.has_more)
        if found.sessions:
            session_id, message_id = first_place(found.sessions[0])
            at = ("--message-id", message_id) if message_id else ()
            yield _next("read", session_id, *at)

    def sessions(self, found: SessionList) -> Iterator[str]:
        for session in found.sessions:
            yield from self.session(session)
            yield ""
        yield _total(len(found.sessions), "session", found.has_more)
        if found.sessions:
            yield _next("read", found.sessions[0].id)

    def session(self, session: SessionInfo) -> Iterator[str]:
        flags = [
            name
            for name, is_so in (
                ("archived", session.archived_ms is not None),
                ("deleted", session.deleted_ms is not None),
                (session.stranded or "", session.stranded is not None),
                (f"subagent of {session.root_id}", session.root_id is not None),
                (f"copy of {session.copy_of}", session.copy_of is not None),
                (f"found alike in {count(len(session.forks), 'fork')}", bool(session.forks)),
                (f"found in {count(len(session.subagents), 'subagent')}", bool(session.subagents)),
            )
            if is_so
        ]
        yield click.style(one_line(session.title) or "(no title)", bold=True)
        place = _home(session.directory) if session.directory else ""
        about = "  ".join(filter(None, (self.time(session.updated_ms), session.id, place, *flags)))
        yield f"  {click.style(one_line(about, 500), dim=True)}"

    def hit(self, hit: Hit) -> Iterator[str]:
        place = f"{hit.role} {hit.message_id}" if hit.message_id else "title"
        if hit.session_id:
            place += f" of subagent {hit.session_id}"
        flags = _marks(copied=hit.copied, reverted=hit.reverted)
        head = f"{self.time(hit.timestamp_ms)}  {place}{flags}"
        about = click.style(one_line(head), dim=True)
        yield f"  {click.style(one_line(hit.word), fg='yellow')}  {about}"
        yield f"    {_highlighted(hit)}"

    def projects(self, found: ProjectList) -> Iterator[str]:
        for project in found.projects:
            name = click.style(one_line(project.project_id or "(no project)"), bold=True)
            yield f"{name}  {count(project.sessions, 'session')}"
            for directory in project.directories:
                yield f"  {_home(directory)}"
            if project.directories_omitted:
                yield f"  and {project.directories_omitted} more"
        yield _total(len(found.projects), "project", found.has_more)
        if found.projects:
            yield _next("sessions", "--project", found.projects[0].project_id or "all")

    def edits(self, found: EditList) -> Iterator[str]:
        for edit in found.edits:
            yield from self.edit(edit)
        yield _total(len(found.edits), "edit", found.has_more)
        if found.edits:
            first = found.edits[0]
            yield _next("read", first.session.id, "--message-id", first.message_id)

    def edit(self, edit: Edit) -> Iterator[str]:
        flags = _marks(first=edit.first, copied=edit.copied, reverted=edit.reverted)
        head = f"{self.time(edit.timestamp_ms)}  {edit.tool or 'snapshot'}"
        yield f"{click.style(head, dim=True)}  {click.style(_home(edit.path), bold=True)}{flags}"
        about = f"{one_line(edit.session.title, 80)}  {edit.session.id}  {edit.message_id}"
        yield f"  {click.style(one_line(about, 500), dim=True)}"
        if edit.prompt is not None:
            cut = "…" if edit.prompt_truncated else ""
            yield f"  > {one_line(edit.prompt, 300)}{cut}"
        yield ""

    def page(self, page: SessionPage) -> Iterator[str]:
        yield from self.session(page.session)
        for message in page.messages:
            yield ""
            yield from self.message(message)
        yield ""
        if not page.messages:
            yield "No messages here."
        if page.next_cursor:
            yield _next("read", page.session.id, "--cursor", page.next_cursor)
        else:
            yield "End of the session."
        if any(message.tool_results_omitted for message in page.messages):
            yield "Tool results are left out: --include-tool-results shows them."

    def message(self, message: ReadMessage) -> Iterator[str]:
        flags = _marks(
            truncated=message.truncated, copied=message.copied, reverted=message.reverted
        )
        color = "cyan" if message.role == "user" else "green"
        head = f"{self.time(message.timestamp_ms)}  {one_line(message.message_id)}"
        when = click.style(head, dim=True)
        yield f"{click.style(message.role, fg=color, bold=True)}  {when}{flags}"
        for line in visible(message.content).split("\n"):
            is_call = line.startswith("[tool: ") or line == "[tool results omitted]"
            yield f"  {click.style(line, dim=True) if is_call else line}".rstrip()

    def time(self, ms: int) -> str:
        return day_and_time(ms, self.timezone)


def _remarks(answer: Answer) -> Iterator[str]:
    if answer.capped_from is not None:
        yield f"The limit {answer.capped_from} was capped."
    if note := scope_note(answer):
        yield f"Note: {note}."
    elif answer.scope is not None and answer.scope.projects is not None:
        yield "Only this project was searched; --project all searches every one."
    if answer.indexing is not None:
        yield f"Note: {indexing_note(answer.indexing)}."


def _highlighted(hit: Hit) -> str:
    """Return the excerpt in one line, the match in it bold."""
    text = one_line(hit.excerpt, 400)
    word = one_line(hit.word)
    at = find(text, word)
    if at < 0:
        return text
    end = at + len(word)
    return text[:at] + click.style(text[at:end], fg="yellow", bold=True) + text[end:]


def _total(found: int, what: str, has_more: bool) -> str:
    if not found:
        return f"No {what} matches."
    more = "; there are more: narrow the query, or raise --limit" if has_more else ""
    return f"{count(found, what)}{more}"


def _next(*words: str) -> str:
    """Return the command that goes on."""
    return click.style(f"Next: {visible(shlex.join([PROGRAM, *words]))}", dim=True)


def _marks(**marks: bool) -> str:
    names = ", ".join(name for name, is_set in marks.items() if is_set)
    return f"  [{names}]" if names else ""


def _home(path: str) -> str:
    """Return a path with ``~`` for the home directory, in one line."""
    home = str(Path.home())
    short = "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path
    return one_line(short)
