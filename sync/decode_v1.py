"""From V1's messages and parts (JSON files, SQLite rows, REST answers) to plain values.

Pure functions over decoded JSON of which anything may be missing or of another type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sync.message_parts import (
    Call,
    MessageParts,
    cost,
    error_text,
    provider_and_model,
    tokens,
)
from sync.model import Message, Part
from sync.tool_output import output_file
from sync.values import filled, mapping, sequence, shrink, string, time_ms


def message_v1(
    message_id: str,
    data: Mapping[str, object],
    parts: Iterable[object],
    *,
    stamp: str,
    row_ms: int | None,
    directory: str | None,
    reverted_from: int | None = None,
) -> Message:
    """Return a message of V1.

    parts: the decoded parts in their order; reverted_from: the first that a revert undid.
    row_ms: when the row was created, for messages that do not say so themselves. directory: the
    session's, for relative paths.
    """
    provider, model = provider_and_model(data)
    role = filled(data.get("role")) or "unknown"
    collected = MessageParts(directory)
    # On a user message `summary` is an object, and means something else.
    text_is_summary = role == "assistant" and data.get("summary") is True
    for number, part in enumerate(parts):
        if number == reverted_from:
            collected.mark_reverted()
        _add_part(collected, mapping(part), text_is_summary)
    collected.add("error", error_text(data.get("error")))
    pieces, edits = collected.finish()
    return Message(
        id=message_id,
        role=role,
        created_ms=created_ms(data, row_ms),
        stamp=stamp,
        agent=filled(data.get("agent")) or filled(data.get("mode")),
        provider=provider,
        model=model,
        cost=cost(data.get("cost")),
        tokens=tokens(data.get("tokens")),
        finish=filled(data.get("finish")),
        parts=pieces,
        edits=edits,
    )


def created_ms(data: Mapping[str, object], row_ms: int | None) -> int:
    """Return when a message was written, 0 where nothing tells."""
    own = time_ms(mapping(data.get("time")).get("created"))
    return own if own is not None else (row_ms or 0)


def _add_part(collected: MessageParts, part: Mapping[str, object], text_is_summary: bool) -> None:
    match part.get("type"):
        case "text":
            if part.get("synthetic") or part.get("ignored"):
                collected.add("synthetic", part.get("text"), own=False)
            else:
                collected.add("summary" if text_is_summary else "text", part.get("text"))
        case "reasoning":
            collected.add("reasoning", part.get("text"))
        case "tool":
            collected.add_call(_call(part))
        case "file":
            collected.add_file(part.get("mime"), part.get("filename"), part.get("url"))
        case "patch":
            collected.add_snapshot(sequence(part.get("files")))
        case "agent":
            collected.add("agent", part.get("name"))
        case "subtask":
            _add_subtask(collected, part)
        case "retry":
            collected.add("retry", error_text(part.get("error")), own=False)
        case "step-start" | "step-finish" | "snapshot" | "compaction":
            # Their cost and tokens are the message's own once more.
            return
        case _:
            # Of a later version: worth finding, but nobody knows whose words it is.
            collected.add("text", part.get("text"), own=False)


def _add_subtask(collected: MessageParts, part: Mapping[str, object]) -> None:
    if prompt := filled(part.get("prompt")):
        collected.add_part(
            Part(
                kind="subtask",
                text=shrink(prompt),
                name=string(part.get("agent")),
                title=string(part.get("description")),
            )
        )


def _call(part: Mapping[str, object]) -> Call:
    state = mapping(part.get("state"))
    status = filled(state.get("status"))
    metadata = mapping(state.get("metadata"))
    time = mapping(state.get("time"))
    output = filled(state.get("output"))
    if output is None and status != "completed":
        # What a command had printed so far; once it is completed this repeats the output.
        output = filled(metadata.get("output"))
    return Call(
        name=filled(part.get("tool")) or "unknown",
        status=status,
        input=state.get("input") or state.get("raw"),
        title=filled(state.get("title")),
        started_ms=time_ms(time.get("start")),
        ended_ms=time_ms(time.get("end")),
        outputs=(output,) if output else (),
        error=error_text(state.get("error")),
        metadata=(metadata,),
        files=sequence(state.get("attachments")),
        cut_to=output_file((metadata,)) if metadata.get("truncated") else None,
    )
