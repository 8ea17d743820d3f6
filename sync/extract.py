"""From a message to its document: what can be searched, and where each piece stands in it.

A document's text is its parts' texts, one below the other. What the role itself said comes
first, so that one number (own_length) separates it from text that OpenCode put into the
message; every part remembers its place in the conversation by its position.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from datasette_history.schema import TITLE_MESSAGE_ID
from sync.model import FileEdit, Message, Part, Session, Tokens
from sync.paths import absolute_path, basename
from sync.values import clean

SEPARATOR = "\n"
TITLE_ROLE = "title"
END_USER = re.compile(r"\s*\[([^\[\]\n]{1,100})\]\s*\S")


@dataclass(frozen=True, slots=True)
class Span:
    """A part's place in the document's text: start and length in code points."""

    part: Part
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class EditedPath:
    path: str
    basename: str
    tool: str | None
    reverted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What the index keeps of one message, or of a session's title.

    own_length: code points at the start of text that the role said itself.
    spans: one per part, in the message's order.
    paths: the files it edited, each once.
    """

    message_id: str
    role: str
    timestamp: int
    stamp: str
    text: str
    own_length: int
    spans: Sequence[Span] = ()
    paths: Sequence[EditedPath] = ()
    agent: str | None = None
    provider: str | None = None
    model: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    finish: str | None = None
    only_in: str | None = None


def message_document(message: Message, directory: str | None) -> Document:
    """Return the document of a message; directory resolves its relative paths."""
    text, own_length, spans = _join(message.parts)
    return Document(
        message_id=clean(message.id),
        # By its role a title is told from messages, so no message may have that one.
        role=message.role if message.role != TITLE_ROLE else "unknown",
        timestamp=message.created_ms,
        stamp=message.stamp,
        text=text,
        own_length=own_length,
        spans=spans,
        paths=_edited_paths(message.edits, directory),
        agent=message.agent,
        provider=message.provider,
        model=message.model,
        cost=message.cost,
        tokens=message.tokens,
        finish=message.finish,
        only_in=message.only_in,
    )


def title_document(session: Session) -> Document:
    """Return the document of a session's title, dated by its last activity."""
    title = clean(session.title)
    return Document(
        message_id=TITLE_MESSAGE_ID,
        role=TITLE_ROLE,
        timestamp=session.updated_ms,
        stamp="",
        text=title,
        own_length=len(title),
    )


def end_user(title: str) -> str | None:
    """Return who a session was run for, where its title says so: ``[name] title``."""
    match = END_USER.match(title)
    return match.group(1).strip() or None if match else None


def _join(parts: Sequence[Part]) -> tuple[str, int, list[Span]]:
    pieces: list[str] = []
    starts: dict[int, int] = {}
    position = own_length = 0
    for own in (True, False):
        for number, part in enumerate(parts):
            if part.own is not own:
                continue
            if part.text and position:
                pieces.append(SEPARATOR)
                position += len(SEPARATOR)
            starts[number] = position
            pieces.append(part.text)
            position += len(part.text)
        if own:
            own_length = position
    spans = [Span(part, starts[number], len(part.text)) for number, part in enumerate(parts)]
    # Cleaning replaces code point by code point, so the spans hold.
    return clean("".join(pieces)), own_length, spans


def _edited_paths(edits: Sequence[FileEdit], directory: str | None) -> list[EditedPath]:
    """Each path once; a tool's edit stands for the snapshot's mention of the same file."""
    tools: dict[str, str | None] = {}
    standing: set[str] = set()
    for edit in edits:
        if edit.path:
            path = absolute_path(clean(edit.path), directory)
            tools[path] = tools.get(path) or edit.tool
            if not edit.reverted:
                standing.add(path)
    return [
        EditedPath(path, basename(path), tool, reverted=path not in standing)
        for path, tool in tools.items()
    ]
