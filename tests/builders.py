"""Small values for tests, and real index files made of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sync.index import Index, fingerprint
from sync.model import FileEdit, Message, Part, Session, SessionCopy, SessionRef, Tokens

T0 = 1_796_086_800_000
"""2026-12-01T01:00:00Z; tests count minutes from here."""

MINUTE = 60_000


def session(session_id: str, title: str = "A session", *, at: int = T0, **values: Any) -> Session:
    values.setdefault("project_id", "prj")
    values.setdefault("directory", "/home/dev/app")
    return Session(
        id=session_id,
        title=title,
        created_ms=values.pop("created_ms", at),
        updated_ms=values.pop("updated_ms", at),
        **values,
    )


def text(content: str, **values: Any) -> Part:
    return Part(kind="text", text=content, **values)


def synthetic(content: str) -> Part:
    return Part(kind="synthetic", text=content, own=False)


def tool(
    name: str,
    *,
    call: int = 0,
    output: str | None = None,
    error: str | None = None,
    status: str = "completed",
    started_ms: int = T0,
    ended_ms: int | None = T0 + 1000,
    **inputs: str,
) -> list[Part]:
    """The rows of one tool call."""
    rows = [
        Part(
            kind="tool", text=name, name=name, call=call, status=status,
            started_ms=started_ms, ended_ms=ended_ms,
        )
    ]  # fmt: skip
    rows += [Part(kind="input", text=v, name=k, call=call) for k, v in inputs.items()]
    if output is not None:
        rows.append(Part(kind="output", text=output, call=call))
    if error is not None:
        rows.append(Part(kind="error", text=error, call=call))
    return rows


def message(
    message_id: str,
    role: str,
    *parts: Part | str | Iterable[Part],
    at: int = T0,
    edits: Iterable[str | FileEdit] = (),
    **values: Any,
) -> Message:
    """A message of texts (str), parts and tool calls (lists of parts)."""
    flat: list[Part] = []
    for part in parts:
        if isinstance(part, str):
            flat.append(text(part))
        elif isinstance(part, Part):
            flat.append(part)
        else:
            flat.extend(part)
    return Message(
        id=message_id,
        role=role,
        created_ms=at,
        stamp=values.pop("stamp", f"t:{at}"),
        parts=tuple(flat),
        edits=tuple(FileEdit(e, "edit") if isinstance(e, str) else e for e in edits),
        **values,
    )


def user(message_id: str, *parts: Part | str | Iterable[Part], **values: Any) -> Message:
    return message(message_id, "user", *parts, **values)


def assistant(message_id: str, *parts: Part | str | Iterable[Part], **values: Any) -> Message:
    return message(message_id, "assistant", *parts, **values)


def tokens(input: int = 0, output: int = 0, reasoning: int = 0) -> Tokens:  # noqa: A002
    return Tokens(input=input, output=output, reasoning=reasoning)


def copy(of: Session, *messages: Message) -> SessionCopy:
    return SessionCopy(session=of, messages=iter(messages))


def ref(of: Session, *, rank: int = 1) -> SessionRef:
    return SessionRef(
        id=of.id,
        title=of.title,
        project_id=of.project_id,
        directory=of.directory,
        activity_ms=of.updated_ms,
        rank=rank,
    )


def fill(path: Path, *copies: SessionCopy, fetched_at_ms: int = T0) -> Path:
    """Write the sessions into the index at path (made where missing) and return path."""
    with Index.open(path) as index, index.transaction():
        source_id = index.source_id("db", "/home/dev/.local/share/opencode/opencode.db")
        for one in copies:
            reference = ref(one.session)
            index.record_copies(source_id, [reference])
            index.replace_session(
                one,
                source_id=source_id,
                fingerprint=fingerprint(reference),
                fetched_at_ms=fetched_at_ms,
            )
        index.source_listed(source_id, listed_at_ms=fetched_at_ms, signature=None)
        sync_id = index.begin_sync(pid=1, now_ms=fetched_at_ms)
        index.update_sync(sync_id, now_ms=fetched_at_ms, finished=True)
    return path
