"""The order of a session's messages where two generations hold pieces of one conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from sync.model import OnlyIn

Kind = Literal["v1", "v2", "input"]

_CLOCK = re.compile("[a-z]+_([0-9a-f]{12})")
_SLACK = 1 << 40
"""A part may be this much older than its message (three days) without seeming far newer."""


@dataclass(frozen=True, slots=True)
class Header:
    """A message without its body.

    position: row number in V1, seq in V2. updated_ms: when it or a part of it last changed,
    where that is not the moment of an import. only_in: set where the newer generation has the
    session, but not this message. older: what V1 has of a message of V2.
    reverted_from: id of the part from which on a revert undid the message.
    """

    id: str
    kind: Kind
    position: int
    created_ms: int
    updated_ms: int
    stamp: str
    only_in: OnlyIn | None = None
    older: Header | None = None
    reverted_from: str | None = None


def merge(v1: Iterable[Header], v2: Iterable[Header]) -> list[Header]:
    """Return all messages in conversation order, each id once: V2's row wins.

    V2's stay in their order; V1's go between them by time, among themselves by time and row.
    """
    newer = sorted(v2, key=lambda header: header.position)
    older = sorted(without(v1, newer), key=lambda header: (header.created_ms, header.position))
    merged: list[Header] = []
    latest = next_older = 0
    for header in newer:
        # A queued prompt is older than the answer it waited for, and still comes after it.
        latest = max(latest, header.created_ms)
        while next_older < len(older) and older[next_older].created_ms < latest:
            merged.append(older[next_older])
            next_older += 1
        merged.append(header)
    return merged + older[next_older:]


def is_doubtful(v1: Sequence[Header], v2: Sequence[Header]) -> bool:
    """Tell whether only the bodies of messages can say how V1's come into order.

    Rows are written in order, so time and row number disagree where a clock went back or an
    import wrote the rows; equal times are an import's, too.
    """
    older = without(v1, v2)
    if older and v2:
        return True
    by_time = sorted(older, key=lambda header: (header.created_ms, header.position))
    return any(
        a.position > b.position or a.created_ms == b.created_ms for a, b in pairwise(by_time)
    )


def without(v1: Iterable[Header], v2: Iterable[Header]) -> list[Header]:
    """Return those of V1's messages that V2 does not have."""
    ids = {header.id for header in v2}
    return [header for header in v1 if header.id not in ids]


def after_parents(headers: Sequence[Header], parents: Mapping[str, str]) -> list[Header]:
    """Return headers with every message moved behind its parent, and otherwise as they are.

    parents: message id to parent id; unknown parents and circles of parents are ignored.
    """
    known = {header.id for header in headers}
    placed: set[str] = set()
    waiting: dict[str, list[Header]] = {}
    result: list[Header] = []
    for header in headers:
        parent = parents.get(header.id)
        if parent in known and parent not in placed and parent is not None:
            waiting.setdefault(parent, []).append(header)
            continue
        ready = [header]
        while ready:
            one = ready.pop(0)
            result.append(one)
            placed.add(one.id)
            ready = waiting.pop(one.id, []) + ready
    return result + [header for header in headers if header.id not in placed]


def part_age(message_id: str, part_id: str) -> int:
    """Return what sorts the parts of one message as OpenCode made them; 0 for foreign ids.

    Ids hold the low 48 bits of a clock that wraps, so they are compared by their distance
    from their message's.
    """
    message, part = _CLOCK.match(message_id), _CLOCK.match(part_id)
    if message is None or part is None:
        return 0
    return (int(part[1], 16) - int(message[1], 16) + _SLACK) % (1 << 48)
