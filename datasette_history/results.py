"""What the searches and `read` return: plain values, not yet spelled as JSON or text.

All times are milliseconds since the epoch, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """What every answer says of a session.

    num: its number in this index; document ids are made of it (see schema.session_range).
    root_id: the session at the top of the chain of parents, None for one that has no parent.
    archived_ms, deleted_ms: when; None where it is not. deleted means gone from its source.
    stranded: ``after-import`` or ``perhaps-deleted`` where newer versions do not list it.
    copy_of: the session that it was forked from.
    forks: ids of forks that match only by what they copied from it, and so are not listed.
    subagents: ids of the matching subagents for which it is listed, where that was asked for.
    """

    num: int
    id: str
    title: str
    project_id: str | None
    directory: str | None
    updated_ms: int
    root_id: str | None = None
    archived_ms: int | None = None
    deleted_ms: int | None = None
    stranded: str | None = None
    copy_of: str | None = None
    end_user: str | None = None
    forks: tuple[str, ...] = ()
    subagents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The first message of a session that holds a word.

    message_id: None where only the title holds it; role is then ``title``.
    excerpt: up to 300 code points around the match.
    session_id: the subagent whose message it is, where its root is listed; else None.
    """

    word: str
    message_id: str | None
    role: str
    timestamp_ms: int
    excerpt: str
    copied: bool = False
    reverted: bool = False
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionHits:
    session: SessionInfo
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class MessageMatches:
    """Answer of search-messages."""

    sessions: tuple[SessionHits, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class SessionList:
    """Answer of search-sessions."""

    sessions: tuple[SessionInfo, ...]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectMatches:
    """Sessions of one project that match.

    project_id: None for sessions that belong to none.
    directories: where they ran, most sessions first, at most MAX_DIRECTORIES of search.py.
    directories_omitted: how many more there are.
    """

    project_id: str | None
    directories: tuple[str, ...]
    directories_omitted: int
    sessions: int


@dataclass(frozen=True, slots=True)
class ProjectList:
    """Answer of search-sessions with show=projects."""

    projects: tuple[ProjectMatches, ...]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An edited file of one message.

    tool: None where only a snapshot names the file.
    first: no earlier edit of the path is indexed within the project scope.
    prompt: beginning of the user's words before it, None where there are none.
    """

    session: SessionInfo
    message_id: str
    timestamp_ms: int
    path: str
    tool: str | None
    first: bool
    prompt: str | None
    prompt_truncated: bool
    prompt_message_id: str | None
    copied: bool = False
    reverted: bool = False


@dataclass(frozen=True, slots=True)
class EditList:
    """Answer of search-edits."""

    edits: tuple[Edit, ...]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessage:
    """One message as `read` shows it.

    truncated: content was cut at the limit.
    tool_results_omitted: it has results of tools, and they were not asked for.
    other_content_omitted: it has something that is never shown: reasoning, attached files,
        text that OpenCode added, retries, an error of the whole message.
    only_in: json, v1 or v2 where only an older copy of the session still has it.
    """

    message_id: str
    role: str
    timestamp_ms: int
    content: str
    truncated: bool
    tool_results_omitted: bool
    other_content_omitted: bool
    copied: bool = False
    reverted: bool = False
    only_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Answer of read.

    next_cursor: where to go on, None at the end.
    anchor_included: whether the anchor is among the messages; None without an anchor.
    """

    session: SessionInfo
    messages: tuple[ReadMessage, ...]
    next_cursor: str | None
    anchor_included: bool | None = None


Result = MessageMatches | SessionList | ProjectList | EditList | SessionPage


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which sessions are searched.

    projects: all sessions of these; None means that every session is in scope.
    directories: besides, the sessions in these directories that belong to no project of
        their own: directories without git share one project, which nobody means by a path.
    asked: what the caller named, for messages; None where nothing was named.
    """

    projects: tuple[str, ...] | None = None
    directories: tuple[str, ...] = ()
    asked: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.projects == () and not self.directories


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexing:
    """How far the index is filled, where it is not complete.

    running: a backfill is at work now. ever_completed: at least one has finished.
    planned: sessions that it will refresh, None while it still lists them.
    """

    running: bool
    ever_completed: bool
    planned: int | None = None
    done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool answers, with what it was asked.

    scope: None for read, which looks at one session.
    capped_from: the limit that was asked for, where it was over the cap.
    indexing: None where the index is complete.
    timezone: whose local time texts show; None for the machine's own.
    """

    tool: str
    result: Result
    scope: Scope | None = None
    capped_from: int | None = None
    indexing: Indexing | None = None
    timezone: tzinfo | None = None
