"""From V2's messages (rows of session_message, API items) to plain values.

Pure functions over decoded JSON of which anything may be missing or of another type.
"""

from __future__ import annotations

from collections.abc import Mapping

from sync.decode_v1 import created_ms
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

_STATUS = {"streaming": "pending"}


def message_v2(
    message_id: str,
    message_type: str,
    data: Mapping[str, object],
    *,
    stamp: str,
    row_ms: int | None,
    directory: str | None,
) -> Message:
    """Return a message of V2; its role is its native type.

    row_ms: when the row was created, for messages that do not say so themselves.
    directory: the session's, for relative paths.
    """
    provider, model = provider_and_model(data)
    collected = MessageParts(directory)
    _add_content(collected, message_type, data)
    collected.add("error", error_text(data.get("error")))
    pieces, edits = collected.finish()
    return Message(
        id=message_id,
        role=message_type,
        created_ms=created_ms(data, row_ms),
        stamp=stamp,
        agent=filled(data.get("agent")),
        provider=provider,
        model=model,
        cost=cost(data.get("cost")),
        tokens=tokens(data.get("tokens")),
        finish=filled(data.get("finish")),
        parts=pieces,
        edits=edits,
    )


def _add_content(collected: MessageParts, message_type: str, data: Mapping[str, object]) -> None:
    match message_type:
        case "user":
            _add_prompt(collected, data)
        case "assistant":
            for item in sequence(data.get("content")):
                _add_item(collected, mapping(item))
            collected.add_snapshot(sequence(mapping(data.get("snapshot")).get("files")))
        case "shell":
            _add_shell(collected, data)
        case "compaction":
            collected.add("summary", data.get("summary"))
            # The latest messages once more, as the model was given them.
            collected.add("summary", data.get("recent"), own=False)
        case _:
            # synthetic, system, skill, and whatever later versions add.
            name = string(data.get("name"))
            for text in (data.get("text"), data.get("description"), name):
                collected.add("synthetic", text, name=name, own=False)


def _add_prompt(collected: MessageParts, data: Mapping[str, object]) -> None:
    if data.get("synthetic") or data.get("ignored"):
        collected.add("synthetic", data.get("text"), own=False)
    else:
        collected.add("text", data.get("text"))
    for file in map(mapping, sequence(data.get("files"))):
        collected.add_file(file.get("mime"), file.get("name"), file.get("uri"))
    for agent in sequence(data.get("agents")):
        collected.add("agent", mapping(agent).get("name") or agent)
    for skill in sequence(data.get("skills")):
        collected.add("synthetic", mapping(skill).get("name") or skill, own=False)


def _add_shell(collected: MessageParts, data: Mapping[str, object]) -> None:
    command = filled(data.get("command"))
    time = mapping(data.get("time"))
    if command:
        collected.add_part(
            Part(
                kind="command",
                text=shrink(command),
                status=string(data.get("status")),
                started_ms=time_ms(time.get("created")),
                ended_ms=time_ms(time.get("completed")),
            )
        )
    output = data.get("output")
    collected.add("output", mapping(output).get("output") or output)


def _add_item(collected: MessageParts, item: Mapping[str, object]) -> None:
    match item.get("type"):
        case "text":
            if item.get("synthetic") or item.get("ignored"):
                collected.add("synthetic", item.get("text"), own=False)
            else:
                collected.add("text", item.get("text"))
        case "reasoning":
            collected.add("reasoning", item.get("text"))
        case "tool":
            collected.add_call(_call(item))
        case "file":
            collected.add_file(item.get("mime"), item.get("name"), item.get("uri"))
        case _:
            # Of a later version: worth finding, but nobody knows whose words it is.
            collected.add("text", item.get("text"), own=False)


def _call(item: Mapping[str, object]) -> Call:
    state = mapping(item.get("state"))
    time = mapping(item.get("time"))
    status = filled(state.get("status"))
    structured = mapping(state.get("structured"))
    metadata = mapping(state.get("metadata"))
    content = [mapping(part) for part in sequence(state.get("content"))]
    outputs = [text for part in content if (text := filled(part.get("text")))]
    if not outputs:
        # The read tool keeps a file's text here; a running command, what it printed so far.
        partial = filled(structured.get("content")) or filled(metadata.get("output"))
        outputs = [partial] if partial else []
    return Call(
        name=filled(item.get("name")) or "unknown",
        status=_STATUS.get(status or "", status),
        input=state.get("input"),
        title=filled(state.get("title")) or filled(metadata.get("title")),
        started_ms=time_ms(time.get("ran")) or time_ms(time.get("created")),
        ended_ms=time_ms(time.get("completed")),
        outputs=outputs,
        error=error_text(state.get("error")),
        metadata=(structured, metadata),
        files=[part for part in content if part.get("type") == "file"],
        # `truncated` says false where the middle was cut out: the file tells.
        cut_to=output_file((state, metadata, structured)),
    )
