"""What an older copy of a session still has, and the newer one lost: added to it, and marked.

Nothing counts twice: of a message that both have, only pieces are added, never cost or tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sync.model import Message, OnlyIn, Part

LOST_BY_IMPORT = frozenset({"subtask", "synthetic", "retry"})
"""Kinds of parts of V1 that its import into V2 drops: prompts handed to subagents, ignored text,
notes of retries. It also empties outputs that a compaction had cleared."""


def is_lost_by_import(message: Message) -> bool:
    """Tell whether a message of V1 has nothing that V2 would have kept."""
    return bool(message.parts) and all(part.kind in LOST_BY_IMPORT for part in message.parts)


def with_older_parts(newer: Message, older: Message, only_in: OnlyIn) -> Message:
    """Return the newer copy of a message with the pieces that only the older one still has."""
    said = "\n".join(part.text for part in newer.parts)
    lost = [
        replace(part, only_in=only_in, call=part.call if part.kind == "output" else None)
        for part in _candidates(newer, older)
        if part.text and part.text not in said
    ]
    return replace(newer, parts=(*newer.parts, *lost)) if lost else newer


def _candidates(newer: Message, older: Message) -> Iterator[Part]:
    names = {part.call: part.name for part in newer.parts if part.kind == "tool"}
    older_names = {part.call: part.name for part in older.parts if part.kind == "tool"}
    left: dict[int | None, int] = {}
    for part in newer.parts:
        if part.kind == "output":
            left[part.call] = left.get(part.call, 0) + len(part.text)
    for part in older.parts:
        if part.kind in LOST_BY_IMPORT:
            yield part
        elif part.kind == "output" and part.call is not None:
            same = part.call in names and names[part.call] == older_names.get(part.call)
            # Longer than what is left of it: a clearing leaves a short note, or nothing.
            if same and len(part.text) > left.get(part.call, 0):
                yield part
