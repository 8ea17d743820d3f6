"""What a source yields: plain values, the same for every generation of OpenCode.

Sources turn rows, files and API answers into these at once; nothing behind them knows
OpenCode's JSON. Times are Unix times in milliseconds, UTC. Texts may be of any length
and hold any code point but lone surrogates and NUL (see sync.values.clean).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

SourceKind = Literal["api", "db", "storage"]

PartKind = Literal[
    "text",  # what the role said
    "reasoning",
    "tool",  # the name of a called tool; the call's other rows follow with the same `call`
    "input",  # one value of the call's input; `name` is its key, such as edits[0].newString
    "output",
    "error",  # of a tool call, or of the whole message
    "synthetic",  # put into the message by OpenCode: nobody's words
    "file",  # an attachment's file name; `name` is its mime type
    "agent",  # an agent mentioned
    "subtask",  # a prompt handed to a subagent
    "summary",  # what a compaction left
    "command",  # a shell command that the user ran
    "path",  # paths of files that a step changed, where no input names them
    "retry",
]

OnlyIn = Literal["json", "v1", "v2"]
"""The generation of a copy that is not the one indexed, but has more in some place."""

Stranded = Literal["after-import", "perhaps-deleted"]
"""Why only an older store has a session: it was made there after the one import into the newer
store, or the newer store had it, or could have had it, and no longer does."""

RANK_JSON, RANK_V1, RANK_V2, RANK_API = range(4)
"""Which copy of a session wins at equal activity: the higher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of one message or session; cache tokens are apart from input."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One searchable piece of a message.

    only_in: the older generation that alone still has it; None for all that the copy itself has.
    cut_to: of an output that was cut: name of the file in OpenCode's tool-output that has it whole.
    reverted: a revert undid the message from here on.
    own: the message's role said it; False for text that OpenCode or a plugin added
        (synthetic or ignored text), which can be found but is nobody's words.
    call: number of the tool call within the message, from 0; None outside of one.
    title, status, started_ms, ended_ms: set on the `tool` row of a call.
    """

    kind: PartKind
    text: str
    name: str | None = None
    call: int | None = None
    title: str | None = None
    status: str | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    own: bool = True
    only_in: OnlyIn | None = None
    cut_to: str | None = None
    reverted: bool = False


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A file that a completed tool call wrote, or (tool None) that a snapshot lists.

    path: as the source says it, absolute or relative to the session's directory.
    reverted: only what a revert undid of the message edited it.
    """

    path: str
    tool: str | None
    reverted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a session.

    role: user, assistant, or the native type of V2 (shell, compaction, synthetic ...).
    only_in: as Part.only_in, of the whole message.
    stamp: any text that differs whenever the source's copy of the message differs.
        It begins with a letter of the layout, so that stamps of two layouts never meet.
    """

    id: str
    role: str
    created_ms: int
    stamp: str
    agent: str | None = None
    provider: str | None = None
    model: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    finish: str | None = None
    parts: tuple[Part, ...] = ()
    edits: tuple[FileEdit, ...] = ()
    only_in: OnlyIn | None = None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Stands for a message whose stamp is the one that the index knows."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """A row, file or answer that could not be read.

    item: names it to a person: table and id, or a path.
    session_id: the session it belongs to, None where that is not known.
    message_id: the message it belongs to; what the index has of that message then stays.
    hides_session: it may stand for a session that could not be listed.
    """

    item: str
    reason: str
    session_id: str | None = None
    message_id: str | None = None
    hides_session: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    content: str
    status: str | None = None
    priority: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revert:
    """Messages from message_id on are undone; with part_id, that message only from there."""

    message_id: str
    part_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """sandboxes: roots of its further worktrees."""

    id: str
    directory: str | None = None
    name: str | None = None
    vcs: str | None = None
    created_ms: int | None = None
    updated_ms: int | None = None
    sandboxes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session.

    updated_ms: its last activity, the latest time of the session, its messages and parts.
    todos: None where the source keeps no list; then the last completed todowrite call tells.
    """

    id: str
    title: str
    created_ms: int
    updated_ms: int
    project_id: str | None = None
    parent_id: str | None = None
    directory: str | None = None
    slug: str | None = None
    version: str | None = None
    agent: str | None = None
    provider: str | None = None
    model: str | None = None
    archived_ms: int | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    additions: int | None = None
    deletions: int | None = None
    files_changed: int | None = None
    share_url: str | None = None
    forked_from: str | None = None
    revert: Revert | None = None
    todos: tuple[Todo, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRef:
    """What a listing says of a session: enough to tell whether the index is current.

    activity_ms: as Session.updated_ms. rank: one of the RANK_ constants.
    version: any text that differs whenever the source's copy does, where activity alone
        would not tell (a bulk rewrite, a file changed in place).
    adds: any text that differs whenever what this copy adds to a better one does; empty where
        that is nothing. See AddingSource.
    holds: which generations of it the source holds, for people: v1, v2, v1 v2, json, api.
    stranded: set where the source's newer store, or the one beside it, lacks the session.
    """

    id: str
    title: str
    project_id: str | None
    directory: str | None
    activity_ms: int
    rank: int
    version: str = ""
    holds: str = ""
    adds: str = ""
    stranded: Stranded | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCopy:
    """One source's copy of a session, its messages in conversation order.

    messages can be read once. Where the caller said which stamps it knows, messages with
    a known stamp come as Unchanged.
    """

    session: Session
    messages: Iterator[Message | Unchanged | BadRecord]


class Source(Protocol):
    """A place that holds sessions. Sources read; they know neither index nor command line.

    Methods raise sync.errors.SourceUnavailable where the place cannot be read at all, and
    yield a BadRecord for whatever in it cannot. Nothing is opened before the first call.
    """

    @property
    def kind(self) -> SourceKind: ...

    @property
    def location(self) -> str:
        """Absolute path, or URL without credentials; unique per kind."""

    @property
    def authoritative(self) -> bool:
        """Whether a session missing from a complete listing is gone for good.

        True for databases and JSON stores, False for a service that may list others' sessions.
        """

    @property
    def remote(self) -> bool:
        """Whether reading waits for a network.

        Sessions of such a source are read whole before the index is locked to write them; its
        read() may be called by several threads at once, and sends all messages at once.
        """

    def signature(self) -> str | None:
        """Return a text that is cheap to make and differs once anything has changed.

        None where there is no such text: then every sync lists the source.
        """

    def projects(self) -> Iterator[Project | BadRecord]: ...

    def sessions(self) -> Iterator[SessionRef | BadRecord]:
        """List every session without reading message bodies; the order does not matter."""

    def read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        """Read one session; None where the source no longer has it.

        known: message id to stamp, of the messages that need not be sent again.
        """

    def close(self) -> None: ...


@runtime_checkable
class AddingSource(Source, Protocol):
    """A source whose copy of a session may have what a better copy lacks."""

    def additions(self, session_id: str) -> Iterator[Message]:
        """Yield the messages that a better copy cannot have deleted, marked by only_in.

        Of a message that the better copy has as well, only parts with only_in are of use.
        Raises sync.errors.SourceUnavailable.
        """


@dataclass(frozen=True, slots=True)
class Event:
    """What a live source says has happened.

    connected: the stream is up, and from here on nothing is missed. session_id: the session
    that changed or (deleted) is gone.
    """

    session_id: str | None = None
    deleted: bool = False
    connected: bool = False


@runtime_checkable
class LiveSource(Source, Protocol):
    """A source that tells of changes as they happen."""

    def find(self, session_id: str) -> SessionRef | None:
        """Return what a listing would say of one session; None where it is gone for good."""

    def events(self) -> Iterator[Event]:
        """Yield events, `connected` first, until the stream ends.

        close() called by another thread ends it. Raises sync.errors.SourceUnavailable.
        """
